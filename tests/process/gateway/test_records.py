"""Records of a gateway: each call with the decision about it, and each change; no arguments, texts or secrets."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from callability.cli.gateway_files import records_of
from callability.gateway.call_records import ChangeRecords
from callability.gateway.config.changes import config_changes
from callability.gateway.config.config import load_config
from callability.records.format import By, schema
from callability.records.recorder import Recorder
from support.checkout import UPSTREAMS
from support.commands import callability
from support.edits import edit, replace
from support.gateway_in_process import client_of, http_gateway
from support.gateways import (
    READ,
    SEND,
    agents_of,
    call,
    client_with,
    connected,
    http_gateway_process,
    retrieve,
    shelf,
    text_of,
    token_of,
    write_config,
)
from support.running import serving
from support.waiting import becomes, eventually, status

ALL = {"to": "records", "level": "all"}
CANARY = "canary-7f3a"
CHANGING = {"command": sys.executable, "args": [str(UPSTREAMS / "changing.py"), "2025"]}
Record = dict[str, Any]


def records_in(directory: Path, **wanted: str) -> list[Record]:
    """Return the records of a directory with these members, each valid under the schema."""
    validator = Draft202012Validator(schema())
    lines = [line for path in sorted(directory.glob("*.jsonl")) for line in path.read_text().splitlines()]
    found: list[Record] = [json.loads(line) for line in lines]
    for record in found:
        validator.validate(record)
    return [record for record in found if wanted.items() <= record.items()]


def of(records: Iterable[Record], *members: str) -> list[tuple[Any, ...]]:
    """Return some members of records."""
    return [tuple(record.get(name) for name in members) for record in records]


def has(directory: Path, **wanted: str) -> Callable[[], object]:
    """Return a function that says whether there is a record with these members."""
    return lambda: records_in(directory, **wanted)


def test_each_call_is_recorded_with_its_decision_and_its_end(tmp_path: Path) -> None:
    """The records of all levels, of agents with different scopes; the files are the user's alone."""
    servers = {
        "it": shelf(tmp_path, "it", READ, SEND, disabled_tools=["send_mail"]),
        "other": shelf(tmp_path, "other", READ),
    }
    config = write_config(tmp_path, servers, agents=agents_of({"ada": ["it"]}), records=ALL)

    async def story(url: str) -> None:
        async with client_with(url, token_of("ada")) as client:
            await retrieve(client, "read", include_disabled=True)
            assert not records_in(tmp_path / "records"), "discovery is recorded"
            answers = [await call(client, f"{name}:read_file") for name in ("other", "none")]
            assert text_of(answers[0]).replace("other", "none") == text_of(answers[1])
            for name in ("it:read_file", "it:send_mail", "it:no_tool", "no colon"):
                await call(client, name)

    with http_gateway(config) as url:
        asyncio.run(story(url))
    [path] = (tmp_path / "records").glob("gateway-*.jsonl")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]
    records = records_in(tmp_path / "records", kind="decision")
    assert of(records, "agent", "server", "tool", "ended", "status", "rule") == [
        ("ada", "other", "read_file", "out_of_scope", None, None),
        ("ada", "none", "read_file", "unknown", None, None),
        ("ada", "it", "read_file", "answered", "callable", "open"),
        ("ada", "it", "send_mail", "refused", "disabled_by_config", "operator-denied"),
        ("ada", "it", "no_tool", "unknown", None, None),
        ("ada", "", "no colon", "unknown", None, None),
    ]
    assert records[3]["facts"]["toolFacts"]["configDenied"] is True
    assert len({record["id"] for record in records}) == len(records)
    assert records_in(tmp_path / "records")[-1]["kind"] == "end"


