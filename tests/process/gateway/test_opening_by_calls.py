"""Which openings agents' calls cause and await: a failed server is opened only for a known tool, and only at times."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from callability.gateway.config.config import load_config
from callability.gateway.runtime.runtime import GatewayOptions, open_gateway
from callability.gateway.serving.mcp_server import mcp_server
from support.checkout import POLICY
from support.edits import edit
from support.gateways import agents_of, bad, call, held_back, retrieve, shelf, text_of, write_config
from support.local_policy import local_policy
from support.policies import write_policy
from support.responses import ABSENT, REFUSAL, http
from support.upstreams.bad_http import BadHttp
from support.waiting import becomes, loads

CALLS = 20
LONG = 3600.0
NOT_CONNECTED = (
    'Not done: server `it` is not connected; the call was not sent. Needs attention: "it" (exited with code 3 before it'
    " answered). The operator must "
)
"""What an agent reads about a known tool of a server that exits."""
UNKNOWN = "is not connected, so its tools are not known; the call was not sent."
FREEZE = """\
rules:
  - {id: under-quarantine, when: {server.quarantined: true}, status: server_quarantined}
  - {id: user-off, when: {approval.disabled: true}, status: disabled_by_user}
  - {id: freeze, when: {annotations.destructive: true}, status: disabled_by_config}
  - id: lock
    when: {any: [{approval.status: [pending, changed]}, {caller.refuses: true}]}
    status: disabled_unknown
  - {id: open, status: callable}
words:
  server_quarantined: {remediation: Ask., rejection: Ask.}
  disabled_by_user: {remediation: Ask., rejection: Ask.}
  disabled_by_config: {remediation: Ask., rejection: Ask.}
  disabled_unknown: {remediation: '{check_logs}', rejection: '{check_logs}'}
