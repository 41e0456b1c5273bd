"""A child process as an MCP transport: one JSON-RPC message a line, and an end that takes the whole process group.

What it writes on its standard error is logged: a line each, masked, and at a limited rate.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import time
from asyncio.subprocess import PIPE
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace

import anyio
import mcp_types
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic_core import from_json

from callability.contract.vocabulary import LoadFailure, LoadPhase
from callability.gateway.upstream import process_group
from callability.gateway.upstream.failure import NOT_MCP, TOO_LONG, Failure, UnreadAnswer
from callability.gateway.upstream.messages import EXCHANGE, PROBE, OutgoingMessages, without_halves
from callability.gateway.upstream.target import Secrets, StdioTarget
from callability.process.logs import fields

LINE_CHARACTERS = 1000
MOST_LINES = 200
"""How many lines are logged in any `WINDOW_SECONDS`."""
WINDOW_SECONDS = 10
LATEST = 20
BUSY_SECONDS = 0.01
"""A message that takes longer to read is followed by a pause as long as that."""
AT_ONCE = 16
"""Lines between two turns of other tasks: what a child that has exited wrote last is soon read."""

_LINE_BYTES = 8 * LINE_CHARACTERS
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_logger = logging.getLogger("callability.gateway.upstream")


class StandardError:
    """Logs the lines of one child; after too many it pauses for `WINDOW_SECONDS`, then logs how many it left out.

    With `held` the lines are kept there, until `release`.
    """

    def __init__(
        self,
        name: str,
        secrets: Secrets,
        clock: Callable[[], float] = time.monotonic,
        held: deque[str] | None = None,
    ) -> None:
        self._name = name
        self._secrets = secrets
        self._clock = clock
        self._logged: deque[float] = deque(maxlen=MOST_LINES)
        self._left_out = 0
        self._held = held
        self.latest: deque[str] = deque(maxlen=LATEST)
        """The lines that were logged or held last."""

    def release(self) -> None:
        """Log the lines that were held; later ones are logged at once."""
        held, self._held = self._held or (), None
        for text in held:
            self._write(text)

    async def follow(self, stream: asyncio.StreamReader) -> None:
        """Log what a stream brings, to its end."""
        rest = b""
        try:
            while chunk := await stream.read(process_group.CHUNK_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                # One byte more than is read of a line shows that it was cut.
                rest = rest[: _LINE_BYTES + 1]
                for place, line in enumerate(lines):
                    self.log(line)
                    if place % AT_ONCE == 0:
                        await checkpoint()
            if rest:
                self.log(rest)
        finally:
            self._report_left_out()

    def log(self, line: bytes) -> None:
        """Log a line, or count it among those that are left out."""
        now = self._clock()
        if self._is_enough(now):
            self._left_out += 1
            return
        self._report_left_out()
        self._logged.append(now)
        read = line[:_LINE_BYTES].decode("utf-8", "replace").rstrip()
        text = self._secrets.mask(read, cut=len(line) > _LINE_BYTES)
        said = _CONTROL.sub("?", text[:LINE_CHARACTERS])
        self.latest.append(said)
        self._write(said)

    def _write(self, text: str) -> None:
        if self._held is None:
            _logger.info("`%s` stderr: %s", self._name, text, extra=fields(server=self._name))
        else:
            self._held.append(text)

    def _is_enough(self, now: float) -> bool:
        if self._left_out:
            return now - self._logged[-1] < WINDOW_SECONDS
        return len(self._logged) == MOST_LINES and now - self._logged[0] < WINDOW_SECONDS

    def _report_left_out(self) -> None:
        if self._left_out and self._held is None:
            words, about = "`%s` wrote too much on standard error: %d lines are left out", fields(server=self._name)
            _logger.warning(words, self._name, self._left_out, extra=about)
            self._left_out = 0


_DEAF = Failure("stopped reading what it is sent", phase=LoadPhase.RESPONSE)

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]


class StdioTransport:
    """Runs a target while `streams` is entered; `on_end` is called with how the child ended, if it did so by itself.

    Each time that it is entered, another child runs. If it `is_held`, what the child writes is not logged before
    `release`.
    """

    def __init__(
        self, name: str, target: StdioTarget, on_end: Callable[[Failure], None], *, is_held: bool = False
    ) -> None:
        self.heard = 0
        self._garbled = False
        self._name = name
        self._target = target
        self._on_end = on_end
        self._held: deque[str] | None = deque(maxlen=MOST_LINES) if is_held else None
        self._standard_error: StandardError | None = None
        self._probe: mcp_types.RequestId | None = None
        """The `server/discover` that awaits its answer."""

    @property
    def said(self) -> tuple[str, ...]:
        """The last lines that the child wrote on its standard error, without secrets."""
        return tuple(self._standard_error.latest) if self._standard_error else ()

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[tuple[Incoming, OutgoingMessages]]:
        """Start the child, yield the streams of messages from it and to it, and end it within 4 s.

        Raises:
            OSError: the command cannot be run.
            ValueError: the target holds a character that no command, argument or variable can hold.
        """
        self.heard, self._garbled, self._probe = 0, False, None
        with anyio.CancelScope(shield=True):
            child = await self._start()
        arrived, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        with arrived, incoming, closing(OutgoingMessages()) as outgoing:
            async with anyio.create_task_group() as group:
                group.start_soon(self._receive, child, arrived, outgoing)
                group.start_soon(self._send, child, outgoing, arrived)
                group.start_soon(self._follow, child)
                group.start_soon(self._refuse_probe, outgoing, arrived)
                try:
                    yield incoming, outgoing
                finally:
                    # The receiver must not wait for a session that has gone: it reads on, so that the child can exit.
                    incoming.close()
                    with anyio.CancelScope(shield=True):
                        await child.stop()
                    group.cancel_scope.cancel()

    def release(self) -> None:
        """Log what was held, and what comes from now on."""
        if self._standard_error is not None:
            self._standard_error.release()
        self._held = None

    async def _start(self) -> process_group.GroupLeader:
        target = self._target
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                process_group.ChildProtocol,
                target.command,
                *target.args,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=_environment(target),
                cwd=target.cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._on_end(_start_failure(target, error))
            raise
        return process_group.GroupLeader(transport, protocol)

    async def _follow(self, child: process_group.GroupLeader) -> None:
        try:
            secrets = Secrets.of(self._target)
            self._standard_error = StandardError(self._name, secrets, held=self._held)
            await self._standard_error.follow(child.stderr)
        finally:
            child.followed.set()

    async def _refuse_probe(
        self, outgoing: OutgoingMessages, arrived: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Refuse `server/discover` in place of a child that is silent: the session then sends `initialize`.

        A child that only starts slowly gets both, and answers both; the late answer to the first is dropped.
        """
        exchange = EXCHANGE.get()
        if exchange is None or exchange.probe_seconds is None:
            return
        self._probe = await outgoing.probe()
        await anyio.sleep(exchange.probe_seconds)
        if self._probe is not None:
            exchange.unanswered = True
            error = mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=f"no answer to {PROBE}")
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await arrived.send(SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=self._probe, error=error)))

    async def _receive(
        self,
        child: process_group.GroupLeader,
        arrived: MemoryObjectSendStream[SessionMessage | Exception],
        outgoing: OutgoingMessages,
    ) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_after_exit, child, group.cancel_scope)
            async for line in process_group.Lines(child.stdout):
                began = time.monotonic()
                message = self._stand_in(line) if isinstance(line, process_group.LongLine) else self._message(line)
                busy = time.monotonic() - began
                if message is None:
                    # Lines that have arrived are read without a pause: a flood of them would block the event loop.
                    await checkpoint()
                else:
                    with suppress(anyio.BrokenResourceError):
                        await arrived.send(SessionMessage(message))
                if outgoing.are_too_many:
                    self._on_end(_DEAF)
                    break
                if busy > BUSY_SECONDS:
                    # A child that writes large messages without end would leave the others no time in between.
                    await anyio.sleep(busy)
            group.cancel_scope.cancel()
        await self._end(child, arrived)

    @property
    def is_garbled(self) -> bool:
        """Whether the child has written, and nothing of it was a message."""
        return self._garbled and not self.heard

    def _message(self, line: bytes) -> mcp_types.JSONRPCMessage | None:
        """Return the message of a line; an answer that is no message becomes the error of its request."""
        try:
            # In two steps: validating a large text takes many times as long as reading it, and blocks the event loop.
            read = from_json(without_halves(line))
            message = mcp_types.jsonrpc_message_adapter.validate_python(read, by_name=False)
        except ValueError:
            if not self._garbled and self._held is None:
                words = "`%s` wrote a line that is not MCP; further ones are not reported"
                _logger.info(words, self._name, extra=fields(server=self._name))
            self._garbled = True
            return _unread(line)
        self.heard += 1
        if isinstance(message, (mcp_types.JSONRPCResponse, mcp_types.JSONRPCError)) and message.id == self._probe:
            self._probe = None
        return message

    def _stand_in(self, line: process_group.LongLine) -> mcp_types.JSONRPCError | None:
        """Return an error in place of an answer that is too long, so that only its call fails, and at once.

        The failure in its `data` is an object that no upstream can send.
        """
        self.heard += 1
        _logger.warning("`%s` %s", self._name, TOO_LONG.words, extra=fields(server=self._name))
        request = line.answered_id()
        if request is None:
            return None
        error = mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=TOO_LONG.words, data=TOO_LONG)
        return mcp_types.JSONRPCError(jsonrpc="2.0", id=request, error=error)

    async def _send(
        self,
        child: process_group.GroupLeader,
        outgoing: OutgoingMessages,
        arrived: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        try:
            await outgoing.write_to(child.stdin)
        except OSError:
            await self._end(child, arrived)

    async def _end(
        self, child: process_group.GroupLeader, arrived: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Report how the child ended, then let the session see it, so that a caller that wakes up finds the reason."""
        with anyio.move_on_after(process_group.LAST_WORDS_SECONDS):
            await child.exited.wait()
        if not child.stopping:
            failure = _end_failure(child.exit_code, "" if self.heard else " before it answered")
            garbage = self.is_garbled and failure.kind is LoadFailure.CLOSED
            self._on_end(only_garbage(failure) if garbage else failure)
        arrived.close()


def _unread(line: bytes) -> mcp_types.JSONRPCError | None:
    """Return an error in place of an answer that is no message, such as one that is nested too deeply."""
    request = process_group.LongLine(line[: process_group.END_BYTES], line[-process_group.END_BYTES :]).answered_id()
    if request is None:
        return None
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=NOT_MCP, data=UnreadAnswer(line))
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=request, error=error)


async def _cancel_after_exit(child: process_group.GroupLeader, scope: anyio.CancelScope) -> None:
    await child.exited.wait()
    await anyio.sleep(process_group.LAST_WORDS_SECONDS)
    scope.cancel()


def _end_failure(exit_code: int | None, when: str) -> Failure:
    if exit_code is None:
        return Failure(f"closed the connection{when}", kind=LoadFailure.CLOSED, phase=LoadPhase.RESPONSE)
    words = f"exited with code {exit_code}" if exit_code >= 0 else f"was ended by signal {_signal_name(-exit_code)}"
    return Failure(f"{words}{when}", exit_code=exit_code, kind=LoadFailure.EXITED, phase=LoadPhase.RESPONSE)


def only_garbage(failure: Failure) -> Failure:
    """Return the failure of a child that wrote, but no message: it is no MCP server, and waiting does not help."""
    words = f"{failure.words}, and wrote only what is not MCP"
    return replace(failure, words=words, kind=LoadFailure.NOT_MCP, phase=LoadPhase.RESPONSE)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _is_found(target: StdioTarget) -> bool:
    """Say whether the command of a target is a file that this user may run."""
    if os.sep in target.command:
        return shutil.which(os.path.join(target.cwd or "", target.command)) is not None
    return shutil.which(target.command, path=_environment(target).get("PATH", os.defpath)) is not None


def _environment(target: StdioTarget) -> dict[str, str]:
    return process_group.usual_environment() | dict(target.env)


def _start_failure(target: StdioTarget, error: OSError | ValueError) -> Failure:
    reason, kind, phase = f"command `{target.command}` cannot be run", LoadFailure.MISSING_COMMAND, LoadPhase.CONNECT
    if isinstance(error, PermissionError) and error.filename == target.cwd:
        reason = "its working directory may not be entered by this user"
        kind, phase = LoadFailure.BAD_CONFIG, LoadPhase.CONFIG
    elif target.cwd is not None and not os.path.isdir(target.cwd):
        reason, kind, phase = "its working directory was not found", LoadFailure.BAD_CONFIG, LoadPhase.CONFIG
    elif isinstance(error, FileNotFoundError) and _is_found(target):
        reason = f"command `{target.command}` was found, but not the program that is to run it (see its first line)"
    elif isinstance(error, FileNotFoundError):
        reason = f"command `{target.command}` was not found"
    elif isinstance(error, PermissionError):
        reason = f"command `{target.command}` may not be run by this user"
    elif isinstance(error, ValueError):
        reason = "its command, arguments or environment hold a character that is not allowed there"
        kind, phase = LoadFailure.BAD_CONFIG, LoadPhase.CONFIG
    return Failure(
        f"could not be started: {reason}",
        exception=type(error).__name__,
        errno=error.errno if isinstance(error, OSError) else None,
        executed=False,
        kind=kind,
        phase=phase,
    )
