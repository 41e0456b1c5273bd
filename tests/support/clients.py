"""Both clients behind one face, so that a test runs with each; and replicas that are stopped and killed."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from google.protobuf.message import Message

from callability.client import BlockingClient, Client
from callability.v1 import callability_service_pb2 as pb
from support.running import Service, service
from support.services import SWITCHED_OFF
from support.waiting import eventually

KINDS = ("asyncio", "threads")


class Caller:
    """A client of one kind; its calls wait for the answer, whichever kind it is."""

    def __init__(self, client: Client | BlockingClient, loop: asyncio.AbstractEventLoop | None) -> None:
        self.client = client
        self._loop = loop

    def do(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the client."""
        result = getattr(self.client, name)(*arguments, **named)
        if self._loop is None:
            return result
        return asyncio.run_coroutine_threadsafe(_awaited(result), self._loop).result()

    def check(self, request: Message = SWITCHED_OFF) -> pb.CheckToolResponse:
        """Ask about one tool, by default about one that its user switched off."""
        response = self.do("check_tool", request)
        assert isinstance(response, pb.CheckToolResponse)
        return response

    def start(self, name: str, *arguments: Any) -> Callable[[], Any]:
        """Begin a call, and return what waits for it."""
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome.append(self.do(name, *arguments))
            except Exception as error:
                outcome.append(error)

        thread = Thread(target=run)
        thread.start()

        def wait() -> Any:
            thread.join(120)
            assert outcome
            return outcome[0]

        return wait


async def _awaited(result: Any) -> Any:
    return await result


@contextmanager
def calling(kind: str, make: Callable[[Any], Client | BlockingClient]) -> Iterator[Caller]:
    """Yield a client that `make` returns for a class, and close it; `asyncio` runs in a loop of its own."""
    if kind == "threads":
        with make(BlockingClient) as client:  # type: ignore[union-attr]  # it is the blocking one
            yield Caller(client, None)
        return
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:

        async def made() -> Client:
            client = make(Client)
            assert isinstance(client, Client)
            return await client.__aenter__()

        client = asyncio.run_coroutine_threadsafe(made(), loop).result()
        try:
            yield Caller(client, loop)
        finally:
            asyncio.run_coroutine_threadsafe(_awaited(client.close()), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Replica:
    """A service at one address, that is stopped, killed and started again."""

    def __init__(self, policy: Path | None = None, *options: str, address: str = "") -> None:
        self._options = (*(("--policy", str(policy)) if policy else ()), *options)
        self._running = ExitStack()
        self.address = address or "127.0.0.1:0"
        self.process = self._started()

    def _started(self) -> Any:
        running: Service = self._running.enter_context(service(*self._options, address=self.address))
        if self.address.endswith(":0"):
            self.address = running.address
        return running.process

    def kill(self) -> None:
        """End it without a farewell."""
        self.process.kill()
        self.close()

    def restart(self) -> None:
        """Start it again, at the same address. A connection of another process may have its port for a moment."""
        eventually(self._is_free)
        self._running = ExitStack()
        self.process = self._started()

    def _is_free(self) -> bool:
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_server((host, int(port))).close()
        except OSError:
            return False
        return True

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop it: its connections stay, and it answers nothing."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it."""
        self._running.close()


@contextmanager
def replicas(count: int, policy: Path | None = None, *options: str) -> Iterator[list[Replica]]:
    """Run replicas of a service."""
    with ExitStack() as stack:
        running = []
        for _ in range(count):
            running.append(Replica(policy, *options))
            stack.callback(running[-1].close)
        yield running


class Recorded:
    """Hooks that keep what they receive."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.figures: list[tuple[str, float, Mapping[str, str]]] = []
        self.spans: list[tuple[str, Mapping[str, Any]]] = []

    def log(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        """Keep an event."""
        with self._lock:
            self.events.append((event, fields))

    def metric(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Keep a figure."""
        with self._lock:
            self.figures.append((name, value, labels))

    def span(self, name: str, attributes: Mapping[str, Any]) -> AbstractContextManager[tuple[tuple[str, str], ...]]:
        """Keep a span, and send it along."""
        with self._lock:
            self.spans.append((name, attributes))
        return nullcontext((("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),))

    def saw(self, event: str) -> bool:
        """Say whether an event was received."""
        with self._lock:
            return any(name == event for name, _ in self.events)

    def codes(self) -> list[str]:
        """Return the codes of the attempts, in their order."""
        with self._lock:
            return [labels["code"] for name, _, labels in self.figures if name.endswith("attempts_total")]