def test_by_default_only_what_is_not_callable_is_recorded(tmp_path: Path) -> None:
    """Calls that are let through are not, and loads that fail are. Discovery reaches no code of records."""
    servers = {
        "it": shelf(tmp_path, "it", READ, SEND, disabled_tools=["send_mail"]),
        "down": {"command": str(tmp_path / "no such program")},
    }
    config = write_config(tmp_path, servers, records={"to": "records"})
    reached: set[str] = set()

    def profile(frame: FrameType, _event: str, _: object) -> None:
        reached.add(frame.f_code.co_filename)

    async def story() -> None:
        async with client_of(config) as client:
            await becomes(status(client, "it:read_file"), None)
            sys.setprofile(profile)
            await retrieve(client, "read", include_disabled=True)
            sys.setprofile(None)
            for name in ("it:read_file", "it:send_mail"):
                await call(client, name)
            await asyncio.to_thread(eventually, has(tmp_path / "records", question="load"))

    asyncio.run(story())
    assert any(path.endswith("/gateway/tools/discovery.py") for path in reached)
    assert not [path for path in reached if "/callability/records/" in path or path.endswith("/call_records.py")]
    decisions = records_in(tmp_path / "records", kind="decision")
    assert sorted(of(decisions, "question", "server", "status")) == [
        ("load", "down", "permanent"),
        ("tool", "it", "disabled_by_config"),
    ]


@asynccontextmanager
async def _client_with_canaries(transport: str, config: Path) -> AsyncIterator[Client]:
    """Yield a client of a gateway over one of the transports; over HTTP, its requests have canaries in headers."""
    if transport == "stdio":
        async with connected(transport, config) as client:
            yield client
        return
    token = f"Bearer {token_of('ada')}"
    headers = {"Authorization": token, "X-Secret": f"{CANARY}-header", "Cookie": f"session={CANARY}-cookie"}
    with http_gateway(config) as url:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=120) as http_client,
            Client(streamable_http_client(url, http_client=http_client)) as client,
        ):
            yield client


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_no_canary_is_in_a_record(transport: str, tmp_path: Path) -> None:
    """Arguments, texts and results of servers, secrets of the config, headers and tokens are in none, at any level."""
    text = {"name": "read_file", "description": f"{CANARY}-description", "title": f"{CANARY}-title"}
    servers = {
        "it": shelf(tmp_path, "it", text, env={"TOKEN": f"{CANARY}-secret"}),
        "bad": {"command": sys.executable, "args": ["-c", f"import sys; sys.exit('{CANARY}-text')"]},
        "web": {"url": f"http://127.0.0.1:9/{CANARY}", "headers": {"X-Key": f"{CANARY}-secret"}},
    }
    agents = {"agents": agents_of({"ada": [*servers]})} if transport == "http" else {}
    config = write_config(tmp_path, servers, records=ALL, **agents)

    async def story() -> None:
        async with _client_with_canaries(transport, config) as client:
            await call(client, "it:read_file", path=f"{CANARY}-path", **{f"{CANARY}-name": 1})
            for server in ("bad", "web"):
                await call(client, f"{server}:any", path=f"{CANARY}-path")
            await asyncio.to_thread(eventually, lambda: {"web", "bad"} <= {each["server"] for each in loads()})

    records = tmp_path / "records"

    def loads() -> list[Record]:
        return records_in(records, question="load")

    asyncio.run(story())
    assert {"answered"} <= {each.get("ended") for each in records_in(records)}
    written = "".join(path.read_text() for path in records.glob("*.jsonl"))
    assert not [secret for secret in (CANARY, token_of("ada")) if secret in written]


def test_a_gateway_and_its_service_record_one_decision_under_one_id(tmp_path: Path) -> None:
    """Statistics count it once."""
    config = write_config(
        tmp_path, {"it": shelf(tmp_path, "it", SEND, disabled_tools=["send_mail"])}, records={"to": "records"}
    )
    records = tmp_path / "records"

    async def story() -> None:
        async with client_of(config, "--policy-address", address) as client:
            await call(client, "it:send_mail")

    with serving("--records", str(records)) as address:
        asyncio.run(story())
    decisions = records_in(records, question="tool")
    assert {*of(decisions, "by", "status")} == {("gateway", "disabled_by_config"), ("service", "disabled_by_config")}
    assert len({each["id"] for each in decisions}) == 1
    counted = json.loads(callability("records", "stats", str(records), "--json").stdout)
    assert (counted["decisions"], counted["repeated"]) == (1, len(decisions) - 1)


