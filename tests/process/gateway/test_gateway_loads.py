"""Loads in a running gateway: servers recover without a restart, and agents read why others are not available."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from callability.contract.vocabulary import LoadStatus
from callability.gateway import loading
from callability.gateway.config.config import load_config
from callability.gateway.loading import LONGEST_PAUSE, Loader, longer
from callability.gateway.runtime.runtime import UpstreamPool
from callability.gateway.upstream.target import HttpTarget
from callability.gateway.upstream.upstream import Upstream
from support.checkout import POLICY
from support.commands import callability
from support.edits import edit
from support.gateway_in_process import client_of
from support.gateways import bad, call, retrieve, shelf, text_of, write_config
from support.local_policy import local_policy
from support.responses import ABSENT, REFUSAL, http
from support.upstreams.bad_http import BadHttp, reply
from support.waiting import becomes, listed, loads, names

PATIENT = 120
READ: dict[str, Any] = {"name": "read", "description": "Reads a file."}
DEADLINES = {"open_seconds": PATIENT, "reopen_seconds": 0.1}
BUSY = reply(b"no", status="429 Busy", kind="text/plain", extra="Retry-After: 86400\r\n")
"""It ends a load at once, because the requested pause is longer than every deadline."""
LATER = reply(b"no", status="503 Busy", kind="text/plain", extra="Retry-After: 20\r\n")


def script(path: Path, entry: dict[str, Any]) -> None:
    """Write a program that serves as the server of an entry."""
    beside = path.with_suffix(".new")
    beside.write_text(f"#!/bin/sh\nexec {entry['command']} {' '.join(entry['args'])}\n")
    beside.chmod(0o755)
    beside.rename(path)


def test_what_recovers_is_found_without_a_restart(tmp_path: Path) -> None:
    """The notice says that the server will be tried again, and it is (fault 11); then the notice is gone."""

    async def story() -> None:
        async with BadHttp().listening() as late:
            late.opening = BUSY
            config = write_config(tmp_path, {"late": http(late)}, deadlines=DEADLINES)
            async with client_of(config) as client:
                notice = (await retrieve(client, "pid"))["notice"]
                assert notice.startswith("Will retry automatically.")
                assert 'Starting up: "late".' in notice
                # Sometimes it is being loaded again.
                await becomes(loads(client, "late"), [("failed", "transient")])
                late.opening = None
                await becomes(names("pid", client), ["late:pid"])
                assert await loads(client, "late")() == [("connected", "available")]
                assert list(await listed(client)) == ["servers"]

    asyncio.run(story())


def test_what_does_not_recover_is_not_retried(tmp_path: Path) -> None:
    """While a server that recovers is retried, no connection to these is opened, and a denial says so (fault 11)."""

    async def story() -> None:
        async with BadHttp().listening() as busy, BadHttp().listening() as denying, BadHttp().listening() as absent:
            busy.opening, denying.opening, absent.opening = BUSY, REFUSAL, ABSENT
            servers = {"busy": http(busy), "denying": http(denying), "absent": http(absent)}
            config = write_config(tmp_path, servers, deadlines=DEADLINES)
            async with client_of(config) as client:
                await retrieve(client, "pid")
                failed = [("failed", status) for status in ("transient", "denied", "permanent")]
                await becomes(loads(client, *servers), failed)
                before, accepted = busy.accepted, (denying.accepted, absent.accepted)

                async def opened_again() -> bool:
                    return busy.accepted >= before + 4

                await becomes(opened_again, True)
                assert (denying.accepted, absent.accepted) == accepted
                assert 0 not in accepted
                messages = (await listed(client))["loading"]
                assert list(messages) == ["transient", "denied", "permanent"]
                assert messages["denied"].startswith('Access denied: "denying".')
                assert "starting up" not in messages["denied"]

    asyncio.run(story())


def test_what_needs_attention_is_looked_at_again_and_a_denial_is_not(tmp_path: Path) -> None:
    """Nothing that an agent reads promises it; with 0 as its time, a server is left alone (L-4)."""

    async def story() -> None:
        async with BadHttp().listening() as absent, BadHttp().listening() as left, BadHttp().listening() as denying:
            absent.opening, left.opening, denying.opening = ABSENT, ABSENT, REFUSAL
            never = {"deadlines": {"recheck_seconds": 0}}
            servers = {"absent": http(absent), "left": http(left) | never, "denying": http(denying)}
            config = write_config(tmp_path, servers, deadlines=DEADLINES | {"recheck_seconds": 0.1})
            async with client_of(config) as client:
                await becomes(loads(client, "left", "denying"), [("failed", "permanent"), ("failed", "denied")])
                before, others = absent.accepted, (left.accepted, denying.accepted)

                async def opened_again() -> bool:
                    return absent.accepted >= before + 6

                await becomes(opened_again, True)
                words = (await listed(client))["loading"]["permanent"]
                assert "elp" not in words
                assert "etr" not in words
                assert (left.accepted, denying.accepted) == others
                absent.opening = None
                await becomes(loads(client, "absent"), [("connected", "available")])

    asyncio.run(story())


def test_a_recheck_that_fails_as_the_last_one_is_logged_once_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that the server wrote; one that fails otherwise is logged, and so is what a server writes that works."""
    program, said = tmp_path / "late", tmp_path / "said"
    said.write_text("no database\n")
    good = shelf(tmp_path, "late", READ)
    program.write_text(
        f"#!/bin/sh\necho started >> {tmp_path}/starts\ncat {said} >&2\n"
        f"[ -e {tmp_path}/ready ] || exit $(cat {tmp_path}/code)\n"
        f"exec {good['command']} {' '.join(good['args'])}\n"
    )
    program.chmod(0o755)
    (tmp_path / "code").write_text("3")
    config = write_config(tmp_path, {"late": {"command": str(program)}}, deadlines=DEADLINES | {"recheck_seconds": 0.1})

    def logged(words: str) -> int:
        return (tmp_path / "gateway.log").read_text().count(words)

    async def is_started(times: int) -> None:
        before = len((tmp_path / "starts").read_text().split())

        async def look() -> bool:
            return len((tmp_path / "starts").read_text().split()) >= before + times

        await becomes(look, True)

    async def story() -> None:
        async with client_of(config) as client:
            await becomes(loads(client, "late"), [("failed", "permanent")])
            await is_started(6)
            assert [logged("exited with code 3"), logged("did not load"), logged("no database")] == [1, 1, 2]
            (tmp_path / "code").write_text("4")
            await is_started(6)
            assert logged("exited with code 4") == 1
            assert logged("no database") in (3, 4)
            monkeypatch.setattr(loading, "LOGGED_SECONDS", 0)
            await is_started(8)
            assert logged("exited with code 4") > 1
            monkeypatch.undo()
            await is_started(4)
            said.write_text("ready\n")
            (tmp_path / "ready").touch()
            await becomes(loads(client, "late"), [("connected", "available")])
            assert logged("stderr: ready") in (1, 2)

    asyncio.run(story())


