"""Reads the tool list of one connection, and again when the upstream announces a change."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import mcp_types
from mcp import Client, ClientSession, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError
from pydantic import ValidationError

from callability.gateway.config.approvals import Fingerprint, canonical_form, fingerprint
from callability.gateway.upstream.authorization import is_not_renewed
from callability.gateway.upstream.failure import (
    CLOSED,
    MESSAGE_BYTES,
    NOT_MCP,
    Failure,
    ListFault,
    UnreadAnswer,
    fault_of_shape,
    fault_of_text,
    is_pool_full,
    misplaced_header,
    usable_tool,
    without_deep_tools,
)
from callability.gateway.upstream.messages import AS_IT_CAME, EXCHANGE, Exchange, list_stand_in
from callability.gateway.upstream.tool_call import answer_failure
from callability.process.logs import fields


@dataclass(frozen=True, slots=True)
class UpstreamTool:
    """A tool of an upstream; of a server in quarantine only the name and the fingerprint are kept (A.4)."""

    name: str
    fingerprint: Fingerprint
    definition: mcp_types.Tool | None = field(repr=False)

    def without_text(self) -> UpstreamTool:
        """Return what may be kept of the tool while its server is in quarantine."""
        return UpstreamTool(self.name, self.fingerprint, None)


Witness = Callable[[str, tuple[UpstreamTool, ...]], Awaitable[None]]
"""Is awaited with the name of a server and each list that it gives, before the list counts."""


async def witness_nothing(server: str, tools: tuple[UpstreamTool, ...]) -> None:
    """Witness nothing."""


def upstream_tool(tool: mcp_types.Tool) -> UpstreamTool:
    """Return a tool with its fingerprint."""
    return UpstreamTool(tool.name, fingerprint(tool), tool)


MAX_PAGES = 100
MAX_TOOLS = 20_000
"""Tools of one upstream: a longer list would delay every discovery."""
MAX_BYTES = 4 * MESSAGE_BYTES
"""Bytes of all pages of a list, as JSON: they are in memory together."""
# In seconds, between two listings: an upstream that announces without end must not keep the gateway busy.
LEAST_PAUSE = 0.1
LONGEST_PAUSE = 30.0
QUIET_SECONDS = 10.0
"""A change that is announced sooner after the listing and the pause before it belongs to the same series."""
SHORT_PAUSES = 4
"""Listings of a series that are followed by the least pause; from then on it is doubled."""
RESTLESS = 8
"""Listings of a series from which on discovery does not wait for the upstream."""
LISTEN_AGAIN_SECONDS = 10.0
MOST_ODD = 2
"""An upstream that is not just late or busy is lost after so many failed listings, without a success between them."""
KEPT_SECONDS = 600.0
"""For how long an upstream that is late or busy keeps its tools without a listing that succeeds."""
_REFUSED = frozenset({401, 403})
_DEFERRED = frozenset({408, 429})

_logger = logging.getLogger("callability.gateway.upstream")


class Listing:
    """The tools that an upstream lists; `take` is handed each new list, with what is wrong with the tools that are left
    out of it, and `lost` why there is none any more. `witness` is awaited with each list before `take` has it.

    With `has_consent`, a person would have to authorize another connection, so that no refused listing ends this one.
    With `again_seconds` the list is read again now and then: a change that is announced over HTTP can get lost with its
    stream.
    """

    def __init__(
        self,
        name: str,
        take: Callable[[tuple[UpstreamTool, ...], tuple[str, ...]], None],
        lost: Callable[[Failure], None],
        *,
        list_seconds: float,
        again_seconds: float | None,
        names_only: bool,
        witness: Witness,
        has_consent: bool,
    ) -> None:
        self._name = name
        self._take = take
        self._lost = lost
        self._list_seconds = list_seconds
        self._again_seconds = again_seconds
        self._has_consent = has_consent
        self._names_only = names_only
        self._witness = witness
        self._announced = 0
        self._covered = 0
        self._is_announced = False
        self._change = asyncio.Event()
        self._turn = asyncio.Event()
        self._wanted = asyncio.Event()
        self._ended = False
        self._series = 0
        self._quiet_at = 0.0
        self._is_reported = False
        self._odd = 0
        self.is_kept = False
        """Whether the tools are those of an earlier listing, since the last one failed."""
        self._kept_until = 0.0
        self._listed_at = 0.0
        self._is_doubted = False
        self._is_crowded_out = False
        self._is_refused = False

    async def read(self, session: ClientSession, exchange: Exchange) -> None:
        """List the tools.

        Raises:
            MCPError: the upstream gives none.
            ListFault: it gives one that is not MCP.
            EndlessListError: they are too many.
        """
        covered = self._announced
        try:
            tools, left_out = await _tools(session, exchange, self._name)
        except ValidationError as error:
            raise fault_of_shape(error) from None
        except MCPError as error:
            if unread := _unread(error, exchange):
                raise fault_of_text(unread) from None
            raise
        if left_out and not tools:
            raise ListFault(f"{NOT_MCP}: {left_out[0]}")
        kept = tuple(tool.without_text() for tool in tools) if self._names_only else tools
        await self._witness(self._name, kept)
        self._take(kept, left_out)
        self._covered = max(self._covered, covered)
        self._odd, self.is_kept, self._is_crowded_out, self._is_refused = 0, False, False, False
        self._listed_at = time.monotonic()

    async def take_message(self, message: IncomingMessage) -> None:
        """Take a message of the upstream that answers no request."""
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._announce()

    @property
    def is_current(self) -> bool:
        """Whether every change that was announced is read, or could not be, or the connection has ended."""
        return self._ended or self._covered >= self._announced

    @property
    def is_restless(self) -> bool:
        """Whether changes are announced again and again; it ends when none was for a while."""
        return self._series >= RESTLESS and time.monotonic() < self._quiet_at

    def doubt(self) -> None:
        """List the tools once more; if that fails, whatever the reason, the upstream is lost."""
        self._is_doubted = True
        self._change.set()

    @property
    def is_slow(self) -> bool:
        """Whether reading a change may take long: it is restless, or calls have all connections."""
        return self.is_restless or self._is_crowded_out

    async def current(self) -> None:
        """Wait for the changes that were announced until now, and let no pause delay the listing that reads them."""
        announced = self._announced
        while self._covered < announced and not self._ended:
            self._wanted.set()
            await self._turn.wait()

    def end(self) -> None:
        """Release all who wait."""
        self._ended = True
        self._turn.set()

    async def follow(self, client: Client) -> None:
        """Read the list again at every change, for as long as the connection lasts."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, client)
            while True:
                with anyio.move_on_after(self._seconds_to_next):
                    await self._change.wait()
                if self._is_announced:
                    self._count()
                self._is_announced = False
                self._change.clear()
                self._wanted.clear()
                await self._read_again(client.session)
                await self._pause()

    @property
    def _seconds_to_next(self) -> float | None:
        if self._again_seconds is None or not self.is_kept:
            return self._again_seconds
        return min(self._again_seconds, max(0.0, self._kept_until - time.monotonic()))

    def _count(self) -> None:
        """Count a listing that an announcement asked for."""
        self._series = self._series + 1 if time.monotonic() < self._quiet_at else 1
        self._quiet_at = math.inf
        if self._series >= RESTLESS and not self._is_reported:
            self._is_reported = True
            words = "`%s` announces changes of its tools again and again: they are read after pauses of up to %g s"
            _logger.warning(words, self._name, LONGEST_PAUSE, extra=fields(server=self._name))

    async def _pause(self) -> None:
        """Wait between two listings, longer the more there were; a call that waits for one ends the pause."""
        pause = LEAST_PAUSE
        if self._quiet_at == math.inf:
            pause = min(LEAST_PAUSE * 2 ** min(max(0, self._series - SHORT_PAUSES), 16), LONGEST_PAUSE)
            self._quiet_at = time.monotonic() + pause + QUIET_SECONDS
        await asyncio.sleep(LISTEN_AGAIN_SECONDS if self._is_refused else LEAST_PAUSE)
        with anyio.move_on_after(pause - LEAST_PAUSE):
            await self._wanted.wait()

    async def _read_again(self, session: ClientSession) -> None:
        covered = self._announced
        doubted, self._is_doubted = self._is_doubted, False
        exchange = Exchange(self._list_seconds)
        EXCHANGE.set(exchange)
        try:
            async with asyncio.timeout(self._list_seconds):
                await self.read(session, exchange)
        except ListFault as fault:
            self._lost(fault.failure)
        except (MCPError, EndlessListError, TimeoutError) as error:
            self._unread(error, exchange, covered, doubted=doubted)
        self._turn.set()
        self._turn = asyncio.Event()

    def _unread(self, error: Exception, exchange: Exchange, covered: int, *, doubted: bool) -> None:
        """Keep the earlier list if nothing shows that it has changed, and a later listing may succeed."""
        known = exchange.failure
        if known is None and isinstance(error, MCPError):
            known = answer_failure(error, over_http=self._again_seconds is not None)
        failure = known or Failure("did not list its tools again", exception=type(error).__name__)
        is_change = covered > self._covered
        self._is_refused = self._has_consent and (is_not_renewed(failure) or failure.status in _REFUSED)
        self._is_crowded_out = is_pool_full(failure) or self._is_refused
        if self._is_crowded_out:
            # What is in the way ends some day, and calls of changed tools wait for the listing.
            self._is_doubted = doubted
            if is_change or doubted:
                self._change.set()
        elif doubted or is_change or exchange.lost or self._is_final(error, known):
            self._lost(failure)
            self._covered = max(self._covered, covered)
            return
        self._keep(failure)

    def _is_final(self, error: Exception, known: Failure | None) -> bool:
        """Say whether a listing that nothing asked for failed in a way that another one would not change.

        A single odd answer may come from elsewhere, such as a proxy; an error in JSON-RPC may not come again.
        """
        if isinstance(error, EndlessListError) or known == CLOSED or (known and known.status in _REFUSED):
            return True
        if known is None or _is_busy(error, known):
            return False
        self._odd += 1
        return self._odd >= MOST_ODD

    def _keep(self, failure: Failure) -> None:
        """Keep the earlier list for a while, and report that once until a listing succeeds."""
        now = time.monotonic()
        if self.is_kept and now >= self._kept_until:
            self._lost(failure)
        elif not self.is_kept:
            self.is_kept = True
            until = self._listed_at + KEPT_SECONDS
            # If listings are further apart than that, the time begins with the first one that failed.
            self._kept_until = until if until > now else now + KEPT_SECONDS
            words = "`%s` keeps its tools, since they could not be listed again: it %s"
            _logger.info(words, self._name, failure.words, extra=fields(server=self._name))

    def _announce(self) -> None:
        self._is_announced = True
        self._want_list()

    def _want_list(self) -> None:
        self._announced += 1
        self._change.set()

    async def _listen(self, client: Client) -> None:
        """Listen for changes as in MCP 2026-07-28, if the upstream announces them on a stream."""
        tools = client.server_capabilities.tools
        if not tools or not tools.list_changed:
            return
        EXCHANGE.set(Exchange(None))
        while True:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    # Nobody announces what changed before the stream was open.
                    self._want_list()
                    async for _ in events:
                        self._announce()
            except ListenNotSupportedError:
                return
            except (MCPError, RuntimeError, TimeoutError) as error:
                if isinstance(error, MCPError) and error.code == mcp_types.METHOD_NOT_FOUND:
                    return
                words, about = "`%s` ended the stream of its changes (%s)", fields(server=self._name)
                _logger.info(words, self._name, type(error).__name__, extra=about)
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)