def test_a_question_for_a_report_is_no_decision_about_a_call(tmp_path: Path) -> None:
    """A preflight leaves no record and no verdict at a service that records everything; a call leaves both."""
    config = write_config(tmp_path, {"it": shelf(tmp_path, "it", SEND, disabled_tools=["send_mail"])})
    records, log = tmp_path / "records", tmp_path / "service.log"
    meta: Any = {"app.mcpproxy/required-tools": {"tools": [{"id": "it:send_mail"}]}}

    def denied() -> list[str]:
        [metrics] = re.findall(r"http://\S+/metrics", log.read_text())
        with urllib.request.urlopen(metrics) as answer:
            return re.findall(r"callability_verdicts_total\{.*operator-denied.*\} [1-9].*", answer.read().decode())

    async def story() -> None:
        async with client_of(config, "--policy-address", address) as client:

            async def is_denied() -> bool:
                listed = await client.list_tools(meta=meta, cache_mode="refresh")
                return "tool_denied_by_config" in listed.model_dump_json()

            await becomes(is_denied, wanted=True)
            assert not await asyncio.to_thread(denied)
            await call(client, "it:send_mail")
            assert await asyncio.to_thread(denied)

    arguments = ("--records", str(records), "--record-level", "all", "--metrics-address", "127.0.0.1:0")
    with serving(*arguments, log=log) as address:
        asyncio.run(story())
    assert len({*of(records_in(records, question="tool"), "id")}) == 1


def test_a_tool_that_changes_is_recorded_with_what_differs(tmp_path: Path) -> None:
    """Both fingerprints, and the fields; once it is approved, with what a person approved."""
    config = write_config(tmp_path, {"it": CHANGING}, records=ALL)

    async def story() -> None:
        async with client_of(config) as client:
            await retrieve(client, "sheep")
            await call(client, "it:change", description=f"{CANARY} now")
            await asyncio.to_thread(eventually, has(tmp_path / "records", change="tool"))

    asyncio.run(story())
    [record] = records_in(tmp_path / "records", change="tool")
    assert (record["server"], record["tool"], record["fields"]) == ("it", "other", ["description"])
    assert re.fullmatch("v2:[0-9a-f]{64}", record["before"])
    assert record["before"] != record["after"]
    assert CANARY not in json.dumps(record)


def test_what_a_person_decides_is_recorded_once_with_who_did_it(tmp_path: Path) -> None:
    """By the command that did it, or as an edit of the file by hand; the gateway records the edits of the files."""
    (tmp_path / "approvals.json").write_text("{}")
    config = write_config(tmp_path, {"it": shelf(tmp_path, "it", READ)}, approvals="approvals.json", records=ALL)
    records = tmp_path / "records"

    async def story() -> None:
        async with client_of(config) as client:
            await call(client, "it:read_file")
            for name in ("disable", "enable"):
                done = await asyncio.to_thread(
                    callability, "approvals", name, "it", "read_file", "--config", str(config)
                )
                assert done.returncode == 0, done.stderr
                await becomes(status(client, "it:read_file"), "disabled_by_user" if name == "disable" else None)
            await asyncio.to_thread(
                callability, "approvals", "approve", "it", "read_file", "--yes", "--config", str(config)
            )
            await asyncio.to_thread(
                eventually, lambda: sum(each["applied"] for each in records_in(records, change="approvals")) == 3
            )
            replace(tmp_path / "approvals.json", json.dumps({"it": {"read_file": {"disabled": True}}}))
            await becomes(status(client, "it:read_file"), "disabled_by_user")
            await asyncio.to_thread(eventually, has(records, change="block", by="gateway"))
            replace(tmp_path / "approvals.json", "{")
            await asyncio.to_thread(
                eventually, lambda: [each for each in records_in(records, change="approvals") if not each["applied"]]
            )

    asyncio.run(story())
    about = "change", "by", "command", "user"
    people = [each for each in records_in(records, kind="change") if "command" in each]
    user = os.getuid()
    assert sorted(of(people, *about)) == [
        ("approval", "command", "callability approvals approve", user),
        ("block", "command", "callability approvals disable", user),
        ("block", "gateway", "by hand: the file", user),
        ("record_removed", "gateway", "by hand: the file", user),
        ("unblock", "command", "callability approvals enable", user),
    ]
    [approval] = records_in(records, change="approval")
    assert re.fullmatch("v2:[0-9a-f]{64}", approval["after"])
    edits = records_in(records, change="approvals")
    assert [edit["applied"] for edit in edits] == [True] * (len(edits) - 1) + [False]
    assert all(edit["before"] != edit["after"] for edit in edits)