def test_a_name_that_cannot_be_looked_up_for_now_is_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that wakes without a network: the server is starting up, and is found once there is one."""
    look_up, offline = socket.getaddrinfo, [True]

    def resolve(host: Any, *rest: Any, **keys: Any) -> Any:
        if host not in ("later.test", b"later.test"):
            return look_up(host, *rest, **keys)
        if offline:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return look_up("127.0.0.1", *rest, **keys)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def story() -> None:
        async with BadHttp().listening() as server:
            entry = {"url": server.url.replace("127.0.0.1", "later.test")}
            async with client_of(write_config(tmp_path, {"late": entry}, deadlines=DEADLINES)) as client:
                notice = (await retrieve(client, "pid"))["notice"]
                assert notice.startswith('Will retry automatically. Starting up: "late".')
                [late] = (await listed(client))["servers"]
                assert late["load"]["error"] == "could not be reached: its host name could not be looked up for now"
                offline.clear()
                await becomes(loads(client, "late"), [("connected", "available")])

    asyncio.run(story())


def test_discovery_does_not_wait_for_every_try(tmp_path: Path) -> None:
    """After the first try, the server is known to be starting up."""

    async def story() -> None:
        async with BadHttp().listening() as slow:
            slow.opening = LATER
            config = write_config(tmp_path, {"slow": http(slow), "files": shelf(tmp_path, "files", READ)})
            async with client_of(config) as client:
                assert 'Starting up: "slow".' in (await retrieve(client, "pid"))["notice"]
                [entry, _] = (await listed(client))["servers"]
                error = "answered with HTTP status 503"
                assert entry["load"] == {"status": "transient", "attempts": 1, "error": error}
                assert "reason" not in entry

    asyncio.run(story())


def test_the_notice_says_why_servers_did_not_load_where_nothing_can_be_called(tmp_path: Path) -> None:
    """With the flag and without, after the words about locked tools and without quarantined servers (fault 11)."""

    async def story() -> None:
        async with BadHttp().listening() as busy, BadHttp().listening() as denying:
            busy.opening, denying.opening = BUSY, REFUSAL
            servers = {
                "files": shelf(tmp_path, "files", READ, {"name": "burn"}, disabled_tools=["burn"]),
                "busy": http(busy),
                "denying": http(denying),
                "gone": {"command": "no-such-command"},
                "held": {"command": "no-such-command", "quarantined": True},
                "off": {"command": "no-such-command", "enabled": False},
            }
            config = write_config(tmp_path, servers, deadlines={"open_seconds": PATIENT, "reopen_seconds": 3600})
            async with client_of(config) as it:
                assert "notice" not in await retrieve(it, "read")
                nothing, locked = await retrieve(it, "zebra"), await retrieve(it, "burn")
                shown = await retrieve(it, "burn", include_disabled=True)
                loading = (await listed(it))["loading"]
                assert (await retrieve(it, "zebra", include_disabled=True)) == nothing
        notice = nothing["notice"]
        assert list(nothing) == ["tools", "total", "notice"]
        assert list(shown) == ["tools", "total", "disabled", "remediation", "notice"]
        assert shown["notice"] == notice
        assert locked["notice"].startswith("1 matching tool exists ")
        assert locked["notice"].endswith(f"who can change that. {notice}")
        places = [notice.index(f'{words}: "{server}"') for words, server in _MESSAGES]
        assert places == sorted(places)
        assert '"gone" (could not be started: command `no-such-command` was not found)' in notice
        assert '"held"' not in notice
        assert '"held" (could not be started' in loading["permanent"]
        assert '"off"' not in json.dumps(loading)

    asyncio.run(story())
    line = "loaded 5 servers: 1 available, 1 transient, 1 denied, 2 permanent"
    assert (tmp_path / "gateway.log").read_text().count(line) == 1


_MESSAGES = (("Starting up", "busy"), ("Access denied", "denying"), ("Needs attention", "gone"))


def test_an_agent_hears_nothing_of_the_loads_of_servers_that_it_may_not_see(tmp_path: Path) -> None:
    """Every answer is, to the byte, that of a gateway without them (FR-007)."""
    questions: list[tuple[str, dict[str, Any]]] = [
        ("retrieve_tools", {"query": "zebra"}),
        ("retrieve_tools", {"query": "zebra", "include_disabled": True}),
        ("upstream_servers", {}),
        ("upstream_servers", {"operation": "get", "name": "gone"}),
        ("call_tool", {"name": "gone:read"}),
    ]
    seen = {"files": shelf(tmp_path, "files", READ), "absent": {"command": "not-there-either"}}

    async def answers(servers: dict[str, Any], *arguments: str) -> list[str]:
        agents = {"clerk": {"servers": list(seen)}}
        config = write_config(tmp_path, servers, agents=agents, deadlines=DEADLINES)
        async with client_of(config, *arguments) as client:
            return [(await client.call_tool(tool, given)).model_dump_json() for tool, given in questions]

    hidden = {"gone": {"command": "no-such-command"}, "silent": bad("hangs")}
    scoped = asyncio.run(answers({**hidden, **seen}, "--agent", "clerk"))
    assert scoped == asyncio.run(answers(seen))
    assert "Needs attention" in scoped[0]


def test_a_line_of_the_policy_makes_a_refused_connection_transient(tmp_path: Path) -> None:
    """After the edit, the gateway loads the server again, which starts to listen later (L-9)."""
    policy = shutil.copytree(POLICY, tmp_path / "policy", ignore=shutil.ignore_patterns("*_test.yaml"))
    rules = policy / "load_outcome.yaml"
    line = "{load.failure: timeout}, status"
    assert rules.read_text().count(line) == 1
    rules.write_text(rules.read_text().replace(line, "{load.failure: [timeout, refused]}, status"))

    async def story() -> None:
        late = BadHttp()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            late.port = taken.getsockname()[1]
        config = write_config(tmp_path, {"late": http(late)}, deadlines=DEADLINES)
        async with client_of(config, "--policy", str(policy)) as client:
            assert 'Starting up: "late".' in (await retrieve(client, "pid"))["notice"]
            async with late.listening():
                await becomes(names("pid", client), ["late:pid"])

    asyncio.run(story())


@pytest.mark.parametrize("by", ["a call", "an edit", "an edit of another server", "`servers enable`"])
def test_what_needs_attention_is_retried_on_request(by: str, tmp_path: Path) -> None:
    """A call of a known tool requests it, and so does any write of the config, even without a change."""
    (tmp_path / "approvals.json").write_text(json.dumps({"late": {"read": {}}}))
    late = {"command": str(tmp_path / "late")}
    config = write_config(tmp_path, {"late": late}, approvals="approvals.json", deadlines=DEADLINES)

    async def story() -> None:
        async with client_of(config) as client:
            answer = text_of(await call(client, "late:read"))
            assert answer.startswith("Not done: server `late` is not connected; the call was not sent. Needs attention")
            assert "could not be started: " in answer
            assert await loads(client, "late")() == [("failed", "permanent")]
            script(tmp_path / "late", shelf(tmp_path, "late", READ))
            if by == "a call":
                # Calls open it again when a pause is over.
                await becomes(lambda: _said(client, "late:read"), "read was called")
            elif by == "`servers enable`":
                before = config.read_bytes()
                done = await asyncio.to_thread(callability, "servers", "enable", "late", "--config", str(config))
                assert done.returncode == 0
                assert config.read_bytes() == before
            else:
                name = "late" if by == "an edit" else "other"
                edit(config, servers={name: {"command": str(tmp_path / "late"), "trust": "manual"}})
            await becomes(loads(client, "late"), [("connected", "available")])

    asyncio.run(story())


async def _said(client: Client, name: str) -> str:
    return text_of(await call(client, name))


def _children() -> set[int]:
    found = {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}
    return {int(pid) for pid in found if "bad_stdio" in Path(f"/proc/{pid}/cmdline").read_text()}


@pytest.mark.parametrize("again", [True, False])
def test_a_connection_that_is_lost_is_loaded_again_if_it_had_been_established(again: bool, tmp_path: Path) -> None:
    """At once if it had lasted long enough; otherwise there is no outcome, and no loop of restarts."""
    deadlines = {"open_seconds": PATIENT, "reopen_seconds": 0.001 if again else 3600}
    config = write_config(tmp_path, {"it": bad()}, deadlines=deadlines)

    async def story() -> None:
        pool = UpstreamPool(local_policy())
        pool.apply(load_config(config))
        upstream, supervisor = pool.upstreams["it"], pool.supervisors["it"]
        await supervisor.wait_until_loaded()
        assert (upstream.state, supervisor.outcome and supervisor.outcome.status) == ("connected", LoadStatus.AVAILABLE)
        [child] = _children()
        os.kill(child, signal.SIGKILL)
        await upstream.wait_until_ended()
        assert (upstream.state, supervisor.outcome) == ("failed", None)
        assert pool.loads() == {}

        async def server_state() -> tuple[str, LoadStatus | None]:
            return upstream.state, supervisor.outcome.status if supervisor.outcome else None

        if again:
            await becomes(server_state, ("connected", LoadStatus.AVAILABLE))
            assert child not in _children()
        else:
            # As many turns as the supervisor would need to open it.
            for _ in range(20):
                await asyncio.sleep(0)
            assert await server_state() == ("failed", None)
            await upstream.connect()
            assert await server_state() == ("connected", LoadStatus.AVAILABLE)
        await pool.close()

    asyncio.run(story())


def test_an_opening_for_which_a_call_waits_is_left_to_the_call() -> None:
    """The load ends at its deadline, and does not disturb other callers."""

    async def story() -> None:
        async with BadHttp().listening() as server:
            server.opening = "hang"
            upstream = Upstream("x", HttpTarget(server.url), open_seconds=PATIENT)
            calling = asyncio.create_task(upstream.connect())
            await server.waiting.wait()
            outcome = await Loader(local_policy(), seconds=0.1).load(upstream)
            assert (outcome.status, outcome.error) == (LoadStatus.TRANSIENT, "did not load within 0.1 s")
            assert (upstream.state, calling.done()) == ("connecting", False)
            calling.cancel()
            await asyncio.wait([calling])
            await upstream.close()

    asyncio.run(story())


def test_a_gateway_that_ends_while_it_loads_leaves_nothing(tmp_path: Path) -> None:
    """No task and no process, also of an entry that was edited meanwhile (L-4)."""

    async def story() -> None:
        before = asyncio.all_tasks()
        async with BadHttp().listening() as server:
            server.opening = "hang"
            config = write_config(tmp_path, {"it": bad("hangs"), "web": http(server)}, deadlines={"open_seconds": 600})
            pool = UpstreamPool(local_policy())
            pool.apply(load_config(config))
            await server.waiting.wait()
            assert pool.loads() == {"loading": 2}
            supervisors = []
            # The second of these edits ends a load that has not started; callers that wait for it are released.
            for word in ("more", "and more"):
                edit(config, servers={"it": {"args": [*bad("hangs")["args"], word]}})
                pool.apply(load_config(config))
                supervisors.append(pool.supervisors["it"])
            await supervisors[0].wait_until_known()
            await pool.close()
            await server.given_up.wait()
        assert asyncio.all_tasks() == before
        assert not _children()

    asyncio.run(story())


@pytest.mark.parametrize(("first", "pauses"), [(30, [30, 60, 120, 240, 480, 600, 600]), (3600, [3600] * 7)])
def test_pauses_double_up_to_ten_minutes_and_never_fall(first: float, pauses: list[float]) -> None:
    """A first pause over ten minutes stays as the operator set it."""
    found = [float(first)]
    while len(found) < len(pauses):
        found.append(longer(found[-1], first))
    assert found == pauses
    assert LONGEST_PAUSE == 600


def test_a_policy_service_without_an_answer_leaves_every_other_answer_as_it_is(tmp_path: Path) -> None:
    """A failure that was not classified needs attention, and says why (A.7)."""
    servers = {"gone": {"command": "no-such-command"}, "well": {"command": sys.executable, "args": bad()["args"]}}
    config = write_config(tmp_path, servers, deadlines=DEADLINES)

    async def story() -> None:
        async with client_of(config, "--policy-address", f"unix:{tmp_path}/nobody") as client:
            await becomes(loads(client, "gone", "well"), [("failed", "permanent"), ("connected", "available")])
            listing = await listed(client)
            why = "not classified, since the policy service gave no answer"
            [error] = [server["load"]["error"] for server in listing["servers"] if server["name"] == "gone"]
            assert why in error
            assert '"gone" (could not be started: ' in listing["loading"]["permanent"]
            assert set(listing) == {"servers", "loading", "policy"}

    asyncio.run(story())
