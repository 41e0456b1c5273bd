"""Agents: who may see what. For an agent, a server outside its scope does not exist (FR-007)."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from mcp import Client

from support.commands import callability
from support.edits import edit
from support.gateway_in_process import client_of, http_gateway
from support.gateway_requests import INITIALIZE
from support.gateways import (
    READ,
    agents_of,
    client_with,
    http_gateway_process,
    over_stdio,
    shelf,
    token_of,
    write_config,
)
from support.waiting import becomes, names

SERVERS = ("files", "git", "held", "mail", "off", "time")
VERBS = ("read", "write", "delete", "list")
NOUNS = ("file", "branch", "message", "clock")


def _tools(server: str) -> list[dict[str, Any]]:
    chance = Random(server)
    names = [f"{verb}_{noun}" for verb in VERBS for noun in chance.sample(NOUNS, 2)]
    return [{"name": name, "description": f"{name.replace('_', 's a ')} by {server}"} for name in names]


def _servers(directory: Path) -> dict[str, dict[str, Any]]:
    keys: dict[str, dict[str, Any]] = {
        "files": {"disabled_tools": ["delete_file", "list_branch"]},
        "git": {"trust": "manual"},
        "held": {"quarantined": True},
        "mail": {},
        "off": {"enabled": False, "disabled_tools": ["read_file", "read_message"]},
        "time": {"enabled_tools": ["read_clock", "read_file"]},
    }
    return {name: shelf(directory, name, *_tools(name), **keys[name]) for name in SERVERS}


def _write(directory: Path, visible: tuple[str, ...], agents: dict[str, Any]) -> Path:
    (directory / "approvals.json").write_text(json.dumps({"mail": {_tools("mail")[0]["name"]: {"disabled": True}}}))
    servers = {name: entry for name, entry in _servers(directory).items() if name in visible}
    return write_config(directory, servers, approvals="approvals.json", agents=agents, deadlines={"open_seconds": 120})


def _questions(chance: Random) -> list[tuple[str, dict[str, Any]]]:
    """Draw questions about what is in scope and what is not, on every surface."""
    calls: list[tuple[str, dict[str, Any]]] = [("upstream_servers", {})]
    calls += [("upstream_servers", {"operation": "get", "name": name}) for name in (*SERVERS, "fils")]
    for _ in range(40):
        words = chance.sample((*VERBS, *NOUNS, *SERVERS, "by"), chance.randint(1, 3))
        flag, limit = chance.random() < 0.5, chance.randint(1, 20)
        calls.append(("retrieve_tools", {"query": " ".join(words), "limit": limit, "include_disabled": flag}))
    for server in SERVERS:
        names = [tool["name"] for tool in chance.sample(_tools(server), 2)]
        calls += [("call_tool", {"name": f"{server}:{name}"}) for name in (*names, "raed_file")]
    return calls


async def _answers(client: Client, seed: int) -> list[str]:
    questions = _questions(Random(seed))
    # The first one waits until every server is connected, so that the list of servers changes no more.
    await client.call_tool("retrieve_tools", {"query": "file"})
    return [(await client.call_tool(tool, arguments)).model_dump_json() for tool, arguments in questions]


async def _over_http(url: str, agent: str | None, seed: int) -> list[str]:
    async with client_with(url, token_of(agent) if agent else None) as client:
        return await _answers(client, seed)


def test_every_answer_is_to_the_byte_that_of_a_gateway_without_what_is_out_of_scope(tmp_path: Path) -> None:
    """For scopes that are drawn, and questions about everything, over HTTP by token (FR-007, fault 9)."""
    chance = Random(7)
    scopes = {f"agent-{number}": tuple(sorted(chance.sample(SERVERS, number))) for number in (0, 1, 3, 5)}
    with http_gateway(_write(tmp_path, SERVERS, agents_of(scopes))) as url:
        scoped = {agent: asyncio.run(_over_http(url, agent, 1)) for agent in scopes}
    for agent, visible in scopes.items():
        with http_gateway(_write(tmp_path, visible, {})) as url:
            assert asyncio.run(_over_http(url, None, 1)) == scoped[agent], agent


def test_over_stdio_an_agent_is_named_and_sees_the_same(tmp_path: Path) -> None:
    """To the byte too; without a name every server is there (FR-007)."""

    async def answers(config: Path, *arguments: str) -> list[str]:
        async with client_of(config, *arguments) as client:
            return await _answers(client, 2)

    visible = ("files", "off")
    config = _write(tmp_path, SERVERS, {"clerk": {"servers": list(visible)}})
    clerk, everything = asyncio.run(answers(config, "--agent", "clerk")), asyncio.run(answers(config))
    assert asyncio.run(answers(_write(tmp_path, visible, {}))) == clerk
    assert clerk != everything


def test_over_stdio_only_the_servers_in_the_scope_of_the_agent_are_started(tmp_path: Path) -> None:
    """Those beyond it are run for nobody; an edit of the scope starts and ends them."""
    started = tmp_path / "started"
    marks = {"command": "sh", "args": ["-c", f"touch {shlex.quote(str(started))}; exec sleep 600"]}
    servers = {"files": shelf(tmp_path, "files", READ), "beyond": marks}
    config = write_config(tmp_path, servers, agents={"clerk": {"servers": ["files"]}})

    async def story() -> None:
        async with over_stdio(config, "--agent", "clerk") as client:
            await becomes(names("read file", client), ["files:read_file"])
            assert not started.exists()
            edit(config, agents={"clerk": {"servers": ["files", "beyond"]}})

            async def exists() -> bool:
                return started.exists()

            await becomes(exists, True)

    asyncio.run(story())


def test_a_wrong_or_missing_token_is_refused(tmp_path: Path) -> None:
    """With status 401 for every request; the digest of a token is not a token."""
    agents = agents_of({"clerk": ("files",)})
    with http_gateway(_write(tmp_path, SERVERS, agents)) as url:
        for token in (None, "wrong", agents["clerk"]["token_sha256"]):
            headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
            answer = httpx2.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert len(asyncio.run(_over_http(url, "clerk", 3))) > 40
    log = (tmp_path / "gateway.log").read_text()
    assert token_of("clerk") not in log
    assert agents["clerk"]["token_sha256"] not in log


def test_a_session_is_its_agents_own(tmp_path: Path) -> None:
    """In the older protocol a session has an id, and no other agent can use it."""
    scopes: dict[str, tuple[str, ...]] = {"clerk": ("files",), "thief": ()}
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }
    accept = {"Accept": "application/json, text/event-stream"}
    with http_gateway(_write(tmp_path, SERVERS, agents_of(scopes))) as url:
        mine = accept | {"Authorization": f"Bearer {token_of('clerk')}"}
        session = httpx2.post(url, json=opening, headers=mine).headers["mcp-session-id"]
        ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        stolen = accept | {"Authorization": f"Bearer {token_of('thief')}", "mcp-session-id": session}
        assert httpx2.post(url, json=ask, headers=stolen).status_code == 404


def test_without_tokens_it_is_said_at_start_that_everybody_on_the_machine_may_call(tmp_path: Path) -> None:
    """A warning in the log."""
    with http_gateway(_write(tmp_path, ("mail",), {"clerk": {"servers": []}})):
        pass
    assert "no agent has a token" in (tmp_path / "gateway.log").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent", "clrk"], "the config has no agent `clrk` (did you mean `clerk`?)"),
        (["--agent", "clerk", "--transport", "http"], "`--agent` goes with `--transport stdio`"),
    ],
)
def test_an_agent_that_cannot_ask_is_a_wrong_call(arguments: list[str], message: str, tmp_path: Path) -> None:
    """Exit code 2."""
    done = callability("gateway", "--config", str(_write(tmp_path, SERVERS, {"clerk": {"servers": []}})), *arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_the_log_names_an_agent_whose_token_has_expired(tmp_path: Path) -> None:
    """Once, and not the token; the agent reads no more than with a wrong token, which the log does not report."""
    agents = agents_of({"ada": [], "bob": []})
    agents["ada"]["token_expires"] = "2026-01-31T00:00:00Z"
    with http_gateway_process(write_config(tmp_path, {}, agents=agents)) as url:
        answers = []
        for token in (token_of("ada"), token_of("ada"), "wrong"):
            answer = httpx2.post(url, json=INITIALIZE, headers={"Authorization": f"Bearer {token}"})
            answers.append((answer.status_code, answer.content))
    assert len(set(answers)) == 1
    assert answers[0][0] == 401
    log = (tmp_path / "gateway.log").read_text()
    said = "agent `ada` gets 401: its token is void since 2026-01-31T00:00:00Z; `callability agents add --renew` makes"
    assert log.count(said) == log.count("401") == 1
    assert token_of("ada") not in log