"""
"""Rules that decide some locks without annotations, and lock destructive tools."""
READS = {"name": "reads", "description": "Reads.", "annotations": {"readOnlyHint": True}}
DESTROYS = {"name": "destroys", "description": "Destroys.", "annotations": {"destructiveHint": True}}


def exiting(directory: Path, name: str, **keys: Any) -> dict[str, Any]:
    """Return the config entry of a program that records each of its starts, and exits."""
    program = directory / name
    program.write_text(f"#!/bin/sh\necho started >> {directory}/{name}.starts\nexit 3\n")
    program.chmod(0o755)
    return {"command": str(program), **keys}


def openings(directory: Path, name: str) -> int:
    """Return how often the program was opened: each time it is started twice, once for each handshake."""
    path = directory / f"{name}.starts"
    return len(path.read_text().splitlines()) // 2 if path.exists() else 0


@asynccontextmanager
async def client_at_start(
    config: Path, rest_seconds: float = LONG, agent: str = "", policy: Path = POLICY
) -> AsyncIterator[Client]:
    """Yield a client of a gateway in this process while its servers are being opened."""
    options = GatewayOptions(load_config(config), None, local_policy(policy), rest_seconds=rest_seconds)
    async with open_gateway(options) as gateways, Client(mcp_server(gateways, agent)) as client:
        yield client


@asynccontextmanager
async def client_of(
    config: Path, rest_seconds: float = LONG, agent: str = "", policy: Path = POLICY
) -> AsyncIterator[Client]:
    """Yield a client of a gateway in this process after every server was tried once."""
    async with client_at_start(config, rest_seconds, agent, policy) as client:
        await retrieve(client, "anything")
        yield client


@pytest.fixture
def freeze(tmp_path: Path) -> Path:
    """Return the directory of a policy that locks destructive tools."""
    policy = tmp_path / "policy"
    policy.mkdir()
    return write_policy(policy, FREEZE)


async def _calls(client: Client, name: str) -> str:
    """Call a tool several times, and return the answer, which is the same each time."""
    answers = {text_of(await call(client, name)) for _ in range(CALLS)}
    assert len(answers) == 1
    return answers.pop()


@pytest.mark.parametrize("quarantined", [False, True], ids=["failed", "failed in quarantine"])
def test_a_call_of_a_tool_that_was_never_listed_opens_nothing(quarantined: bool, tmp_path: Path) -> None:
    """At any time since the last opening, the agent reads that the server is not connected, and why."""
    config = write_config(tmp_path, {"it": exiting(tmp_path, "it", quarantined=quarantined)})

    async def story() -> None:
        async with client_of(config, rest_seconds=0) as client:
            await becomes(loads(client, "it"), [("failed", "permanent")])
            answer = await _calls(client, "it:never-listed")
            assert answer.startswith(f"Not done: server `it` {UNKNOWN} Needs attention: ")
            assert '"it" (exited with code 3 before it answered)' in answer
        assert openings(tmp_path, "it") == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("opening", "said"),
    [(REFUSAL, 'Access denied: "it".'), (ABSENT, "Needs attention: ")],
    ids=["denied", "permanent"],
)
def test_a_call_of_a_tool_that_was_never_listed_sends_nothing_over_http(
    opening: bytes, said: str, tmp_path: Path
) -> None:
    """A denied server is asked once."""

    async def story() -> None:
        async with BadHttp().listening() as server:
            server.opening = opening
            config = write_config(tmp_path, {"it": http(server)})
            async with client_of(config, rest_seconds=0) as client:
                accepted = server.accepted
                assert (await _calls(client, "it:never-listed")).startswith(f"Not done: server `it` {UNKNOWN} {said}")
                assert server.accepted == accepted

    asyncio.run(story())


def test_calls_of_a_known_tool_open_a_failed_server_once_in_a_while(tmp_path: Path) -> None:
    """Within the pause, calls get the last failure, with who can act; afterwards, the next opens the server."""
    servers = {"it": exiting(tmp_path, "it", enabled_tools=["listed"])}
    config = write_config(tmp_path, servers, deadlines={"reopen_seconds": LONG})

    async def story(rest_seconds: float) -> None:
        async with client_of(config, rest_seconds) as client:
            await becomes(loads(client, "it"), [("failed", "permanent")])
            answer = await _calls(client, "it:listed")
            assert answer.startswith(NOT_CONNECTED)

    asyncio.run(story(LONG))
    assert openings(tmp_path, "it") == 1
    asyncio.run(story(0))
    assert openings(tmp_path, "it") == 1 + 1 + CALLS


def test_the_first_call_on_a_server_that_cannot_be_opened_again_says_who_can_act(tmp_path: Path) -> None:
    """Its connection was lost, and nothing had failed to open before: what is said is about this opening."""
    once, running = exiting(tmp_path, "it"), shelf(tmp_path, "files", {"name": "read", "description": "Reads."})
    program = Path(once["command"])
    program.write_text(
        f"#!/bin/sh\nif [ -e {tmp_path}/started ]; then exit 3; fi\necho $$ > {tmp_path}/started\n"
        f"exec {shlex.join([running['command'], *running['args']])}\n"
    )
    config = write_config(tmp_path, {"it": once}, deadlines={"reopen_seconds": LONG})

    async def story() -> None:
        async with client_of(config) as client:
            await becomes(loads(client, "it"), [("connected", "available")])
            os.kill(int((tmp_path / "started").read_text()), signal.SIGKILL)
            await becomes(loads(client, "it"), [("failed", None)])
            assert text_of(await call(client, "it:read")).startswith(NOT_CONNECTED)

    asyncio.run(story())


def test_the_policy_decides_before_anything_is_opened(tmp_path: Path) -> None:
    """A call that the policy refuses opens nothing, whether the server is quarantined or the tool is locked."""
    (tmp_path / "approvals.json").write_text(
        json.dumps({name: {"read": {"disabled": True}} for name in ("it", "held")})
    )
    servers = {"it": exiting(tmp_path, "it"), "held": exiting(tmp_path, "held", quarantined=True)}
    config = write_config(tmp_path, servers, approvals="approvals.json")

    async def story() -> None:
        async with client_of(config, rest_seconds=0) as client:
            await becomes(loads(client, *servers), [("failed", "permanent")] * 2)
            assert (await _calls(client, "it:read")).startswith("Not called: disabled_by_user, by policy.")
            assert (await _calls(client, "held:read")).startswith("Not called: server_quarantined, by policy.")
        assert (openings(tmp_path, "it"), openings(tmp_path, "held")) == (1, 1)

    asyncio.run(story())


def test_a_call_that_annotations_decide_waits_for_the_opening_that_is_under_way(
    tmp_path: Path, freeze: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The tools are known by approval records alone, and are judged again by what the server lists."""
    caplog.set_level(logging.WARNING, logger="callability")
    running = shelf(tmp_path, "it", READS, DESTROYS)
    (tmp_path / "approvals.json").write_text(json.dumps({"it": {"reads": {}, "destroys": {}, "gone": {}}}))
    config = write_config(tmp_path, {"it": held_back(tmp_path, running)}, approvals="approvals.json")

    async def held() -> int:
        return caplog.text.count("`annotations.destructive` could not be read, and the policy holds back")

    async def story() -> None:
        async with client_at_start(config, policy=freeze) as client, asyncio.TaskGroup() as calls:
            reads, destroys, gone = (
                calls.create_task(call(client, f"it:{name}")) for name in ("reads", "destroys", "gone")
            )
            await becomes(held, 3)
            (tmp_path / "released").touch()
            assert text_of(await reads) == "reads was called"
            assert text_of(await destroys).startswith("Not called: disabled_by_config, by policy.")
            assert "there is no tool" in text_of(await gone)

    asyncio.run(story())


