"""AgentRouter with a catalog, agents in both revisions of MCP that enable its servers, and their users."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mcp import Client
from mcp.client import ClientRequestContext, Transport
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp_types import CallToolResult, ElicitRequestParams, ElicitRequestURLParams, ElicitResult

from callability.gateway.agents import AgentRouter
from callability.gateway.config.config import load_config
from callability.gateway.runtime.runtime import GatewayOptions, open_gateway
from callability.gateway.serving.mcp_server import mcp_server
from support.gateways import found_in, text_of, write_config
from support.local_policy import local_policy
from support.upstreams.bad_http import BadHttp
from support.upstreams.oauth_provider import OAuthProvider, browse

Mode = Literal["legacy", "auto"]
MODES: tuple[Mode, ...] = ("legacy", "auto")
"""MCP 2025-11-25, in which a dialog comes during a call, and 2026-07-28, in which it is the answer to one."""
SECONDS = 120
NO_CLAIM = "Do not claim that it is connected or call its tools."


async def until(look: Callable[[], object]) -> None:
    """Poll until a condition holds that no event announces."""
    end = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < end, look
        await asyncio.sleep(0.005)


class Person:
    """The user of an agent, who does the same with each dialog, and opens the page only when allowed."""

    def __init__(self, does: Literal["goes", "declines", "cancels", "accepts", "waits"] = "goes") -> None:
        self.does = does
        self.dialogs: list[ElicitRequestParams] = []
        self.prompted = asyncio.Event()
        self.may = asyncio.Event()
        """Until it is set, one who waits does nothing; what is in `answers` they say then, else they go to the page."""
        self.answers: ElicitResult | None = None
        self.left = 0
        """How many dialogs were taken away before they were answered."""

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Show a dialog."""
        self.dialogs.append(params)
        self.prompted.set()
        match self.does:
            case "declines":
                return ElicitResult(action="decline")
            case "cancels":
                return ElicitResult(action="cancel")
            case "goes":
                await browse(self.url)
            case "waits":
                await self._wait()
                if self.answers is not None:
                    return self.answers
                await browse(self.url)
        return ElicitResult(action="accept", content={})

    @property
    def url(self) -> str:
        """The page to which the last dialog leads."""
        last = self.dialogs[-1]
        return last.url if isinstance(last, ElicitRequestURLParams) else last.message.split()[-1]

    async def _wait(self) -> None:
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            self.left += 1
            raise


@dataclass(eq=False, slots=True)
class Agent:
    """A client of a gateway that listens; `heard` counts the notifications that its tools have changed."""

    client: Client
    person: Person | None
    heard: int = 0

    async def ask(self, tool: str, **arguments: Any) -> CallToolResult:
        """Call a tool of the gateway."""
        return await self.client.call_tool(tool, arguments)

    async def enable(self, server: str = "greeter") -> CallToolResult:
        """Enable a server."""
        return await self.ask("enable_server", id=server)

    async def disable(self, server: str = "greeter") -> str:
        """Disable a server, and return the answer."""
        result = await self.ask("disable_server", id=server)
        assert not result.is_error
        return text_of(result)

    async def state(self, server: str = "greeter") -> str:
        """Return where a server is."""
        content = (await self.ask("search_servers")).structured_content
        assert content is not None
        [state] = [entry["state"] for entry in content["servers"] if entry["id"] == server]
        return str(state)

    async def finds(self, query: str = "greet", **arguments: Any) -> list[str]:
        """Return the names of the tools that can be called."""
        content = found_in(await self.ask("retrieve_tools", query=query, **arguments))
        return [tool["name"] for tool in content["tools"]]

    async def notified(self, count: int) -> None:
        """Wait for exactly this many notifications that its tools have changed."""
        await until(lambda: self.heard >= count)
        await self.client.list_tools()
        assert self.heard == count

    async def hear(self, _: object = None) -> None:
        """Count a notification that the tools have changed."""
        self.heard += 1


@asynccontextmanager
async def agent(
    to: AgentRouter | Transport | str, mode: Mode, person: Person | None = None, name: str = ""
) -> AsyncIterator[Agent]:
    """Connect an agent to a gateway of this process or of another; without a person its session can show no dialog."""

    async def handle(message: object) -> None:
        if mode == "legacy" and getattr(message, "method", "") == "notifications/tools/list_changed":
            await it.hear()

    server = mcp_server(to, name) if isinstance(to, AgentRouter) else to
    client = Client(server, mode=mode, elicitation_callback=person, message_handler=handle, cache=None)
    it = Agent(client, person)
    async with client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        if mode == "legacy":
            yield it
            return
        async with client.listen(tools_list_changed=True) as events:

            async def listen() -> None:
                async for event in events:
                    await it.hear(event)

            listening = asyncio.create_task(listen())
            try:
                yield it
            finally:
                listening.cancel()
                await asyncio.wait({listening})


