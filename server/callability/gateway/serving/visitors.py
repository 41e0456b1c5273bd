"""The processes that joined the gateway of their user: agents, each as over stdio, and those that open the page."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

from mcp.server.stdio import stdio_server

from callability.connect.joining import PROTOCOL, peer_process, peer_user
from callability.contract.finding import as_code, no_such
from callability.gateway.config.model import MAX_REQUEST_BYTES
from callability.gateway.people.overview import RecentChanges
from callability.gateway.people.page_application import NoTerminal, PeoplePage
from callability.gateway.runtime.runtime import GatewayRuntime
from callability.gateway.serving.listening import UserSocket
from callability.gateway.serving.mcp_server import mcp_server
from callability.gateway.serving.streams import limit_unread, readable
from callability.process.address import AddressRefused
from callability.process.background import begin_task, end_tasks

HELLO_SECONDS = 10.0
"""How long a process that connects may take to say who it is."""
_HELLO_LINES = 8
_logger = logging.getLogger(__name__)


class Declined(Exception):
    """A process that may not join; the text says why."""


class Visitors:
    """The processes that have joined, and how long there has been none; use it in one event loop."""

    def __init__(self, runtime: GatewayRuntime, at: UserSocket) -> None:
        files, self._runtime, self._router = runtime.files, runtime, runtime.router
        self._changes = changes = RecentChanges(files.config, files.approvals)
        runtime.report_applied = lambda: changes.take_files(files.config, files.approvals)
        runtime.listed = changes.take_list
        self._page: PeoplePage | None = None
        self._config = os.path.realpath(at.config)
        self._idle_seconds = at.idle_seconds
        self._joins = 0
        self._visits: set[asyncio.Task[None]] = set()

    async def serve(self, listener: socket.socket) -> None:
        """Serve on a listening socket until nobody has been there for long.

        What connects afterwards waits in the socket until the process has ended, and starts another gateway then: no
        server runs twice.
        """
        accepting = asyncio.create_task(self._accept(listener))
        try:
            await self._until_it_ends()
        finally:
            await end_tasks(accepting, *self._visits)
            if self._page is not None:
                await self._page.close()

    async def _until_it_ends(self) -> None:
        """Wait until there has been no session for long enough, or only another start goes on."""
        idle = 0
        while not self._idle_seconds or idle < self._idle_seconds:
            await asyncio.sleep(1)
            if self._runtime.files.needs_start:
                _logger.info("the gateway ends: the fixed config turns on records, which is read only at a start")
                return
            is_page_used = self._page is not None and self._page.is_used
            idle = 0 if self._visits or is_page_used else idle + 1
        _logger.info("the gateway ends: no agent was connected for %g s", self._idle_seconds)

    async def _accept(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        while True:
            try:
                connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as error:
                _logger.warning("an agent cannot connect: %s", (error.strerror or "error").lower())
                await asyncio.sleep(1)
                continue
            begin_task(self._welcome(connection), self._visits, "visit")

    async def _welcome(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MAX_REQUEST_BYTES)
        try:
            await self._visit(reader, writer)
        except (ConnectionError, TimeoutError, ValueError) as error:
            _logger.warning("the session of a process that joined ends: %s", error or type(error).__name__)
        except Exception:
            _logger.exception("the session of a process that joined failed")
        finally:
            writer.close()

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                wish, name = self._wish(writer, await _hello(reader))
            if wish == "page":
                writer.write(f"yes {self._open_page(writer, name)}\n".encode())
                await writer.drain()
                return
        except Declined as declined:
            writer.write(f"no {declined}\n".encode())
            await writer.drain()
            return
        writer.write(b"yes\n")
        await self._serve_agent(name, reader, writer)

    def _open_page(self, writer: asyncio.StreamWriter, terminal: str) -> str:
        """Return the URL of the page for people, whose code is on the terminal of the process that wants it.

        Raises:
            Declined: the process has no terminal.
        """
        if self._page is None:
            self._page = PeoplePage(self._runtime, self._changes)
        try:
            return self._page.open(peer_process(writer.get_extra_info("socket")), terminal)
        except (NoTerminal, AddressRefused) as error:
            raise Declined(str(error)) from error

    def _wish(self, writer: asyncio.StreamWriter, hello: list[str]) -> tuple[str, str]:
        """Return what a process wishes: `agent` and its name, or `page` and the name of a terminal.

        Raises:
            Declined: it may not join.
        """
        if peer_user(writer.get_extra_info("socket")) != os.getuid():
            raise Declined("this gateway is another user's")
        if hello[:1] != [PROTOCOL] or len(hello) != 3:
            raise Declined("the gateway that runs is of another version of callability: end it, and connect again")
        if hello[1] != f"config {self._config}":
            raise Declined(f"the gateway that runs has the config {as_code(self._config)}")
        wish, _, name = hello[2].partition(" ")
        if wish not in {"agent", "page"}:
            raise Declined(f"{as_code(wish)} is not known: a process joins as an agent, or opens the page")
        # A config that is awaited may have the agent, which sees no server until then.
        is_known = name in self._router.tools or self._runtime.files.config.is_awaited
        if wish == "agent" and name and not is_known:
            raise Declined(no_such("the config has no agent", name, filter(None, self._router.tools)))
        return wish, name

    async def _serve_agent(self, agent: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._joins += 1
        session = f"user socket {self._joins}"
        server = mcp_server(self._router, agent, session)
        serving = asyncio.current_task()
        assert serving is not None

        def end(why: str) -> None:
            _logger.warning("the session of agent `%s` ends: %s", agent, why)
            writer.transport.abort()
            serving.cancel()

        lines: Any = _Lines(reader)
        try:
            async with (
                stdio_server(lines, _Written(writer)) as (read, write),  # type: ignore[arg-type]  # what it uses of files
                limit_unread(write, end) as outgoing,
                readable(read, outgoing, self._runtime.options.first_answer.set) as incoming,
            ):
                await server.run(incoming, outgoing, server.create_initialization_options())
        except BaseExceptionGroup as group:
            lost, others = group.split(OSError)
            if others is not None or lost is None:
                raise
        finally:
            self._router.list_changed.remove_session(session)


async def _hello(reader: asyncio.StreamReader) -> list[str]:
    """Return the lines before the first empty one.

    Raises:
        Declined: the process has ended.
    """
    lines: list[str] = []
    while len(lines) <= _HELLO_LINES:
        data = await reader.readline()
        if not data.endswith(b"\n"):
            raise Declined("nothing was said")
        if data == b"\n":
            return lines
        lines.append(data[:-1].decode("utf-8", "surrogateescape"))
    raise Declined("too much was said")


class _Lines:
    """What an agent says, as the library reads it from a file."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            while line := await self._reader.readline():
                yield line.decode("utf-8", "replace")
        except ConnectionError:
            # Its process was killed: that is its end.
            return


class _Written:
    """What is said to an agent, as the library writes it to a file."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        """Write a line."""
        self._writer.write(text.encode("utf-8", "surrogatepass"))

    async def flush(self) -> None:
        """Wait until most of it has been read."""
        await self._writer.drain()