class EndlessListError(Exception):
    """A tool list does not end, or is too long. Its text says what the server does, after the server's name."""


def _unread(error: MCPError, exchange: Exchange) -> bytes:
    """Return the answer that the SDK could not read as a message; empty if that is not what is wrong."""
    text = error.data.text if isinstance(error.data, UnreadAnswer) else bytes(exchange.text)
    return text if exchange.failure is None and error.code == mcp_types.PARSE_ERROR else b""


def _is_busy(error: Exception, failure: Failure) -> bool:
    """Say whether an upstream is late or busy."""
    status = failure.status or 0
    return isinstance(error, TimeoutError) or status in _DEFERRED or status >= 500


async def _tools(
    session: ClientSession, exchange: Exchange, name: str
) -> tuple[tuple[UpstreamTool, ...], tuple[str, ...]]:
    """Return the tools that can be used, and what is wrong with each of the others."""
    tools: list[UpstreamTool] = []
    left_out: list[str] = []
    cursors: list[str] = []
    size = listed = 0
    for _ in range(MAX_PAGES):
        params = mcp_types.PaginatedRequestParams(cursor=cursors[-1]) if cursors else None
        try:
            page = await session.list_tools(params=params)
        except MCPError as error:
            if error.code == mcp_types.METHOD_NOT_FOUND and exchange.failure is None:
                return tuple(tools), tuple(left_out)
            unread = _unread(error, exchange)
            as_it_came = without_deep_tools(unread) if unread else None
            if as_it_came is None:
                raise
            page = mcp_types.ListToolsResult.model_validate(list_stand_in(as_it_came))
        as_it_came = (page.meta or {})[AS_IT_CAME]
        size += len(canonical_form(as_it_came))
        if size > MAX_BYTES:
            raise EndlessListError(f"lists tools of more than {MAX_BYTES:,} bytes together")
        names = {tool.name for tool in page.tools}
        for index, given in enumerate(as_it_came["tools"], start=listed):
            tool = usable_tool(index, given)
            if isinstance(tool, str):
                left_out.append(tool)
            elif tool.name in names:
                tools.append(upstream_tool(tool))
            else:
                left_out.append(misplaced_header(index, tool))
        listed += len(as_it_came["tools"])
        if listed > MAX_TOOLS:
            break
        if not page.next_cursor:
            return tuple(tools), tuple(left_out)
        if page.next_cursor in cursors:
            words = "`%s` gave a cursor of its list of tools twice: the list ends there"
            _logger.info(words, name, extra=fields(server=name))
            return tuple(tools), tuple(left_out)
        cursors.append(page.next_cursor)
    raise EndlessListError(f"lists more than {MAX_TOOLS:,} tools, or them on more than {MAX_PAGES} pages")
