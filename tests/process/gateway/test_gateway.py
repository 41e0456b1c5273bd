"""The gateway over MCP: real clients, a real gateway process on each transport, real servers behind it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client
from mcp_types import CallToolResult

from callability.process.address import listening
from support import any_proxy
from support.any_proxy import (
    APPROVALS,
    EXPECTED,
    OPEN_TOOLS,
    POISON,
    WORLD,
    Server,
    locked_tools_change_no_byte,
    many_answers,
)
from support.commands import callability
from support.gateway_in_process import client_of, http_gateway
from support.gateways import (
    bad,
    call,
    connected,
    found_in,
    http_gateway_process,
    retrieve,
    shelf,
    text_of,
    write_config,
)
from support.running import COMMAND, serving, start

TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])


def _config(directory: Path, world: Mapping[str, Server]) -> Path:
    """Write the config of a gateway for the servers of a world."""
    directory.mkdir(exist_ok=True)
    (directory / "approvals.json").write_text(json.dumps({"files": APPROVALS}))
    servers = {}
    for name, server in world.items():
        keys = {key: value for key, value in server.items() if key not in {"tools", "disabled"}}
        enabled = {"enabled": False} if server.get("disabled") else {}
        servers[name] = shelf(directory, name, *server["tools"], **keys, **enabled)
    return write_config(directory, servers, approvals="approvals.json")


def _locked(directory: Path) -> Path:
    return _config(directory, WORLD)


def _without_locked(directory: Path) -> Path:
    """Write the config of a gateway that does not know the locked tools."""
    directory.mkdir(exist_ok=True)
    return write_config(directory, {"files": shelf(directory, "files", *OPEN_TOOLS)})


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway with a tool under each lock."""
    with http_gateway(_locked(tmp_path_factory.mktemp("locked"))) as url:
        yield url


@contextmanager
def _connected(url: str) -> Iterator[Callable[..., CallToolResult]]:
    def ask(tool: str, **arguments: Any) -> CallToolResult:
        async def once() -> CallToolResult:
            async with Client(url) as client:
                return await client.call_tool(tool, arguments)

        return asyncio.run(once())

    yield ask


def _holds(case: any_proxy.Case, url: str) -> None:
    async def story() -> None:
        async with Client(url) as client:
            await case(client)

    asyncio.run(story())


def _holds_over(transport: str, case: any_proxy.Case, config: Path) -> None:
    async def story() -> None:
        async with connected(transport, config) as client:
            await case(client)

    asyncio.run(story())


@TRANSPORTS
def test_the_opt_in_is_in_the_schema_and_the_description_on_every_transport(transport: str, tmp_path: Path) -> None:
    """FR-014, fault 2."""
    case = any_proxy.the_opt_in_is_in_the_schema_and_the_description
    _holds_over(transport, case, _without_locked(tmp_path))


@TRANSPORTS
def test_each_lock_is_found_rejected_and_counted(transport: str, tmp_path: Path) -> None:
    """Shown, rejected in its own words, counted once (FR-001, FR-008, FR-010, fault 1, fault 3, fault 5)."""
    _holds_over(transport, any_proxy.each_lock_is_found_rejected_and_counted, _locked(tmp_path))


def test_each_status_has_words_of_its_own_that_name_the_command_that_lifts_it(tmp_path: Path) -> None:
    """Fault 4, SC-003: "server disabled" suggests no enabling of the tool, and the operator's lock names no toggle."""

    async def story() -> None:
        config = _locked(tmp_path)
        async with client_of(config) as client:
            reply = (await retrieve(client, "file disk", include_disabled=True))["remediation"]
            rejected = {status: text_of(await call(client, name)) for name, (status, _) in EXPECTED.items()}
        ways = {
            "server_disabled": "`callability servers enable ",
            "disabled_by_config": "`disabled_tools`",
            "server_quarantined": "`callability servers release ",
            "disabled_by_user": "`callability approvals enable ",
            "pending_approval": "`callability approvals approve ",
        }
        for status, way in ways.items():
            for text in (reply[status], rejected[status]):
                assert way in text
                assert str(config) in text
                # Behind it are the locks that remain.
                first, *_ = text.split(" Then ")
                assert [other for other, foreign in ways.items() if foreign in first] == [status]
        for text in (reply["disabled_by_config"], rejected["disabled_by_config"]):
            first, *_ = text.split(" Then ")
            assert re.search("the user cannot override it|The operator must", first)
            assert "callability " not in first.replace(str(config), "")

    asyncio.run(story())


