"""Gateways that run in the process of the tests, for a twentieth of what a process of their own costs.

All of them is as the command `callability gateway` has it, and their upstream servers are real processes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

from mcp import Client

from callability.cli.gateway_files import records_of
from callability.cli.gateway_process import connected_options
from callability.cli.policy_service import PolicyService
from callability.cli.served_policy import loaded_from
from callability.files.policy_origin import PolicyDirectory
from callability.files.shipped_policy import shipped_policy
from callability.gateway.config.config import load_config
from callability.gateway.runtime.runtime import GatewayOptions, open_gateway
from callability.gateway.serving.lifecycle import run
from callability.gateway.serving.listening import HttpPort
from callability.gateway.serving.mcp_server import mcp_server
from callability.process.web_server import StopSignals

_FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OPTIONS = {"--agent", "--approvals", "--metrics-address", "--policy", "--policy-address"}


@asynccontextmanager
async def client_of(config: Path, *arguments: str, **of_client: Any) -> AsyncIterator[Client]:
    """Run a gateway in this event loop, with arguments of the command, and yield a client that is connected to it."""
    given = _given(arguments)
    with _logged(config.parent / "gateway.log"):
        async with (
            _options(config, given) as options,
            open_gateway(options) as router,
            Client(mcp_server(router, given.get("--agent", "")), **of_client) as client,
        ):
            yield client


@contextmanager
def http_gateway(config: Path, *arguments: str, has_status_socket: bool = False) -> Iterator[str]:
    """Run a gateway over HTTP in a thread, with arguments of the command, and yield its URL."""
    given = _given(arguments)
    url: Future[str] = Future()
    ready: Future[tuple[asyncio.AbstractEventLoop, StopSignals]] = Future()

    async def serve() -> None:
        async with _options(config, given) as connected:
            options, signals = replace(connected, has_status_socket=has_status_socket), StopSignals()
            ready.set_result((asyncio.get_running_loop(), signals))
            await run(options, "http", HttpPort("127.0.0.1:0"), "", url.set_result, signals)

    def serve_in_thread() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if url.done():
                raise
            url.set_exception(error)

    with _logged(config.parent / "gateway.log"):
        thread = Thread(target=serve_in_thread, name="gateway")
        thread.start()
        try:
            yield url.result()
        finally:
            if ready.done():
                loop, signals = ready.result()
                if thread.is_alive():
                    loop.call_soon_threadsafe(signals.requested.set)
            thread.join()


def _given(arguments: Sequence[str]) -> dict[str, str]:
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert given.keys() <= _OPTIONS, f"a gateway in this process has no option but {sorted(_OPTIONS)}"
    return given


@asynccontextmanager
async def _options(path: Path, given: dict[str, str]) -> AsyncIterator[GatewayOptions]:
    approvals, policy, address = (given.get(name) for name in ("--approvals", "--policy", "--policy-address"))
    directory, config = Path(policy) if policy else None, load_config(path, os.environ)
    records = records_of(config)
    if records is not None:
        records.destination.check()
    async with connected_options(
        config,
        Path(approvals) if approvals else None,
        await asyncio.to_thread(loaded_from, PolicyDirectory(directory or shipped_policy()))
        if address is None
        else None,
        directory,
        PolicyService(address) if address else None,
        given.get("--metrics-address"),
        records,
    ) as options:
        for finding in options.config.warnings:
            logging.getLogger("callability.cli.gateway").warning("%s", finding)
        yield options


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Write what is logged to a file, as a gateway in a process of its own writes it to standard error."""
    root = logging.getLogger()
    handler, level = logging.FileHandler(path, mode="w"), root.level
    handler.setFormatter(logging.Formatter(_FORM))
    handler.setLevel(logging.INFO)
    root.addHandler(handler)
    root.setLevel(min(level, logging.INFO))
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()