def test_a_lock_that_needs_no_annotations_is_answered_while_its_server_is_being_opened(
    tmp_path: Path, freeze: Path
) -> None:
    """The server is held back for as long as the test takes."""
    records = {"locked": {"disabled": True}}
    (tmp_path / "approvals.json").write_text(json.dumps({"it": records, "held": {"reads": {}}}))
    entry = held_back(tmp_path, shelf(tmp_path, "it", READS))
    servers = {"it": entry, "held": entry | {"quarantined": True}}
    config = write_config(tmp_path, servers, approvals="approvals.json")

    async def story() -> None:
        async with client_at_start(config, policy=freeze) as client:
            assert (await _calls(client, "it:locked")).startswith("Not called: disabled_by_user, by policy.")
            assert (await _calls(client, "held:reads")).startswith("Not called: server_quarantined, by policy.")
            states = await loads(client, *servers)()
            assert [state for state, _ in states] == ["connecting", "connecting"]

    asyncio.run(story())


@pytest.mark.parametrize("keys", [{"enabled_tools": ["reads"]}, {}], ids=["of the config", "with a record"])
def test_a_call_that_annotations_decide_opens_no_failed_server_and_says_why_it_is_not_connected(
    keys: dict[str, Any], tmp_path: Path, freeze: Path
) -> None:
    """At any time since the last opening: the tool is known, and the policy does not let the call through."""
    (tmp_path / "approvals.json").write_text(json.dumps({} if keys else {"it": {"reads": {}}}))
    config = write_config(tmp_path, {"it": exiting(tmp_path, "it", **keys)}, approvals="approvals.json")

    async def story() -> None:
        async with client_of(config, rest_seconds=0, policy=freeze) as client:
            await becomes(loads(client, "it"), [("failed", "permanent")])
            answer = await _calls(client, "it:reads")
            assert answer.startswith(f"Not done: server `it` {UNKNOWN} ")
            assert "Retrying does not help" not in answer
        assert openings(tmp_path, "it") == 1

    asyncio.run(story())


def test_an_edit_of_its_entry_opens_a_failed_server_at_once(tmp_path: Path) -> None:
    """Within the pause too: the owner requests it."""
    config = write_config(tmp_path, {"it": exiting(tmp_path, "it")})

    async def story() -> None:
        async with client_of(config) as client:
            await becomes(loads(client, "it"), [("failed", "permanent")])
            edit(config, servers={"it": {"trust": "manual"}})

            async def started() -> int:
                return openings(tmp_path, "it")

            await becomes(started, 2)

    asyncio.run(story())


def test_a_server_whose_connection_was_lost_is_opened_by_the_next_call_at_once(tmp_path: Path) -> None:
    """The connection had lasted, so no opening had failed."""
    config = write_config(tmp_path, {"it": bad()}, deadlines={"open_seconds": 120, "reopen_seconds": LONG})

    async def story() -> None:
        async with client_of(config) as client:
            assert (await call(client, "it:exit")).is_error
            again = await call(client, "it:pid")
            assert not again.is_error, text_of(again)

    asyncio.run(story())


def test_a_server_out_of_scope_that_failed_is_answered_for_as_one_that_does_not_exist(tmp_path: Path) -> None:
    """To the byte (FR-007)."""
    files = shelf(tmp_path, "files", {"name": "read", "description": "Reads."})
    agents = agents_of({"clerk": ["files"]})

    async def answer(servers: dict[str, Any]) -> str:
        config = write_config(tmp_path, servers, agents=agents)
        async with client_of(config, agent="clerk") as client:
            return (await call(client, "it:never-listed")).model_dump_json()

    hidden = asyncio.run(answer({"it": exiting(tmp_path, "it"), "files": files}))
    assert hidden == asyncio.run(answer({"files": files}))
    assert "there is no tool" in hidden