@TRANSPORTS
def test_without_the_flag_every_byte_is_as_if_locked_tools_did_not_exist(transport: str, tmp_path: Path) -> None:
    """FR-002 and SC-001, over more than 100 queries and limits."""

    async def answers(config: Path) -> list[tuple[str, dict[str, Any]]]:
        async with connected(transport, config) as client:
            return await many_answers(client)

    without = asyncio.run(answers(_without_locked(tmp_path / "without")))
    locked_tools_change_no_byte(asyncio.run(answers(_locked(tmp_path / "locked"))), without)


def test_the_notice_counts_every_relevant_locked_tool_and_names_none(locked: str) -> None:
    """FR-009: also quarantined and pending ones, whose text is not searched."""
    _holds(any_proxy.the_notice_counts_every_relevant_locked_tool_and_names_none, locked)


def test_a_poisoned_description_is_in_no_answer(locked: str) -> None:
    """Spec A.3 and fault 6: for every request, on every surface."""
    _holds(any_proxy.a_poisoned_description_is_in_no_answer, locked)


def test_a_near_miss_of_a_locked_name_names_no_locked_tool(locked: str) -> None:
    """Only callable names are suggested: a locked name is not disclosed to an agent that did not ask for it."""
    _holds(any_proxy.a_near_miss_of_a_locked_name_names_no_locked_tool, locked)


def test_a_callable_tool_is_really_called_and_its_result_is_whole(locked: str) -> None:
    """Structured content with null values too."""
    _holds(any_proxy.a_callable_tool_is_really_called_and_its_result_is_whole, locked)


def test_entries_have_what_the_upstream_gives_and_nothing_else(locked: str) -> None:
    """A description that is not given is left out."""
    _holds(any_proxy.entries_have_what_the_upstream_gives_and_nothing_else, locked)


def test_bad_input_is_an_error_that_says_what_was_found_and_wanted(locked: str) -> None:
    """In a result that the model can see, and short for any argument (fault 7)."""
    _holds(any_proxy.bad_input_is_an_error_that_says_what_was_found_and_wanted, locked)


def test_a_poisoned_description_is_in_no_answer_about_its_server(locked: str) -> None:
    """Spec A.3: in those about one server too, which no other proxy need give."""
    with _connected(locked) as ask:
        assert "IGNORE" not in ask("upstream_servers", operation="get", name="held").model_dump_json()


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("retrieve_tools", {"query": "x", "include_disable": True}, "did you mean `include_disabled`?"),
        ("upstream_servers", {"operation": "remove"}, "`operation` must be `list` or `get`, and is `remove`"),
        ("upstream_servers", {"operation": "get"}, "`name` must be text, and is empty or not given"),
        ("upstream_servers", {"operation": "get", "name": "fils"}, "there is no server `fils`. Similar names: `files`"),
        ("upstream_servers", {"name": "files"}, "`name` goes with the operation `get`"),
        ("files:read_file", {}, "Not called: `files:read_file` is called with `call_tool`, as its `name`."),
        ("gone:`x`", {}, "Not called: `gone:\\u0060x\\u0060` is called with `call_tool`, as its `name`."),
        ("read_file", {}, "the tools are `retrieve_tools`, `call_tool`, `upstream_servers`"),
    ],
)
def test_bad_input_of_the_gateways_own_is_an_error_that_says_what_was_found_and_wanted(
    tool: str, arguments: dict[str, Any], text: str, locked: str
) -> None:
    """In a result that the model can see, and short for any argument."""
    with _connected(locked) as ask:
        result = ask(tool, **arguments)
    assert result.is_error
    assert text in text_of(result)
    assert len(text_of(result)) < 400


