"""One connection to an upstream: a single task opens, holds and closes it, and calls come from any task.

A child that is quiet is sent a ping: one that works answers it, and one that hangs does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Literal, Protocol

import anyio
import httpx2
from mcp import Client, ClientSession, MCPError
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, UNSUPPORTED_PROTOCOL_VERSION, CallToolResult, Implementation
from pydantic import ValidationError

from callability.contract.vocabulary import LoadFailure, LoadPhase
from callability.gateway.upstream.event_stream import EventTransport
from callability.gateway.upstream.failure import (
    MAY_HAVE_RUN,
    MESSAGE_BYTES,
    NOT_MCP,
    NOT_SENT,
    TOO_LONG,
    Failure,
    ListFault,
    UpstreamError,
    UpstreamRefusal,
    ending_of,
    few_of,
    is_pool_full,
    transport_failure,
)
from callability.gateway.upstream.http_client import HttpClient
from callability.gateway.upstream.http_response import SESSION_LOST
from callability.gateway.upstream.listing import EndlessListError, Listing, UpstreamTool, Witness, witness_nothing
from callability.gateway.upstream.messages import EXCHANGE, PROBE, CallDeadline, Exchange, WholeResult, filter_streams
from callability.gateway.upstream.stdio import StdioTransport, only_garbage
from callability.gateway.upstream.target import HttpTarget, Secrets, StdioTarget, Target, Unreachable
from callability.gateway.upstream.tool_call import CallReport, PassedOn, answer_failure, call_request
from callability.process.logs import fields

_SDK_TOO_LONG = f"exceeded the {MESSAGE_BYTES} byte limit"
_FIRST_ERROR = 400
_SELF_EXPLANATORY = (httpx2.HTTPError, httpx2.InvalidURL, MCPError, ValidationError, EndlessListError)


def opening_failure(error: BaseException, status: int | None = None) -> Failure:
    """Return a failure for each leaf of a group; `status` is the HTTP status with which the last answer came."""
    return Failure.together(_failure(leaf, status) for leaf in _leaves(error))


def is_too_long(error: BaseException) -> bool:
    """Say whether a message was refused for its length: by the stdio transport, or in an event stream by the SDK."""
    if not isinstance(error, MCPError):
        return False
    return error.data is TOO_LONG or (error.code == CONNECTION_CLOSED and _SDK_TOO_LONG in error.message)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group; an error that says nothing is replaced by its cause."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    elif error.__cause__ is not None and not isinstance(error, _SELF_EXPLANATORY):
        yield from _leaves(error.__cause__)
    else:
        yield error


def _failure(error: BaseException, status: int | None) -> Failure:
    if isinstance(error, (httpx2.HTTPError, httpx2.InvalidURL)):
        return transport_failure(error)
    if is_too_long(error):
        return TOO_LONG
    if isinstance(error, ListFault):
        return error.failure
    code = error.code if isinstance(error, MCPError) else None
    words, kind, phase = "could not be connected", LoadFailure.OTHER, None
    if isinstance(error, EndlessListError):
        words = str(error)
    elif isinstance(error, ValidationError) or code == PARSE_ERROR:
        words, kind, phase = NOT_MCP, LoadFailure.NOT_MCP, LoadPhase.RESPONSE
    # The SDK raises RuntimeError for a handshake that names a version it does not know.
    elif isinstance(error, RuntimeError) or code == UNSUPPORTED_PROTOCOL_VERSION:
        words = "speaks no version of MCP that this gateway speaks"
    elif code is not None:
        words, phase = f"answered the opening with JSON-RPC error {code}", LoadPhase.RESPONSE
        if status is not None and status >= _FIRST_ERROR:
            return Failure(words, type(error).__name__, status=status, kind=LoadFailure.HTTP_STATUS, phase=phase)
    return Failure(words, exception=type(error).__name__, kind=kind, phase=phase)


PING_SECONDS = 3
"""How long a child has for the answer to a ping, after a call during which it wrote nothing."""


class Heard(Protocol):
    """A server that says all it says in one stream."""

    heard: int
    """How many messages arrived from it."""


class Silence:
    """Pings a child that wrote nothing during a call; `hangs` gets the failure of that call if it still does not.

    So is a server that sends one stream of events.

    Calls in the same silence share one ping.
    """

    def __init__(self, child: Heard, hangs: Callable[[Failure], None]) -> None:
        self._child = child
        self._hangs = hangs
        self._silent_since = -1
        self._failures: asyncio.Queue[tuple[int, Failure]] = asyncio.Queue()
        self._ended = False
        self._decided = asyncio.Event()
        self._decided.set()

    def ask(self, since: int, failure: Failure) -> None:
        """Have the child pinged if it wrote nothing after `since` messages, when the call began that has failed."""
        if since == self._child.heard != self._silent_since and not self._ended:
            self._silent_since = since
            self._failures.put_nowait((since, failure))
            self._decided.clear()

    async def wait_for_ping(self) -> None:
        """Wait until no ping is under way, or the connection has ended."""
        await self._decided.wait()

    def end(self) -> None:
        """Release all who wait; nothing is asked from now on."""
        self._ended = True
        self._decided.set()

    async def follow(self, session: ClientSession) -> None:
        """Ping the child when a call has asked for it, for as long as the connection lasts."""
        while True:
            since, failure = await self._failures.get()
            await _ping(session)
            if self._child.heard == since:
                self._hangs(failure)
            elif self._failures.empty():
                self._decided.set()


async def _ping(session: ClientSession) -> None:
    """Give a child that works quietly time to say something; that it knows no `ping` is an answer as well."""
    with suppress(MCPError, ValidationError, TimeoutError):
        async with asyncio.timeout(PING_SECONDS):
            await session.send_ping()


State = Literal["closed", "connecting", "connected", "failed"]

# For the DELETE that ends an HTTP session; a child's end has limits of its own.
GOODBYE_SECONDS = 2
PROBE_SECONDS = 5
"""The longest time for the answer to `server/discover`; it has a third of the time of the opening, if that is less."""
FAILURES = 3
"""After so many calls that failed, without a success between them, the tools are listed, and the session with them."""

_CLIENT = Implementation(name="callability", version=version("callability"))
_CLOSED = Failure("was disconnected by the gateway")
_RENEWED = Failure("is being reconnected")
_NEEDS_INPUT = Failure("asked for input, which this gateway does not pass on")
_WITHIN_THE_SESSION = (None, LoadPhase.REQUEST, LoadPhase.RESPONSE)
_NOT_ACCEPTED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
_ENDS = frozenset({LoadFailure.EXITED, LoadFailure.CLOSED, LoadFailure.NOT_MCP})
_logger = logging.getLogger("callability.gateway.upstream")


class Connection:
    """Goes from connecting to connected or failed, and never back; `tools` are the given ones until it has its own.

    With `names_only` only the names of the tools are kept. With `opens_older` the handshake is that of MCP 2025-11-25
    alone, since the server did not answer, or did not survive, the newer one. An opening that fails as `expected` is
    not logged, nor is what the child writes meanwhile.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        *,
        open_seconds: float,
        list_seconds: float,
        refresh_seconds: float,
        tools: tuple[UpstreamTool, ...],
        names_only: bool = False,
        opens_older: bool = False,
        expected: Failure | None = None,
        witness: Witness = witness_nothing,
    ) -> None:
        self._expected = expected
        self.state: State = "connecting"
        self.failure: Failure | None = None
        self.tools = tools
        self.left_out: tuple[str, ...] = ()
        """What is wrong with each tool that it lists and that cannot be used."""
        self.stood = False
        """Whether it has ever been connected."""
        self.settled = asyncio.Event()
        self.ended = asyncio.Event()
        self._name = name
        self._target = target
        self._open_seconds = open_seconds
        self._listing = Listing(
            name,
            self._take,
            self._end_when_idle,
            list_seconds=list_seconds,
            again_seconds=refresh_seconds if isinstance(target, HttpTarget) else None,
            names_only=names_only,
            witness=witness,
            has_consent=_may_ask(target),
        )
        self._child = (
            StdioTransport(name, target, self._lose, is_held=expected is not None)
            if isinstance(target, StdioTarget)
            else None
        )
        self._stream: StdioTransport | EventTransport | None = self._child
        """What all messages of the server arrive by, if that is one stream."""
        if isinstance(target, HttpTarget) and target.transport == "sse":
            self._stream = EventTransport(name, target, self._lose)
        self._silence = Silence(self._stream, self._end_when_idle) if self._stream else None
        self._opening = Exchange(open_seconds, probe_seconds=_probe_seconds(target, open_seconds))
        self._opens_older = opens_older
        self._is_probing = False
        self._ended_at_probe = False
        self._session: ClientSession | None = None
        self._calls = 0
        self._failures = 0
        self._report = CallReport(name, Secrets.of(target))
        self._lists = False
        self._ended: Failure | None = None
        self._leave = asyncio.Event()
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Open, hold until asked to close, and close: all in the calling task, as the SDK's cancel scopes require."""
        if isinstance(self._target, Unreachable):
            self._fail(self._target.failure)
        if self.state != "connecting":
            # It was closed, or given up, before this task had its first turn.
            return
        exchange = self._opening
        EXCHANGE.set(exchange)
        if isinstance(self._target, HttpTarget) and self._target.authorization is not None:
            self._target.authorization.begin()
        expiry = asyncio.get_running_loop().call_later(self._open_seconds, self._expire)
        try:
            with self._scope:
                await self._hold(expiry, exchange)
        except Exception as error:
            self._fail(exchange.failure or opening_failure(error, exchange.status))
        finally:
            expiry.cancel()
            self._fail(_CLOSED)

    def retire(self) -> None:
        """Accept no more calls, and close when those under way have ended."""
        self._end_when_idle(_RENEWED)

    def give_up(self, failure: Failure) -> None:
        """End the opening; waiting callers get the failure at once, without waiting for the clean-up."""
        self._fail(failure)
        self._scope.cancel()

    def late_failure(self, failure: Failure) -> Failure:
        """Return why an opening failed that ran out of time: what was received may explain it better."""
        if self._child is not None and self._child.is_garbled:
            return only_garbage(failure)
        return self._opening.known or self._opening.denial or failure

    def close(self) -> None:
        """Ask the owner to close; callers that wait for an opening or an answer get an error."""
        if self.state == "connecting":
            self._scope.cancel()
        self.state, self.failure = "closed", _CLOSED
        self._ended = self._ended or _CLOSED
        self.settled.set()
        self.ended.set()
        self._end_waits()
        self._leave.set()

    @property
    def opens_older(self) -> bool:
        """Whether the next connection needs only the older handshake, as this one did that was connected."""
        return self.stood and self._opens_older

    @property
    def said(self) -> tuple[str, ...]:
        """The last lines that a child wrote on its standard error, without secrets."""
        return () if self._child is None else self._child.said

    @property
    def is_current(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.settled.is_set() and self._listing.is_current

    @property
    def is_failing(self) -> bool:
        """Whether its last call failed, or its last listing."""
        return self.state == "connected" and (self._failures > 0 or self._listing.is_kept)

    @property
    def is_restless(self) -> bool:
        """Whether the upstream announces changes of its tools again and again."""
        return self.state == "connected" and self._listing.is_restless

    @property
    def is_slow_to_list(self) -> bool:
        """Whether reading a change of the tools may take long."""
        return self.state == "connected" and self._listing.is_slow

    async def current(self) -> None:
        """Wait until the changes of the tool list that the upstream has announced are read."""
        await self._listing.current()

    async def wait_for_ping(self) -> None:
        """Wait until no ping is under way, which may show that the child hangs."""
        if self._silence is not None:
            await self._silence.wait_for_ping()

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None,
        deadline: CallDeadline,
        *,
        meta: Mapping[str, Any] | None = None,
        progress: ProgressFnT | None = None,
    ) -> CallToolResult:
        """Send one `tools/call`, wait for its answer until its deadline, and never send it twice.

        Raises:
            UpstreamRefusal: the upstream answered with a JSON-RPC error.
            UpstreamError: there is no answer, or none that can be passed on.
        """
        if self.failure is not None or self._session is None:
            raise UpstreamError(self._name, self.failure or _CLOSED, NOT_SENT)
        request = call_request(self._name, tool, arguments, meta)
        exchange = Exchange(deadline.seconds)
        outer = EXCHANGE.set(exchange)
        heard = self._stream.heard if self._stream else None
        self._calls += 1
        try:
            async with deadline.keep():
                result = await self._session.send_request(
                    request, WholeResult, progress_callback=deadline.extended_by(progress)
                )
        except TimeoutError:
            raise self._count_error(self._timeout_error(deadline, heard, exchange)) from None
        except (MCPError, ValidationError) as error:
            refusal = self._call_error(error, exchange)
            self._report.report_refusal(tool, refusal.failure)
            raise self._count_error(refusal) from None
        except asyncio.CancelledError:
            # The agent waited for less time than the gateway does.
            self._count_failure()
            raise
        finally:
            EXCHANGE.reset(outer)
            self._calls -= 1
            self._leave_if_idle()
        self._failures = 0
        given = result.as_it_came
        if given.get("resultType") == "input_required":
            raise UpstreamError(self._name, _NEEDS_INPUT, MAY_HAVE_RUN)
        answer = PassedOn.of(given, lambda text: Secrets.of(self._target).mask(text))
        self._report.odd(tool, answer.odd)
        return answer

    async def _hold(self, expiry: asyncio.TimerHandle, exchange: Exchange) -> None:
        """Open and hold the connection: by another child if one ended over the newer handshake, and by HTTP+SSE if an
        address that takes no POST may be of that transport.
        """
        self._is_probing = self._child is not None and not self._opens_older
        try:
            await self._hold_one(expiry, exchange)
            return
        except Exception:
            if not self._ended_at_probe and not self._may_send_events(exchange):
                raise
        if isinstance(self._target, HttpTarget):
            self._stream = EventTransport(self._name, self._target, self._lose)
            self._silence = Silence(self._stream, self._end_when_idle)
        else:
            words = "`%s` ended at `%s`: it is started again, and opened with `initialize`"
            if self._expected is None:
                _logger.info(words, self._name, PROBE, extra=fields(server=self._name))
            self._is_probing, self._opens_older = False, True
        await self._hold_one(expiry, exchange)

    def _may_send_events(self, exchange: Exchange) -> bool:
        """Say whether the older HTTP transport is tried: the config names none, and the handshake was not accepted."""
        is_unnamed = isinstance(self._target, HttpTarget) and self._target.transport is None
        return is_unnamed and self.state == "connecting" and not self._lists and exchange.status in _NOT_ACCEPTED

    async def _hold_one(self, expiry: asyncio.TimerHandle, exchange: Exchange) -> None:
        async with self._client() as client:
            self._is_probing = False
            if client.session.discover_result is None and (exchange.unanswered or exchange.lost):
                self._opens_older = True
            self._lists = True
            await self._listing.read(client.session, exchange)
            expiry.cancel()
            if self.state == "connecting":
                self._session, self.state, self.stood = client.session, "connected", True
                self._release()
                self.settled.set()
                if isinstance(self._target, HttpTarget) and self._target.authorization is not None:
                    self._target.authorization.stand()
                counted = (count := len(self.tools), "tool" if count == 1 else "tools")
                _logger.info("`%s` is connected with %d %s", self._name, *counted, extra=fields(server=self._name))
            async with anyio.create_task_group() as group:
                group.start_soon(self._listing.follow, client)
                if self._silence is not None:
                    group.start_soon(self._silence.follow, client.session)
                await self._leave.wait()
                group.cancel_scope.cancel()
            self._scope.deadline = anyio.current_time() + GOODBYE_SECONDS

    def _take(self, tools: tuple[UpstreamTool, ...], left_out: tuple[str, ...]) -> None:
        """Replace the list of tools; an equal list keeps the old object, so that nothing is rebuilt for it."""
        if tools != self.tools:
            self.tools = tools
        # The name of a tool may be a secret.
        faults = tuple(map(Secrets.of(self._target).mask, left_out))
        if faults and faults != self.left_out:
            words = "`%s` lists tools that cannot be used, and are left out: %s"
            _logger.warning(words, self._name, few_of(faults), extra=fields(server=self._name))
        self.left_out = faults

    def _end_when_idle(self, failure: Failure) -> None:
        self._fail(failure)
        self._leave_if_idle()

    @asynccontextmanager
    async def _client(self) -> AsyncGenerator[Client]:
        async with AsyncExitStack() as stack:
            if self._stream is not None:
                client = self._speaking(self._stream.streams())
            else:
                assert isinstance(self._target, HttpTarget)
                http_client = await stack.enter_async_context(HttpClient(self._name, self._target))
                transport = streamable_http_client(
                    self._target.url, http_client=http_client, max_sse_event_size=MESSAGE_BYTES
                )
                client = self._speaking(transport)
            yield await stack.enter_async_context(client)

    def _speaking(self, transport: Transport) -> Client:
        # The newer revision has no HTTP+SSE.
        mode = "legacy" if self._opens_older or isinstance(self._stream, EventTransport) else "auto"
        return Client(
            filter_streams(transport),
            cache=None,
            client_info=_CLIENT,
            message_handler=self._listing.take_message,
            mode=mode,
        )

    def _expire(self) -> None:
        """End an opening at its deadline."""
        words = f"did not answer within {self._open_seconds:g} s"
        phase = None if self._child is None else LoadPhase.RESPONSE
        if self._child is not None and not self._child.is_garbled:
            words += "; `deadlines.open_seconds` sets this"
        late = Failure(words, exception="TimeoutError", kind=LoadFailure.TIMEOUT, phase=phase)
        self.give_up(self.late_failure(late))

    def _lose(self, failure: Failure) -> None:
        if self._is_probing and failure.kind in _ENDS:
            self._ended_at_probe = True
            return
        self._ended = self._ended or failure
        self._fail(failure)
        self._leave.set()

    def _fail(self, failure: Failure) -> None:
        """Accept no more calls; the first failure is the one that counts, and calls under way may still be answered."""
        if self.failure is None:
            if self._lists and self.state == "connecting" and failure.phase in _WITHIN_THE_SESSION:
                failure = replace(failure, phase=LoadPhase.LIST)
            # The name of a tool may be in it.
            failure = replace(failure, words=Secrets.of(self._target).mask(failure.words))
            self.state, self.failure = "failed", failure
            self.settled.set()
            self.ended.set()
            self._end_waits()
            if self._expected is not None and self._expected.words == failure.words:
                return
            self._release()
            _logger.warning("`%s` %s", self._name, failure.words, extra=fields(server=self._name))

    def _release(self) -> None:
        """Log what was held back, since the opening does not fail as expected."""
        self._expected = None
        if self._child is not None:
            self._child.release()

    def _end_waits(self) -> None:
        self._listing.end()
        if self._silence is not None:
            self._silence.end()

    def _leave_if_idle(self) -> None:
        if self.failure is not None and self._calls == 0:
            self._leave.set()

    def _count_error(self, error: UpstreamError) -> UpstreamError:
        """Count a call that failed, and return its error: a lost session may be reported in any words."""
        if not is_pool_full(error.failure):
            self._count_failure()
        return error

    def _count_failure(self) -> None:
        self._failures += 1
        if self._failures % FAILURES == 0:
            self._listing.doubt()

    def _timeout_error(self, deadline: CallDeadline, heard: int | None, exchange: Exchange) -> UpstreamError:
        if exchange.known is not None:
            return UpstreamError(self._name, exchange.known, ending_of(exchange.known))
        failure = Failure(deadline.words, exception="TimeoutError", kind=LoadFailure.TIMEOUT)
        # A child that hangs would do so forever; over HTTP each call stands alone.
        if self._silence is not None and heard is not None:
            self._silence.ask(heard, failure)
        return UpstreamError(self._name, failure, MAY_HAVE_RUN)

    def _call_error(self, error: MCPError | ValidationError, exchange: Exchange) -> UpstreamError:
        failure = exchange.failure or (TOO_LONG if is_too_long(error) else None)
        if failure is None and self._ended is not None:
            failure = replace(self._ended, words=f"{self._ended.words} before it answered")
        elif failure is None:
            failure = answer_failure(error, over_http=self._stream is None, text=bytes(exchange.text))
        if exchange.lost:
            self._fail(failure or Failure(SESSION_LOST))
        if failure is None:
            assert isinstance(error, MCPError)
            return UpstreamRefusal(self._name, error.code, Secrets.of(self._target).mask(error.message))
        return UpstreamError(self._name, failure, ending_of(failure))


def _may_ask(target: Target) -> bool:
    """Say whether a person may be asked while a connection is opened."""
    return isinstance(target, HttpTarget) and target.authorization is not None and target.authorization.may_ask


def _probe_seconds(target: Target, open_seconds: float) -> float | None:
    """Return the time for the answer to `server/discover`; None for the SDK's own, which stops while a person decides.

    The requests of an authorization have the limits of the request that needed it.
    """
    return None if _may_ask(target) else min(open_seconds / 3, PROBE_SECONDS)
