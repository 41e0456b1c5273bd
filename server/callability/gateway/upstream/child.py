"""A child process that leads a process group, and the end of the whole group."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Mapping
from contextlib import suppress

import anyio
from mcp.client.stdio import get_default_environment

from callability.gateway.upstream.lines import CHUNK_BYTES

# An exited child's last lines are read for this long: a grandchild that holds the pipe open would never let it end.
LAST_WORDS_SECONDS = 0.5
# The stages of an end and how long each may take; before the first one stdin is closed.
STAGES = ((None, 1.5), (signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0))
POLL_SECONDS = 0.02


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_USUAL = frozenset(
    {
        *(*_PROXIES, *map(str.lower, _PROXIES)),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP"),
    }
)
_LOCALE = "LC_"


def usual_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that every child gets: those by which programs find their user, proxies, certificates,
    language, time zone and folder for temporary files.
    """
    usual = {name: value for name, value in environment.items() if name in _USUAL or name.startswith(_LOCALE)}
    return get_default_environment() | usual


class ChildProtocol(SubprocessStreamProtocol):
    """asyncio's own, and an event for the exit: `Process.wait()` returns only when every pipe has ended too."""

    def __init__(self) -> None:
        super().__init__(limit=CHUNK_BYTES, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """Note the exit, even if another process still holds the pipes."""
        super().process_exited()
        self.exited.set()


class Child:
    """A running child, the leader of its own process group."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: ChildProtocol) -> None:
        assert protocol.stdin is not None
        assert protocol.stdout is not None
        assert protocol.stderr is not None
        self.stdin = protocol.stdin
        self.stdout = protocol.stdout
        self.stderr = protocol.stderr
        self.exited = protocol.exited
        self.followed = asyncio.Event()
        """Set when its standard error has been read to the end."""
        self.stopping = False
        self._transport = transport
        self._group = transport.get_pid()

    @property
    def exit_code(self) -> int | None:
        """The code with which it exited, negative for a signal; None while it runs."""
        return self._transport.get_returncode()

    async def stop(self) -> None:
        """Close the child's stdin, then end its group with stronger signals; return when all are gone or given up."""
        self.stopping = True
        gone = False
        try:
            self.stdin.close()
            for number, seconds in STAGES:
                if number is not None:
                    self._signal(number)
                with anyio.move_on_after(seconds):
                    await self._wait_until_gone()
                    gone = True
                    break
            # Its last lines say why it ended; another process that holds the pipe would never let them end.
            with anyio.move_on_after(LAST_WORDS_SECONDS):
                await self.followed.wait()
        finally:
            # Reached with the group alive when the owner's task is cancelled from outside: nothing may be left then.
            if not gone:
                self._signal(signal.SIGKILL)
            if self.stdin.transport.get_write_buffer_size():
                # It would close once the rest is read, and a process outside the group may hold it and never read.
                self.stdin.transport.abort()
            self._transport.close()
        with anyio.move_on_after(LAST_WORDS_SECONDS), suppress(OSError):
            await self.stdin.wait_closed()

    async def _wait_until_gone(self) -> None:
        await self.exited.wait()
        while self._signal(0):
            self._reap()
            await anyio.sleep(POLL_SECONDS)

    def _reap(self) -> None:
        """Take the exits of grandchildren that fell to this process, as to the first one of a container."""
        with suppress(ChildProcessError):
            while os.waitpid(-self._group, os.WNOHANG)[0]:
                pass

    def _signal(self, number: int) -> bool:
        """Signal the group (0 only looks) and say whether it has members."""
        try:
            os.killpg(self._group, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