def test_a_disabled_server_answers_for_any_name_and_is_not_started(locked: str) -> None:
    """Its tools are those that the config or the approvals name; any other name gets the server's lock too."""
    with _connected(locked) as ask:
        result = ask("call_tool", name="off:anything")
        assert (result.structured_content or {})["status"] == "server_disabled"
        entry = (ask("upstream_servers", operation="get", name="off").structured_content or {})["server"]
        assert entry["state"] == "disabled"


def test_a_server_without_locks_gains_no_byte(tmp_path: Path) -> None:
    """SC-005."""
    with http_gateway(_without_locked(tmp_path)) as url, _connected(url) as ask:
        ask("retrieve_tools", query="file")
        files = {"name": "files", "type": "stdio", "enabled": True, "quarantined": False, "state": "connected"}
        load = {"status": "available", "attempts": 1}
        assert ask("upstream_servers").structured_content == {"servers": [files | {"load": load}]}


def test_trust_manual_holds_every_tool_without_a_record(tmp_path: Path) -> None:
    """Spec A.2; without an approvals file, the words name the command that creates one."""
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", *OPEN_TOOLS, trust="manual")})
    with http_gateway(config) as url, _connected(url) as ask:
        found = found_in(ask("retrieve_tools", query="read file", include_disabled=True))
        assert [entry["status"] for entry in found["disabled"]] == ["pending_approval"] * 3
        command = f"`callability approvals approve --config {config} -- SERVER TOOL`"
        assert command in found["remediation"]["pending_approval"]


@pytest.mark.parametrize(
    "content", [None, "", "[1, 2]", "files: [read_file]", "files: {read_file: true}", "files: {a: {}, a: {}}", "{"]
)
def test_an_approvals_file_that_cannot_be_read_makes_every_approval_unknown(
    content: str | None, tmp_path: Path
) -> None:
    """Spec A.7: nothing is called, nothing of the upstream is shown, and the server list says why."""
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", *OPEN_TOOLS)}, approvals="approvals.yaml")
    if content is not None:
        (tmp_path / "approvals.yaml").write_text(content)
    with http_gateway(config) as url, _connected(url) as ask:
        result = ask("call_tool", name="files:read_file")
        assert (result.structured_content or {})["status"] == "disabled_unknown"
        assert "deliberate" not in text_of(result)
        assert "held back rather than guessed" in text_of(result)
        found = found_in(ask("retrieve_tools", query="read file", include_disabled=True))
        assert found["tools"] == []
        assert [list(entry) for entry in found["disabled"]] == [["name", "server", "status"]] * 3
        servers = ask("upstream_servers").structured_content or {}
        assert servers["approvals"] == "the approvals file could not be read: every approval is unknown"


def test_one_field_that_cannot_be_read_is_unknown_alone(tmp_path: Path) -> None:
    """A value outside its domain, with a warning at its place in the log."""
    (tmp_path / "approvals.yaml").write_text(
        "files:\n  read_file: {disabled: maybe}\n  list_files: {disabled: false}\n"
    )
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", *OPEN_TOOLS)}, approvals="approvals.yaml")
    with http_gateway(config) as url, _connected(url) as ask:
        assert (ask("call_tool", name="files:read_file").structured_content or {})["status"] == "disabled_unknown"
        assert not ask("call_tool", name="files:list_files").is_error
    assert "approvals.yaml:2:25: " in (tmp_path / "gateway.log").read_text()


def test_entries_of_the_lists_that_match_no_tool_are_warned_of(tmp_path: Path) -> None:
    """With their place, in the log."""
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", *OPEN_TOOLS, disabled_tools=["raed_file"])})
    with http_gateway(config) as url, _connected(url) as ask:
        ask("retrieve_tools", query="file")
    log = (tmp_path / "gateway.log").read_text()
    assert "`raed_file` in `disabled_tools` of server `files` matches no tool" in log
    assert "did you mean `read_file`?" in log