def _has_applied(records: Path, edits: int) -> bool:
    return len([each for each in records_in(records, change="config") if each["applied"]]) == edits


def test_an_edit_of_the_config_is_recorded_once_with_what_became_what(tmp_path: Path) -> None:
    """By each command that edits it, or as by hand; a config may have secrets beside it. No digest is shown whole."""
    servers = {"it": shelf(tmp_path, "it", READ, SEND), "other": shelf(tmp_path, "other", SEND)}
    config = write_config(tmp_path, servers, agents=agents_of({"ada": ["it", "other"]}), records=ALL)
    (tmp_path / "secrets.env").write_text("UNUSED=value\n")
    (tmp_path / "secrets.env").chmod(0o600)
    records = tmp_path / "records"
    own: list[tuple[str, str, list[tuple[str | None, ...]]]] = [
        ("servers quarantine", "it", [("quarantine", "it", None, None)]),
        ("servers release", "it", [("release", "it", None, None)]),
        ("servers disable", "it", [("server_disabled", "it", None, None)]),
        ("servers enable", "it", [("server_enabled", "it", None, None)]),
        ("tools deny", "it send_mail", [("tool_denied", "it", "send_mail", None)]),
        ("tools allow", "it send_mail", [("tool_allowed", "it", "send_mail", None)]),
        ("agents add", "bob --server it", [("agent_added", None, None, "bob"), ("scope_added", "it", None, "bob")]),
        ("agents add", "bob --renew", [("agent_changed", None, None, "bob")]),
        ("agents revoke", "bob", [("agent_changed", None, None, "bob")]),
        ("servers add", "new --agent bob --url http://127.0.0.1:9/", [*_ADDED]),
        ("servers remove", "new", [("server_removed", "new", None, None), ("scope_removed", "new", None, "bob")]),
    ]

    async def story(url: str) -> None:
        async with client_with(url, token_of("ada")) as client:
            await call(client, "it:read_file")
            for number, (command, arguments, _) in enumerate(own, 1):
                words = (*command.split(), "--config", str(config), *arguments.split())
                done = await asyncio.to_thread(callability, *words)
                assert done.returncode == 0, done.stderr
                await asyncio.to_thread(eventually, partial(_has_applied, records, number))
            await becomes(status(client, "it:send_mail"), None)
            changed = {"trust": "manual", "enabled_tools": ["read_file"], "env": {"CANARY": CANARY}}
            agents = json.loads(config.read_text())["agents"]
            agents["ada"]["servers"] = ["it"]
            edit(config, servers={"it": changed}, agents=agents)
            await asyncio.to_thread(eventually, has(records, change="scope_removed", agent="ada"))

    with http_gateway(config) as url:
        asyncio.run(story(url))
    people = [each for each in records_in(records, kind="change") if "command" in each]
    about = "command", "change", "server", "tool", "agent"
    by_command = [(f"callability {command}", *each) for command, _, changes in own for each in changes]
    assert of((each for each in people if each["by"] == "command"), *about) == by_command
    by_hand = [each for each in people if each["by"] == "gateway"]
    assert {each["command"] for each in by_hand} == {"by hand: the file"}
    assert of(by_hand, *about[1:], "before", "after", "fields") == [
        ("trust", "it", None, None, "auto", "manual", None),
        ("server_changed", "it", None, None, None, None, ["enabled_tools", "env"]),
        ("tool_denied", "it", "send_mail", None, None, None, None),
        ("scope_removed", "other", None, "ada", None, None, None),
    ]
    assert CANARY not in json.dumps(people)
    for command in ("show", "stats"):
        text = callability("records", command, str(records)).stdout
        assert f"changed trust it before auto after manual by hand in the file (user {os.getuid()})" in text
        assert "changed scope_removed other for agent ada by hand" in text
        assert not re.search("[0-9a-f]{13}", text)


