"""A catalog of real servers, one of them behind a real OAuth provider, that do what a test says, step by step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from callability.gateway.config.config import load_config
from callability.gateway.runtime.runtime import GatewayOptions, open_gateway
from callability.gateway.tools.dispatch import Gateway
from support.catalog_model import Step
from support.catalog_people import LOOKS, Callers, states_of
from support.local_policy import local_policy
from support.upstreams.bad_http import BadHttp, reply, result
from support.upstreams.oauth_provider import OAuthProvider, browse
from support.upstreams.oauth_provider import Person as AtTheProvider

TOOLS = {"plain": "pid", "guarded": "greet"}
PEOPLE: dict[str, AtTheProvider] = {"code": "authorize", "access_denied": "decline", "server_error": "fail"}
TURNS = 20
"""After this many turns of the loop, a step has started: before that, nothing of it may be visible."""
LOOK_SECONDS = 0.01
LOOK_TIMES = 12_000


class RealWorld:
    """What goes on around a gateway; whatever waits for no person happens by itself."""

    def __init__(self, gateway: Gateway, plain: BadHttp, provider: OAuthProvider) -> None:
        self.callers = Callers(gateway)
        self._gateway = gateway
        self._plain = plain
        self._provider = provider
        self._listed = 0
        self._states = dict.fromkeys(TOOLS, "absent")
        plain.listing = self._list

    def stage(self, name: str) -> str:
        """Return the state of a server; one that is connecting there waits for a person."""
        return "asked" if self._states[name] == "connecting" else self._states[name]

    async def do(self, step: Step) -> None:
        """Do one step; a look sends no request to a server (E-4)."""
        verb, *what = step
        match verb, what:
            case (("enable" | "again" | "cancel" | "dialog"), _):
                getattr(self.callers, verb)(*what)
            case "page", ["guarded", sent]:
                # The other server has no page: a consent that is asked for is not its own.
                await self._browse(sent)
            case "disable", [name]:
                await self._gateway.answer("disable_server", {"id": name})
            case "look", [tool, name]:
                counts_before = self._question_counts
                await self._gateway.answer(tool, LOOKS[tool](name))
                assert self._question_counts == counts_before
            case "crash", [name] if self._states[name] == "connected":
                self._plain.script[:] = ["reset"]
                self._provider.revoke()
                await self._gateway.answer("call_tool", {"name": f"{name}:{TOOLS[name]}"})

    async def settle(self, expected: dict[str, Any]) -> None:
        """Wait until what is expected is seen; what is not seen after 120 s is a fault."""
        wanted = (expected["states"], expected["callers"])
        for _ in range(TURNS):
            await asyncio.sleep(0)
        for _ in range(LOOK_TIMES):
            self._states = await states_of(self._gateway)
            seen = (self._states, self.callers.reported)
            if seen == wanted:
                return
            await asyncio.sleep(LOOK_SECONDS)
        raise AssertionError(f"seen: {seen}, wanted: {wanted}")

    @property
    def _question_counts(self) -> tuple[int, int]:
        return self._listed, len(self._provider.requests)

    async def _browse(self, sent: str) -> None:
        """Go to the page that was asked for last; a question that is over has none any more."""
        self._provider.person = PEOPLE[sent]
        for question in self.callers.questions[-1:]:
            with suppress(httpx2.ConnectError):
                await browse(question.url)

    def _list(self, request: dict[str, Any]) -> bytes:
        self._listed += 1
        return reply(result(request, {"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]}))


@asynccontextmanager
async def real_world(directory: Path) -> AsyncIterator[RealWorld]:
    """Yield the world of a gateway that runs in the current event loop."""
    path = directory / "mcp_config.json"
    plain = BadHttp()
    async with plain.listening(), OAuthProvider() as provider:
        catalog = {"plain": {"url": plain.url}, "guarded": {"url": provider.url, "oauth": {}}}
        path.write_text(json.dumps({"mcpServers": {}, "catalog": catalog}))
        async with open_gateway(GatewayOptions(load_config(path), None, local_policy())) as gateways:
            yield RealWorld(gateways.gateway_for_request(""), plain, provider)
