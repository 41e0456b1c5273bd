"""HTTP/2 frames written by hand: calls that no gRPC library would make."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_HEADERS, END_STREAM, ACK = 4, 1, 1
_CANCEL = 8


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _literal(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def header_block(path: str, **more: str) -> bytes:
    """Return the headers of a gRPC call, as HPACK literals that are never indexed."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
        **more,
    }
    return b"".join(b"\x10" + _literal(name) + _literal(value) for name, value in headers.items())


class RawConnection:
    """A connection that sends what a test asks for, and reads only to see that the server has kept up."""

    def __init__(self, address: str) -> None:
        if address.startswith("unix:"):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(120)
            self._socket.connect(address.removeprefix("unix:"))
        else:
            host, _, port = address.rpartition(":")
            self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._stream = -1
        window = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))
        settings = frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0)
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + window)
        self._answered: set[int] = set()
        self._ended: dict[int, bool] = {}

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def open_call(self, path: str) -> None:
        """Begin a call, and send nothing of its request."""
        self._stream += 2
        self._socket.sendall(frame(HEADERS, END_HEADERS, self._stream, header_block(path)))

    def call(self, path: str, message: bytes) -> None:
        """Make a call whose message fits into a frame."""
        self.open_call(path)
        data = struct.pack(">BI", 0, len(message)) + message
        self._socket.sendall(frame(DATA, END_STREAM, self._stream, data))

    def answers(self, calls: int) -> dict[int, bool]:
        """Return for each of so many calls, by its stream, whether it had a reply when it ended."""
        while len(self._ended) < calls:
            self._read_frame()
        return self._ended

    def open_and_reset(self, path: str, calls: int) -> None:
        """Begin calls and cancel each at once. A server that hangs up meanwhile is free to."""
        block = header_block(path)
        for _ in range(calls):
            self._stream += 2
            opened = frame(HEADERS, END_HEADERS, self._stream, block)
            cancelled = frame(RST_STREAM, 0, self._stream, struct.pack(">I", _CANCEL))
            try:
                self._socket.sendall(opened + cancelled)
            except (BrokenPipeError, ConnectionResetError):
                return

    def wait_until_read(self) -> None:
        """Wait until the server has read everything that was sent: it answers a ping."""
        self._socket.sendall(frame(PING, 0, 0, b"so far.."))
        while (found := self._read_frame())[0] != (PING, ACK):
            if found[0] == (PING, 0):
                self._socket.sendall(frame(PING, ACK, 0, found[1]))

    def _read_frame(self) -> tuple[tuple[int, int], bytes]:
        head = self._read(9)
        payload = self._read(int.from_bytes(head[:3], "big"))
        stream = int.from_bytes(head[5:], "big")
        if head[3] == DATA:
            self._answered.add(stream)
        if head[3] == RST_STREAM or (head[3] in {DATA, HEADERS} and head[4] & END_STREAM):
            self._ended[stream] = stream in self._answered and head[3] != RST_STREAM
        return (head[3], head[4]), payload

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionResetError("the server has hung up")
            data += more
        return data
