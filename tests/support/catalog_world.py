"""A catalog whose servers, providers and people do what a test says, step by step, and in no time of their own.

Only the connections, and the page to which providers send people back, are replaced: nothing else reaches out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.auth import AuthorizationCodeResult
from mcp_types import CallToolResult, TextContent, Tool

from callability.gateway.catalog import catalog as switch_module
from callability.gateway.catalog.catalog import Catalog
from callability.gateway.config.approvals import NO_APPROVALS
from callability.gateway.config.config import load_config
from callability.gateway.inventory import GatewayInventory
from callability.gateway.observability import FileStatus, Metrics
from callability.gateway.tools.decisions import Decisions, phrases
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.upstream import upstream as upstream_module
from callability.gateway.upstream.authorization import AuthorizationFailed, ProviderRefused
from callability.gateway.upstream.failure import Failure, UpstreamError
from callability.gateway.upstream.listing import upstream_tool
from callability.gateway.upstream.target import HttpTarget
from support.catalog_model import CONNECT_SECONDS, DIALOG_SECONDS, INSTANT, Step
from support.catalog_people import LOOKS, Callers, states_of
from support.local_policy import local_policy

TURNS = 50
"""After so many turns of the loop nothing is left to be done that waits for nobody."""
LEAVING = 3
"""How many turns a connection takes to end."""
CATALOG: dict[str, dict[str, object]] = {
    "plain": {"url": "http://127.0.0.1:9/plain"},
    "guarded": {"url": "http://127.0.0.1:9/guarded", "oauth": {}},
    "keyed": {"url": "http://127.0.0.1:9/keyed", "oauth": {}, "headers": {"X-Key": "${KEY}"}},
}
TOOL = upstream_tool(Tool(name="do", description="does it", input_schema={"type": "object"}))


class Loop(asyncio.SelectorEventLoop):
    """Its time stands still but for `now`, and its threads are none."""

    def __init__(self) -> None:
        self.now = 0.0
        self.faults: list[object] = []
        super().__init__()
        self.set_default_executor(_Inline())

    def time(self) -> float:
        """Return the seconds that a test let pass."""
        return self.now

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what would be logged as a fault."""
        self.faults.append(context)