def test_a_config_that_is_not_sound_stops_the_start_with_all_findings(tmp_path: Path) -> None:
    """Exit code 1, and an unknown key has a suggestion."""
    servers = {"a b": {"command": "x"}, "c": {"command": "x", "disabled": True, "enabled_tools": []}}
    done = callability("gateway", "--config", str(write_config(tmp_path, servers)))
    assert (done.returncode, done.stdout) == (1, "")
    assert "`enabled: false`" in done.stderr
    assert done.stderr.count("mcp_config.json:") == 3
    missing = callability("gateway", "--config", str(tmp_path / "nowhere.json"))
    assert (missing.returncode, "cannot be read" in missing.stderr) == (1, True)


def test_a_policy_service_is_reached_on_loopback_only(tmp_path: Path) -> None:
    """The requests are not encrypted."""
    done = callability("gateway", "--config", str(_without_locked(tmp_path)), "--policy-address", "10.0.0.1:1")
    assert (done.returncode, "is not loopback, and is refused" in done.stderr) == (2, True), done.stderr


def test_answers_over_http_are_sent_at_once() -> None:
    """Connections that are accepted send without waiting."""

    async def story() -> None:
        with listening("127.0.0.1:0") as listener:
            accepted: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
            async with await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listener):
                _, ours = await asyncio.open_connection(*listener.getsockname())
                theirs = await accepted
                assert theirs.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                ours.close()
                theirs.close()

    asyncio.run(story())


def test_a_policy_service_that_is_gone_stops_calls_and_discovery_and_says_so(tmp_path: Path) -> None:
    """Spec A.7: the answer is not a status and names no tool; when the service is back, calls work again."""
    policy = f"unix:{tmp_path}/policy"
    with http_gateway(_locked(tmp_path), "--policy-address", policy) as url, _connected(url) as ask:
        for tool, arguments in (("retrieve_tools", {"query": "file"}), ("call_tool", {"name": "files:read_file"})):
            result = ask(tool, **arguments)
            assert result.is_error
            assert result.structured_content is None
            assert "the policy service gave no answer (UNAVAILABLE)" in text_of(result)
            assert "read_file" not in text_of(result)
        servers = ask("upstream_servers").structured_content or {}
        assert "there are no counts" in servers["policy"]
        assert not any("tools" in server for server in servers["servers"])
        with serving(address=policy):
            until = time.monotonic() + 120
            while ask("retrieve_tools", query="file").is_error:
                assert time.monotonic() < until
            assert not ask("call_tool", name="files:read_file").is_error
            assert (ask("call_tool", name="files:delete_file").structured_content or {})["status"] == "disabled_by_user"


def test_an_upstream_that_fails_in_mid_call_fails_alone_and_comes_back(tmp_path: Path) -> None:
    """It dies, never answers, or writes garbage; the other server is not touched, and the next call reconnects."""
    servers = {"good": shelf(tmp_path, "good", *OPEN_TOOLS), "bad": bad("lists all")}
    config = write_config(tmp_path, servers, deadlines={"call_seconds": 10})

    async def story() -> None:
        with http_gateway(config) as url:
            async with Client(url) as client:
                failures = {
                    "exit": "exited with code 7",
                    "hang": "did not answer within 10 s",
                    "half a line": "before it answered",
                }
                for tool, reason in failures.items():
                    failing, well = await asyncio.gather(call(client, f"bad:{tool}"), call(client, "good:read_file"))
                    assert failing.is_error
                    assert "`bad`" in text_of(failing)
                    assert reason in text_of(failing)
                    assert not well.is_error
                    again = await call(client, "bad:pid")
                    assert not again.is_error, text_of(again)

    asyncio.run(story())