def entry(provider: OAuthProvider, **keys: Any) -> dict[str, Any]:
    """Return the catalog entry of the server that a provider protects."""
    return {"url": provider.url, "oauth": {}, "description": "Greets people.", **keys}


def plain(upstream: BadHttp, **keys: Any) -> dict[str, Any]:
    """Return the entry of a server that needs no authorization, with one tool that may be called."""
    return {"url": upstream.url, "enabled_tools": ["greet"], **keys}


@asynccontextmanager
async def gateway(directory: Path, catalog: dict[str, Any], **keys: Any) -> AsyncIterator[AgentRouter]:
    """Run a gateway in this process, and check that it leaves nothing behind: no task, no socket, and no process."""
    before, sockets, children = asyncio.all_tasks(), _sockets(), _children()
    policy = keys.pop("policy", local_policy())
    config = write_config(directory, keys.pop("servers", {}), catalog=catalog, **keys)
    async with open_gateway(GatewayOptions(load_config(config), None, policy)) as gateways:
        yield gateways
    await until(lambda: not _lasting(asyncio.all_tasks() - before))
    await until(lambda: len(_sockets()) <= len(sockets))
    assert set(_children()) <= set(children)


def _lasting(tasks: set[asyncio.Task[Any]]) -> list[str]:
    return [task.get_name() for task in tasks if not task.done()]


def _sockets() -> list[str]:
    links = []
    for link in Path("/proc/self/fd").iterdir():
        # The descriptor of the listing itself is closed by then.
        with suppress(OSError):
            links.append(os.readlink(link))
    return [link for link in links if link.startswith("socket:")]


def _children() -> list[str]:
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()


def is_no_connection(result: CallToolResult, status: str, *, error: bool = True) -> str:
    """Check that an answer claims no connection, in text and in structure, and return its text."""
    text = text_of(result)
    assert text.startswith(f"Not connected: {status}. ")
    assert text.endswith(NO_CLAIM)
    assert "is connected" not in text.removesuffix(NO_CLAIM)
    assert bool(result.is_error) is error
    content = result.structured_content or {}
    assert (content["status"], content["tools_changed"]) == (status, 0)
    return text


def is_connection(result: CallToolResult, status: str = "enabled", *, tools_changed: int = 1) -> str:
    """Check that an answer reports a connection, and return its text."""
    text = text_of(result)
    assert text.startswith(f"Connected: {status}. "), text
    assert not result.is_error
    content = result.structured_content or {}
    assert (content["status"], content["tools_changed"]) == (status, tools_changed)
    return text


async def has_no_trace(agent: Agent, server: str = "greeter", *, in_catalog: bool = True) -> None:
    """Check that nothing of a server is found, listed, or called; one of the catalog can be enabled."""
    assert await agent.finds() == []
    listed = (await agent.ask("upstream_servers")).structured_content or {}
    assert server not in [each["name"] for each in listed["servers"]]
    said = "in the catalog and not enabled" if in_catalog else "there is no tool"
    assert said in text_of(await agent.ask("call_tool", name=f"{server}:greet"))


async def works(agent: Agent, server: str = "greeter", *, heard: int = 0) -> None:
    """Check that a server can be enabled, is found and called, and is disabled; there are two notifications."""
    await agent.notified(heard)
    is_connection(await agent.enable(server))
    assert await agent.state(server) == "connected"
    await agent.notified(heard + 1)
    # A server with an authorization has a tool that needs more than was granted beside it.
    assert f"{server}:greet" in await agent.finds()
    called = await agent.ask("call_tool", name=f"{server}:greet")
    assert not called.is_error
    is_connection(await agent.enable(server), "already_enabled", tools_changed=0)
    assert "is disabled now" in await agent.disable(server)
    assert await agent.state(server) == "absent"
    await agent.notified(heard + 2)
    await has_no_trace(agent, server)


class Gate:
    """Blocks a caller until it is opened."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    async def passed(self) -> None:
        """Report that a caller has arrived, and wait."""
        self.reached.set()
        await self.open.wait()


class HeldPolicy:
    """The shipped policy, which delays its answer to one request about an enable, selected by number."""

    def __init__(self, number: int) -> None:
        self.gate = Gate()
        self._left = number

    def __getattr__(self, name: str) -> Any:
        return getattr(local_policy(), name)

    async def classify_enable(self, request: Any) -> Any:
        """Answer when the gate is open."""
        self._left -= 1
        if self._left == 0:
            await self.gate.passed()
        return await local_policy().classify_enable(request)


class HeldTokens(OAuthProvider):
    """A provider that delays its tokens: the person has come back from it by then."""

    def __init__(self) -> None:
        super().__init__(tools=("greet",))
        self.gate = Gate()

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: Any
    ) -> OAuthToken:
        """Return tokens when the gate is open."""
        await self.gate.passed()
        return await super().exchange_authorization_code(client, authorization_code)
