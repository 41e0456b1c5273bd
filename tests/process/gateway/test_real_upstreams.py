"""Real servers of several makers at once, behind one gateway, under many concurrent calls."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client

from support.gateway_in_process import http_gateway
from support.gateways import stdio_gateway, write_config
from support.real_servers import NODE_IS_SET_UP, node_servers, pypi_servers

Mode = Literal["auto", "legacy"]
REVISIONS: dict[str, Mode] = {"2025-11-25": "legacy", "2026-07-28": "auto"}
CALLS = 160
"""Calls of a client: each revision is asked over both transports."""
AT_A_TIME = 16
TOKEN = re.compile(r"(?:git|everything|filesystem|memory)-\d+|T\d\d:\d\d")
"""What identifies an answer: the server's name and the number of the call; for the clock, a time of day."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, and the token that only its answer has."""

    tool: str
    arguments: dict[str, Any]
    token: str


def _calls(directory: Path, first_branch: int) -> Iterator[Call]:
    """Yield calls of all servers in turn, each with an argument of its own."""
    names = ("time", "git", "everything", "filesystem", "memory") if NODE_IS_SET_UP else ("time", "git")
    for number in range(CALLS):
        turn, server = number // len(names), names[number % len(names)]
        yield _call(server, turn, directory, first_branch)


def _call(server: str, turn: int, directory: Path, first_branch: int) -> Call:
    match server:
        case "time":
            moment = f"{turn // 60:02}:{turn % 60:02}"
            zones = {"source_timezone": "UTC", "target_timezone": "UTC"}
            return Call("time:convert_time", {"time": moment, **zones}, f"T{moment}")
        case "git":
            branch = f"git-{first_branch + turn}"
            arguments = {"repo_path": str(directory / "repository"), "branch_name": branch}
            return Call("git:git_create_branch", arguments, branch)
        case "everything":
            return Call("everything:echo", {"message": f"everything-{turn}"}, f"everything-{turn}")
        case "filesystem":
            path = str(directory / f"files/{turn}.txt")
            return Call("filesystem:read_text_file", {"path": path}, f"filesystem-{turn}")
    return Call("memory:open_nodes", {"names": [f"memory-{turn}"]}, f"memory-{turn}")


@contextmanager
def _agent(transport: str, config: Path) -> Iterator[Callable[[Mode], Client]]:
    """Yield what makes a client of a gateway: of one process over HTTP, and of one each over stdio."""
    if transport == "http":
        with http_gateway(config) as url:
            yield lambda mode: Client(url, mode=mode)
        return
    with (config.parent / "gateway.log").open("w") as log:
        yield lambda mode: Client(stdio_gateway("--config", str(config), errlog=log), mode=mode)


async def _outcomes(client: Client, calls: Iterable[Call]) -> Counter[str]:
    """Make a number of calls at a time, and count their outcomes."""
    outcomes: Counter[str] = Counter()
    waiting = iter(calls)

    async def caller() -> None:
        for call in waiting:
            outcomes[await _outcome(client, call)] += 1

    await asyncio.gather(*(caller() for _ in range(AT_A_TIME)))
    return outcomes


async def _outcome(client: Client, call: Call) -> str:
    result = await client.call_tool("call_tool", {"name": call.tool, "arguments": call.arguments})
    text = json.dumps([block.model_dump(mode="json") for block in result.content])
    if result.is_error:
        return f"failed: {text}"
    return "right" if {*TOKEN.findall(text)} == {call.token} else f"wrong: {call.token} got {text}"


def _branches(directory: Path) -> set[str]:
    listed = ["git", "-C", str(directory / "repository"), "branch", "--format", "%(refname:short)", "--list", "git-*"]
    return set(subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_hundreds_of_calls_are_answered_by_the_right_servers(
    transport: str, tmp_path: Path, note: Callable[[str], None]
) -> None:
    """None is lost, none is answered by another server or for another call, and each is carried out."""
    servers = pypi_servers(tmp_path, fresh=True) | (node_servers(tmp_path) if NODE_IS_SET_UP else {})
    config = write_config(tmp_path, servers, deadlines={"open_seconds": 120})
    calls = {revision: [*_calls(tmp_path, number * CALLS)] for number, revision in enumerate(REVISIONS)}

    async def story(agent: Client, revision: str) -> Counter[str]:
        async with agent as client:
            assert client.protocol_version == revision
            started = time.monotonic()
            outcomes = await _outcomes(client, calls[revision])
            took = time.monotonic() - started
        note(f"{transport}, {revision}: {CALLS} calls to {len(servers)} servers, {AT_A_TIME} at a time, {took:.1f} s")
        return outcomes

    with _agent(transport, config) as agent:
        for revision, mode in REVISIONS.items():
            assert asyncio.run(story(agent(mode), revision)) == {"right": CALLS}
    made = {call.token for made_calls in calls.values() for call in made_calls if call.tool == "git:git_create_branch"}
    assert _branches(tmp_path) == made


def _process_of(server: str) -> int:
    """Return the process of a server, which the gateway started."""
    program = {"git": "mcp-server-git", "time": "mcp-server-time"}.get(server, f"server-{server}")
    for gateway in _children(os.getpid()):
        for child in _children(gateway):
            if program in Path(f"/proc/{child}/cmdline").read_text():
                return child
    raise AssertionError(f"{server} does not run")


def _children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def test_a_server_that_is_stopped_and_killed_in_mid_call_costs_its_own_call_and_no_other(tmp_path: Path) -> None:
    """Each in turn: the others answer while it is stopped, its call says what happened, and the next one works."""
    servers = pypi_servers(tmp_path, fresh=True) | (node_servers(tmp_path) if NODE_IS_SET_UP else {})
    config = write_config(tmp_path, servers, deadlines={"open_seconds": 120})

    async def outcome(client: Client, server: str, turn: int) -> str:
        return await _outcome(client, _call(server, turn, tmp_path, 0))

    async def story(agent: Client) -> None:
        async with agent as client:
            for turn, server in enumerate(servers):
                assert await outcome(client, server, 3 * turn) == "right"
                process = _process_of(server)
                os.kill(process, signal.SIGSTOP)
                waiting = asyncio.create_task(outcome(client, server, 3 * turn + 1))
                await asyncio.sleep(0)
                others = [outcome(client, other, 100 + turn) for other in servers if other != server]
                assert await asyncio.gather(*others) == ["right"] * len(others)
                os.kill(process, signal.SIGKILL)
                assert f"server `{server}` was ended by signal SIGKILL before it answered" in await waiting
                assert await outcome(client, server, 3 * turn + 2) == "right"

    with _agent("stdio", config) as agent:
        asyncio.run(story(agent("auto")))
