"""What comes of switching a server of the catalog on, told to agents in both revisions of MCP (spec C)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from catalogs import (
    MODES,
    Mode,
    Person,
    agent,
    entry,
    gateway,
    has_no_trace,
    is_no_connection,
    works,
)
from upstreams.oauth_provider import OAuthProvider

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", MODES)]


@pytest.fixture
def anyio_backend() -> str:
    """Gateways run on asyncio."""
    return "asyncio"


@pytest.fixture
async def provider() -> AsyncIterator[OAuthProvider]:
    """A provider at which the person authorizes."""
    async with OAuthProvider(tools=("greet",)) as it:
        yield it


@dataclass(frozen=True, slots=True)
class Case:
    """An authorization that comes to nothing, by what a person or a provider does."""

    status: str
    says: str
    does: Literal["goes", "declines", "cancels"] = "goes"
    provider: dict[str, Any] = field(default_factory=dict)


CASES = {
    "the user declines": Case("declined", "was declined", "declines"),
    "the user closes the dialog": Case("declined", "was declined", "cancels"),
    "the user declines at the provider": Case("declined", "was declined", provider={"person": "decline"}),
    "the provider fails": Case("connect_failed", "its provider refused (permanent)", provider={"person": "fail"}),
    "the provider registers nobody": Case(
        "connect_failed", "does not register this gateway (permanent)", provider={"register_status": 400}
    ),
    "the provider gives no token": Case("connect_failed", "gave no token (permanent)", provider={"token_status": 400}),
    "the provider sends another state back": Case(
        "connect_failed", "was not authorized within 2 s (transient)", provider={"wrong_state": True}
    ),
    "nobody is at the provider": Case(
        "connect_failed", "was not authorized within 2 s (transient)", provider={"person": "nobody"}
    ),
    "the server takes no token": Case("connect_failed", "HTTP status 401 (denied)", provider={"mcp_status": 401}),
    "the server refuses": Case("connect_failed", "HTTP status 403 (denied)", provider={"mcp_status": 403}),
    "the server has a fault": Case("connect_failed", "HTTP status 500 (transient)", provider={"mcp_status": 500}),
}


@pytest.mark.parametrize("name", CASES)
async def test_an_authorization_that_comes_to_nothing_is_told_and_undone(
    name: str, mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """Nobody is asked twice, nothing is left, nothing dials by itself, and a retry works (E-3, E-4, E-7)."""
    case = CASES[name]
    for setting, value in case.provider.items():
        setattr(provider, setting, value)
    person = Person(case.does)
    dialogs = 0 if "register_status" in case.provider else 1
    async with (
        gateway(tmp_path, {"greeter": entry(provider)}, deadlines={"dialog_seconds": 2}) as gateways,
        agent(gateways, mode, person) as it,
    ):
        async with asyncio.timeout(15):
            text = is_no_connection(await it.enable(), case.status)
        assert case.says in text
        assert len(person.dialogs) == dialogs
        assert await it.state() == "absent"
        requests = len(provider.requests)
        for _ in range(100):
            await it.ask("search_servers")
            await it.ask("upstream_servers")
        await has_no_trace(it)
        assert (len(person.dialogs), len(provider.requests)) == (dialogs, requests)
        assert it.heard == 0
        person.does, provider.person, provider.wrong_state = "goes", "authorize", False
        provider.register_status = provider.token_status = provider.mcp_status = 0
        await works(it)
