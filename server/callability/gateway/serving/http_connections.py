"""Connections over HTTP: how long a client may keep one without using it, and how many there may be."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from callability.process.logs import LogInterval

KEEP_ALIVE_SECONDS = 75
"""Seconds that a connection is kept between two requests: longer than clients keep theirs, many of them for five.

If both end it at the same time, a request meets the end, which costs an MCP client its whole connection.
"""
HEAD_SECONDS = 30.0
"""Seconds in which the head of a request must arrive, counted from the connection or from its first byte."""
BODY_SECONDS = 30.0
"""Seconds without a byte after which an unfinished body is given up: a slow upload may take as long as it needs."""
CONNECTION_END_SECONDS = 0.5
"""Seconds in which a client of TLS can confirm the end of a connection while the gateway ends."""
UNREAD_SECONDS = 30.0
"""Seconds in which a client must read some of what waits for it; the connection of one that does not is ended."""
ABORT = "callability.abort"
"""The key, in the scope of a request, of what ends its connection at once."""
MOST_CONNECTIONS = 10_000
OWN_DESCRIPTORS = 32
"""File descriptors that the gateway needs for itself."""
BACKLOG = 512

_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_logger = logging.getLogger(__name__)


def most_connections() -> int:
    """Return how many connections are kept at once: three quarters of the file descriptors; upstreams have the rest."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, descriptors * 3 // 4, descriptors - OWN_DESCRIPTORS))


class HttpConnection(H11Protocol):
    """uvicorn's, which ends if its client stays silent. At the limit, an unused connection makes room for a new one."""

    refusals = LogInterval()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unused_since = self.loop.time()
        self._has_served = False
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, or refuse the connection if there are too many."""
        if len(self.connections) >= most_connections() and not self._make_room():
            self.transport = transport
            self._close_with(HTTPStatus.SERVICE_UNAVAILABLE, "all connections of the gateway are in use")
            return
        super().connection_made(transport)
        self._await_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what the client sent, and wait for more of it if that is not yet a whole request."""
        super().data_received(data)
        if not self.transport.is_closing():
            self._await_more(progress=True)

    def on_response_complete(self) -> None:
        """Keep the connection for the next request."""
        super().on_response_complete()
        self._has_served, self._unused_since = True, self.loop.time()
        if self._stopping and self._is_encrypted:
            self.loop.call_later(CONNECTION_END_SECONDS, self.transport.abort)
        if not self.transport.is_closing():
            self._await_more()

    def handle_events(self) -> None:
        """Take a request, and let its application end the connection."""
        super().handle_events()
        if self.scope is not None:
            self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]

    def pause_writing(self) -> None:
        """Stop writing: the client has not read what was sent, and has a time in which to read some of it."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def shutdown(self) -> None:
        """End, at once if no request is answered: a client of TLS need not confirm the end, and may never do so."""
        self._stopping = True
        if not self._answering and self._is_encrypted:
            self.transport.abort()
            return
        super().shutdown()

    @property
    def _is_encrypted(self) -> bool:
        return self.transport.get_extra_info("ssl_object") is not None

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_more(self, *, progress: bool = False) -> None:
        """Set the time by which more must arrive, by what is under way."""
        if self._answering and self.cycle.more_body:
            if progress:
                self._stop_waiting()
            self._wait(BODY_SECONDS)
        elif self._answering or self.timeout_keep_alive_task is not None:
            self._stop_waiting()
        else:
            self._wait(HEAD_SECONDS)

    def _wait(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(seconds, self._expire)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self._answering and self.flow.read_paused:
            # Nothing arrives because nothing is read.
            self._wait(BODY_SECONDS)
        elif self._answering and self.cycle.response_started:
            self.transport.close()
        else:
            self._close_with(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")

    def _make_room(self) -> bool:
        """Close the connection that has been unused for longest; one that has never served a request goes first."""
        unused = [each for each in self.connections if isinstance(each, HttpConnection) and not each._answering]
        if happened := self.refusals.due("connections"):
            _logger.warning(
                "the limit of open connections (%d) is reached: %s (new connections since the last such line: %d)",
                len(self.connections),
                "unused ones are closed for new ones" if unused else "new ones are refused, because all are in use",
                happened,
            )
        if not unused:
            return False
        oldest = min(unused, key=lambda each: (each._has_served, each._unused_since))
        self.connections.discard(oldest)
        oldest.transport.close()
        return True

    def _close_with(self, status: HTTPStatus, why: str) -> None:
        body = f"{why}\n".encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\nContent-Type: text/plain\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()


class AcceptFailures:
    """For the event loop: logs once in an interval that no connection can be accepted, and the rest as always."""

    def __init__(self) -> None:
        self._failures = LogInterval()

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle what the loop reports."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _NO_DESCRIPTORS and "socket" in context:
            if happened := self._failures.due("accept"):
                words = "no connection can be accepted: %s (failures since the last such line: %d)"
                _logger.warning(words, error.strerror, happened)
        elif not (isinstance(error, ValueError) and "_start_serving" in context.get("message", "")):
            loop.default_exception_handler(context)
        # The rest are tries to listen again, a second after such a failure, on a socket that was closed meanwhile.