def test_an_edit_by_a_command_while_the_gateway_starts_is_recorded_once(tmp_path: Path) -> None:
    """After the gateway has read the config, and before it follows it; the same edit by hand later is another one."""
    path = write_config(tmp_path, {"it": shelf(tmp_path, "it", READ)}, records=ALL)
    options, before = records_of(load_config(path)), load_config(path)
    assert options is not None
    recorder = Recorder(options, By.GATEWAY)

    async def record_now(records: ChangeRecords) -> None:
        now = load_config(path)
        await records.record_decisions("config", now.digest, path, tuple(config_changes(before, now)))

    assert callability("servers", "quarantine", "it", "--config", str(path)).returncode == 0
    asyncio.run(record_now(ChangeRecords(recorder, tmp_path / "records", before)))
    asyncio.run(record_now(ChangeRecords(recorder, tmp_path / "records", load_config(path))))
    recorder.close()
    made = records_in(tmp_path / "records", change="quarantine")
    assert of(made, "by", "command") == [
        ("command", "callability servers quarantine"),
        ("gateway", "by hand: the file"),
    ]


_ADDED = ("server_added", "new", None, None), ("scope_added", "new", None, "bob")


def test_a_tool_that_a_server_no_longer_lists_is_recorded_with_its_new_name(tmp_path: Path) -> None:
    """If another one of the same definition comes with the same list; what is new after a restart is known too."""
    (tmp_path / "approvals.json").write_text("{}")
    keys: Any = {"approvals": "approvals.json", "records": ALL}
    config = write_config(tmp_path, {"it": shelf(tmp_path, "it", READ, SEND)}, **keys)
    records = tmp_path / "records"
    path = {**READ, "name": "read_path"}
    listing = "change", "server", "tool", "before", "after"

    async def list_again() -> None:
        async with client_of(config) as client:
            await becomes(status(client, "it:read_file"), None)
            shelf(tmp_path, "it", path)
            edit(config, servers={"it": {"env": {"OTHER": "process"}}})
            await asyncio.to_thread(eventually, has(records, change="tool_listed", tool="read_path"))

    async def list_after_restart() -> None:
        shelf(tmp_path, "it", path, {"name": "wipe", "description": "Wipes the disk."})
        async with client_of(config):
            await asyncio.to_thread(eventually, has(records, change="tool_listed", tool="wipe"))

    asyncio.run(list_again())
    found = [*records_in(records, change="tool_unlisted"), *records_in(records, change="tool_listed")]
    assert of(found, *listing) == [
        ("tool_unlisted", "it", "read_file", None, "read_path"),
        ("tool_unlisted", "it", "send_mail", None, None),
        ("tool_listed", "it", "read_path", "read_file", None),
    ]
    asyncio.run(list_after_restart())
    assert of(records_in(records, change="tool_listed")[1:], *listing) == [("tool_listed", "it", "wipe", None, None)]


def test_records_go_to_no_place_that_is_open_to_others_or_the_channel_of_mcp(tmp_path: Path) -> None:
    """The command says what it found and what to do."""
    config = write_config(tmp_path, {})
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)
    for place, words in (
        (str(tmp_path / "open"), "is open to others, as its mode is 755: run chmod 700 on it"),
        (str(tmp_path / "no" / "parent"), "no such file or directory"),
        (str(config), "not a directory"),
        ("-", "records cannot go to standard output over stdio: it is the channel of MCP; name a directory"),
    ):
        done = callability("gateway", "--config", str(config), "--records", place)
        assert (done.returncode, done.stderr.rstrip().endswith(words)) == (2, True), done.stderr


def test_records_on_standard_output_follow_the_url(tmp_path: Path) -> None:
    """A gateway over HTTP may write them there."""
    config = write_config(tmp_path, {"it": shelf(tmp_path, "it", SEND, disabled_tools=["send_mail"])})

    async def story(url: str) -> None:
        async with client_with(url, None) as client:
            await call(client, "it:send_mail")

    with http_gateway_process(config, "--records", "-") as url:
        asyncio.run(story(url))