class _Inline(ThreadPoolExecutor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Page:
    """Where a provider sends people back to, with no provider."""

    def __init__(self, world: World, _port: int | None) -> None:
        self._world = world
        self._came: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self.uri = "http://127.0.0.1:9/callback"
        self.state = ""
        world.pages.add(self)

    async def wait_for_person(self, state: str) -> AuthorizationCodeResult:
        """Wait for what the test says that the provider sends."""
        self.state = state
        try:
            return await self._came
        finally:
            self.state = ""

    async def close(self) -> None:
        """Be no more."""
        self._world.pages.remove(self)
        _ = self._came.done() and not self._came.cancelled() and self._came.exception()

    def send(self, what: str) -> None:
        """Send a person back."""
        if self._came.done():
            return
        if what == "code":
            self._came.set_result(AuthorizationCodeResult(code="code", state=self.state))
        else:
            self._came.set_exception(ProviderRefused(declined=what == "access_denied"))


class Wire:
    """A connection, with no server: what an `Upstream` uses of one."""

    def __init__(self, world: World, name: str, target: HttpTarget, **_: object) -> None:
        self.name = name
        self.state = "connecting"
        self.failure: Failure | None = None
        self.tools: tuple[object, ...] = ()
        self.left_out: tuple[str, ...] = ()
        self.said: tuple[str, ...] = ()
        self.settled = asyncio.Event()
        self.is_current = True
        self.is_restless = False
        self.is_slow_to_list = False
        self.is_failing = False
        self.opens_older = False
        self.stood = False
        self._authorization = target.authorization
        self._scope = anyio.CancelScope()
        self._next: asyncio.Future[str] | None = None
        self._leave = asyncio.Event()
        world.dial(self)

    @property
    def stands(self) -> bool:
        """Whether it is one, or is about to be."""
        return self.state in ("connecting", "connected")

    async def wait_for_ping(self) -> None:
        """Wait for no ping: over HTTP there is none."""

    def act(self, what: str) -> None:
        """Do as the server does, where it is at that."""
        if what == "crash":
            if self.state == "connected":
                self._fail(Failure("exited with code 7"))
                self._leave.set()
        elif self._next is not None and not self._next.done() and (what != "challenge" or self._authorization):
            self._next.set_result(what)

    async def run(self) -> None:
        """Open, hold and leave."""
        try:
            with self._scope:
                await self._hold()
        except AuthorizationFailed as error:
            self._fail(error.failure)
        finally:
            for _ in range(LEAVING):
                await asyncio.sleep(0)
            self._fail(Failure("was disconnected by the gateway"))

    async def call(self, tool: str, *_: object, **__: object) -> CallToolResult:
        """Answer as a tool.

        Raises:
            UpstreamError: there is no connection.
        """
        if self.failure is not None:
            raise UpstreamError(self.name, self.failure)
        return CallToolResult(content=[TextContent(text=f"{tool} was called")])

    def late_failure(self, failure: Failure) -> Failure:
        """Have read no status that says more than that it took too long."""
        return failure

    async def current(self) -> None:
        """Have nothing to read."""

    def close(self) -> None:
        """Leave."""
        if self.state == "connecting":
            self._scope.cancel()
        self.state, self.failure = "closed", Failure("was disconnected by the gateway")
        self.settled.set()
        self._leave.set()

    async def _hold(self) -> None:
        what = await self._reported()
        if what == "challenge" and self._authorization is not None:
            context = self._authorization.context
            assert context.redirect_handler is not None
            assert context.callback_handler is not None
            await context.redirect_handler(f"http://provider/authorize?state={self.name}")
            await context.callback_handler()
            self._authorization = None
            what = await self._reported()
        if what == "refuse":
            self._fail(Failure("refused the connection (nothing listens there)"))
            return
        if self.state == "connecting":
            self.state, self.tools, self.stood = "connected", (TOOL,), True
            self.settled.set()
        await self._leave.wait()

    async def _reported(self) -> str:
        self._next = asyncio.get_running_loop().create_future()
        return await self._next

    def _fail(self, failure: Failure) -> None:
        if self.failure is None:
            self.state, self.failure = "failed", failure
            self.settled.set()


class World:
    """A gateway over the catalog for agents without a name, and what happens around it."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        path = directory / "mcp_config.json"
        deadlines = {"enable_seconds": CONNECT_SECONDS, "dialog_seconds": DIALOG_SECONDS}
        path.write_text(json.dumps({"mcpServers": {}, "catalog": CATALOG, "deadlines": deadlines}))
        config = load_config(path)
        patch.setattr(upstream_module, "Connection", partial(Wire, self))
        patch.setattr(switch_module, "Redirect", partial(Page, self))
        self.environment = {"KEY": "value"}
        self.pages: set[Page] = set()
        self.changes: list[str] = []
        self._wires: list[Wire] = []
        self._side_by_side: list[str] = []
        self._looks: list[asyncio.Task[Any]] = []
        self.catalog = Catalog(local_policy(), self.changes.append, self.environment)
        self.catalog.apply(config)
        inventory = GatewayInventory(config, NO_APPROVALS, {}, joined=lambda: self.catalog.joined)
        decisions = Decisions(local_policy())
        words = phrases(path, None)
        self._gateway = Gateway(inventory, decisions, words, FileStatus(), Metrics(), catalog=self.catalog)
        self.callers = Callers(self._gateway)

    def stage(self, name: str) -> str:
        """Return where a server is, and whether a person is asked for it."""
        return "asked" if any(page.state == name for page in self.pages) else str(self.catalog.switches[name].state)

    @property
    def dials(self) -> dict[str, int]:
        """How often each server was reached out for."""
        return {name: sum(wire.name == name for wire in self._wires) for name in CATALOG}

    def dial(self, wire: Wire) -> None:
        """Note a connection, and whether there is one beside it."""
        if any(other.stands and other.name == wire.name for other in self._wires):
            self._side_by_side.append(wire.name)
        self._wires.append(wire)

    async def do(self, step: Step) -> None:
        """Do one step, as far as that is possible, and do not wait for what it leads to."""
        verb, *what = step
        match verb, what:
            case (("enable" | "again" | "cancel" | "dialog"), _):
                getattr(self.callers, verb)(*what)
            case "page", [name, sent]:
                for page in self.pages:
                    if page.state == name:
                        page.send(sent)
            case (("challenge" | "accept" | "refuse" | "crash"), [name]):
                for wire in self._wires:
                    if wire.name == name and wire.stands:
                        wire.act(verb)
            case "disable", [name]:
                self._look("disable_server", id=name)
            case "look", [tool, name]:
                self._look(tool, **LOOKS[tool](name))
            case "variable", [is_set]:
                self.environment["KEY"] = "value" if is_set else ""
            case "wait", [seconds]:
                await self._wait(seconds)

    async def _wait(self, seconds: int) -> None:
        """Let time pass."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        for _ in range(0, seconds, INSTANT):
            loop.now += INSTANT
            await self.settle()

    async def settle(self) -> None:
        """Let everything come to where it waits for somebody."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def seen(self) -> dict[str, Any]:
        """Return what can be seen of it all; nobody is kept from looking, and no server has two connections."""
        assert all(look.done() for look in self._looks), "somebody who looks is kept waiting"
        for look in self._looks:
            assert isinstance(look.result(), CallToolResult)
        self._looks.clear()
        assert not self._side_by_side
        states = await states_of(self._gateway)
        for name, state in states.items():
            file_status = sum(wire.stands for wire in self._wires if wire.name == name)
            assert file_status == (state in ("connecting", "connected")), (name, state, file_status)
        return {"states": states, "joined": set(self.catalog.joined), "callers": self.callers.reported}

    async def end(self) -> None:
        """Switch everything off; nothing is left of it."""
        closing = asyncio.create_task(self.catalog.close())
        await self.settle()
        assert closing.done(), "the catalog does not come to its end"
        assert not self.callers.waiting
        assert not self.pages
        assert not any(wire.stands for wire in self._wires)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        assert not loop.faults

    def _look(self, tool: str, **arguments: object) -> None:
        self._looks.append(asyncio.create_task(self._gateway.answer(tool, arguments), name=tool))