def test_a_server_that_does_not_start_is_reported_and_does_not_delay_the_others(tmp_path: Path) -> None:
    """A call of a tool of it says that it is not connected, and why."""
    servers = {
        "good": shelf(tmp_path, "good", *OPEN_TOOLS),
        "gone": {"command": "no-such-command-anywhere"},
        "silent": {"command": "sleep", "args": ["600"]},
    }
    config = write_config(tmp_path, servers, deadlines={"open_seconds": 20})
    with http_gateway(config) as url, _connected(url) as ask:
        found = found_in(ask("retrieve_tools", query="read file"))
        assert found["tools"][0]["name"] == "good:read_file"
        states = {each["name"]: each for each in (ask("upstream_servers").structured_content or {})["servers"]}
        assert (states["good"]["state"], states["gone"]["state"]) == ("connected", "failed")
        # The silent one is retried soon, and may be opening.
        assert states["silent"]["state"] != "connected"
        statuses = {name: each["load"]["status"] for name, each in states.items()}
        assert statuses == {"good": "available", "gone": "permanent", "silent": "transient"}
        assert "was not found" in states["gone"]["load"]["error"]
        assert states["silent"]["load"]["error"] == "did not answer within 20 s; `deadlines.open_seconds` sets this"
        result = ask("call_tool", name="gone:anything")
        assert result.is_error
        assert "`gone`" in text_of(result)
        assert "was not found" in text_of(result)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(
    "how", ["SIGTERM over stdio", "end of standard input", "SIGTERM over HTTP", "SIGINT over HTTP", "SIGHUP over HTTP"]
)
def test_upstream_processes_end_with_the_gateway(how: str, tmp_path: Path) -> None:
    """By a signal and when standard input closes, with exit code 0."""
    config = write_config(tmp_path, {"one": shelf(tmp_path, "one", *OPEN_TOOLS), "two": bad()})
    http = ["--transport", "http", "--address", "127.0.0.1:0"] if "HTTP" in how else []
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start("gateway", "--config", str(config), *http, text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        log = ""
        while log.count("is connected with") < 2 or "started with" not in log:
            line = process.stderr.readline()
            assert line, log
            log += line
        children = _children(process.pid)
        assert len(children) == 2
        if how == "end of standard input":
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[how.split(maxsplit=1)[0]])
        assert process.wait(timeout=120) == 0
        assert [child for child in children if not _gone(child)] == []


def test_a_gateway_that_was_started_to_outlive_its_terminal_ignores_its_end(tmp_path: Path) -> None:
    """As `nohup` starts it."""
    command = ["nohup", *COMMAND, "gateway", "--config", str(write_config(tmp_path, {}))]
    http = ["--transport", "http", "--address", "127.0.0.1:0"]
    with subprocess.Popen([*command, *http], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line, status = process.stdout.readline(), Path(f"/proc/{process.pid}/status").read_text()
        process.terminate()
        process.communicate(timeout=120)
    assert "http://127.0.0.1:" in line
    assert int(status.split("SigIgn:")[1].split()[0], 16) & 1 << signal.SIGHUP - 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_no_value_of_an_argument_and_no_answer_is_logged(mode: Literal["auto", "legacy"], tmp_path: Path) -> None:
    """At the most verbose level, for clients of both revisions; nor does it show use of the flag (FR-013)."""

    async def story() -> None:
        async with Client(url, mode=mode) as client:
            await call(client, "files:read_file", path="very-secret-value")
            await retrieve(client, "file very-secret-query", include_disabled=True)

    with http_gateway_process(_locked(tmp_path), "--log-level", "debug") as url:
        asyncio.run(story())
    log = (tmp_path / "gateway.log").read_text()
    for kept_back in ("very-secret", "was called", "include_disabled", "remediation", POISON):
        assert kept_back not in log, kept_back
    assert "an agent called `read_file` of `files`: answered in " in log


def test_a_name_that_the_server_does_not_list_is_never_called(tmp_path: Path) -> None:
    """A record or a list may name a tool that does not exist, also while the server is opening."""
    (tmp_path / "approvals.json").write_text(json.dumps({"files": {"ghost": {}}, "nowhere": {"x": {}}}))
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", *OPEN_TOOLS)}, approvals="approvals.json")
    with http_gateway(config) as url, _connected(url) as ask:
        for _ in range(2):
            result = ask("call_tool", name="files:ghost")
            assert (result.is_error, 'there is no tool "files:ghost"' in text_of(result)) == (True, True)
    log = (tmp_path / "gateway.log").read_text()
    assert "the approval record of `ghost` matches no tool of server `files`" in log
    assert "the approvals have records of server `nowhere`, which is not in the config" in log
