"""Messages between the supervisor of a service and its workers, over a socket that both inherit."""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import Metric

from callability.kernel.checked_policy import CheckedPolicy
from callability.service.calls.served_policy import RejectedEdit
from callability.service.instance import InstanceOptions

_HEAD = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Start:
    """To a worker: what it serves, and the last edit if it was refused."""

    number: int
    options: InstanceOptions
    checked: CheckedPolicy
    rejected: RejectedEdit | None


@dataclass(frozen=True, slots=True)
class Prepare:
    """To a worker: load an edit that was accepted, and go on with the policy that decides."""

    checked: CheckedPolicy


@dataclass(frozen=True, slots=True)
class Commit:
    """To a worker: the edit that is prepared decides from now on."""


@dataclass(frozen=True, slots=True)
class Reject:
    """To a worker: an edit was refused."""

    rejected: RejectedEdit


@dataclass(frozen=True, slots=True)
class Collect:
    """To a worker: send the metrics."""

    request: int


@dataclass(frozen=True, slots=True)
class Loading:
    """From a worker: it has received an edit, and begins to load it."""


@dataclass(frozen=True, slots=True)
class Ready:
    """From a worker: it answers, or the edit is prepared. With a `fault`, it cannot."""

    fault: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """From a worker: its metrics."""

    request: int
    metrics: list[Metric] = field(default_factory=list)


class Control:
    """One end of the connection between a supervisor and a worker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, end: socket.socket) -> Control:
        """Return the control of one end of a pair of sockets."""
        return cls(*await asyncio.open_connection(sock=end))

    async def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            ConnectionError: the other process has ended.
        """
        data = pickle.dumps(message)
        if self._writer.is_closing():
            # The event loop would raise a RuntimeError.
            raise ConnectionResetError("the other process has ended")
        self._writer.write(_HEAD.pack(len(data)) + data)
        await self._writer.drain()

    async def receive(self) -> Any:
        """Return the next message.

        Raises:
            EOFError: the other process has ended.
            ConnectionError: the same.
        """
        size = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))[0]
        return pickle.loads(await self._reader.readexactly(size))

    def close(self) -> None:
        """Close the connection; the other end sees that."""
        self._writer.close()
