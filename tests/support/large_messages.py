"""Large messages that many HTTP/2 streams send at once, whole or in part, as fast as the server lets them in."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from support.raw_http2 import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    header_block,
)

_INITIAL_WINDOW = 4
"""The setting with the window of a stream."""
_FRAME = 16_384
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)


class _Call:
    """A call, what is left to send of its message, and its window relative to that of every stream."""

    def __init__(self, size: int, left: int) -> None:
        self.unsent = memoryview(struct.pack(">BI", 0, size) + bytes(left))
        self.is_whole = left == size
        self.window = 0


class Sender:
    """A connection with calls whose messages are being sent."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.fileno = self.socket.fileno
        self.socket.setblocking(False)
        self.ended = 0
        """Calls that the server has ended."""
        self._out = bytearray(_PREFACE)
        self._in = bytearray()
        self._calls: dict[int, _Call] = {}
        self._next = 1
        self._window = self._initial = 65_535

    def call(self, path: str, size: int, left: int) -> None:
        """Begin a call with a message of `size` bytes, of which `left` will be sent."""
        self._out += frame(HEADERS, END_HEADERS, self._next, header_block(path))
        self._calls[self._next] = _Call(size, left)
        self._next += 2

    @property
    def has_output(self) -> bool:
        """Whether something is to be sent as soon as the socket takes it."""
        return bool(self._out) or any(self._sendable(call) > 0 for call in self._calls.values())

    def step(self) -> None:
        """Read what has arrived, and send what the windows permit."""
        with suppress(BlockingIOError):
            while data := self.socket.recv(1 << 18):
                self._in += data
        while (end := 9 + int.from_bytes(self._in[:3], "big")) <= len(self._in):
            head, payload = bytes(self._in[:9]), bytes(self._in[9:end])
            del self._in[:end]
            self._read(head[3], head[4], int.from_bytes(head[5:], "big"), payload)
        for stream, call in self._calls.items():
            if (size := self._sendable(call)) > 0 and len(self._out) < 1 << 20:
                is_last = call.is_whole and size == len(call.unsent)
                self._out += frame(DATA, END_STREAM if is_last else 0, stream, bytes(call.unsent[:size]))
                call.unsent = call.unsent[size:]
                call.window -= size
                self._window -= size
        with suppress(BlockingIOError):
            del self._out[: self.socket.send(self._out)]

    def _sendable(self, call: _Call) -> int:
        """Return the size of the next frame of a call that the windows permit."""
        return min(self._window, self._initial + call.window, _FRAME, len(call.unsent))

    def _read(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for key, value in struct.iter_unpack(">HI", payload):
                self._initial = value if key == _INITIAL_WINDOW else self._initial
            self._out += frame(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK:
            self._out += frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE and not stream:
            self._window += int.from_bytes(payload, "big")
        elif kind == WINDOW_UPDATE and stream in self._calls:
            self._calls[stream].window += int.from_bytes(payload, "big")
        elif stream in self._calls and (kind == RST_STREAM or flags & END_STREAM):
            del self._calls[stream]
            self.ended += 1


@contextmanager
def senders(address: str, connections: int) -> Iterator[Sequence[Sender]]:
    """Connect so many times; the connections end with the context."""
    with ExitStack() as stack:
        opened = [Sender(address) for _ in range(connections)]
        for each in opened:
            stack.enter_context(each.socket)
        yield opened


def send_until_ended(opened: Sequence[Sender], calls: int) -> None:
    """Send until the server has ended so many calls."""
    for each in opened:
        each.step()
    while sum(each.ended for each in opened) < calls:
        readable, writable, _ = select.select(opened, [each for each in opened if each.has_output], [])
        for each in {*readable, *writable}:
            each.step()
