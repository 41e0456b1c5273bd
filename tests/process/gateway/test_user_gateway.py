"""Clients that join the gateway of their user by `callability connect`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client

from callability.connect.joining import PROTOCOL
from support.catalogs import MODES, Agent, Person, entry
from support.checkout import UPSTREAMS
from support.gateways import READ, SEND, call, retrieve, shelf, text_of
from support.running import COMMAND, command_of_script
from support.upstreams.oauth_provider import OAuthProvider
from support.user_gateways import UserHome, agents, user_home
from support.waiting import becomes, eventually, names

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserHome]:
    """Return the home that the tests of this module share, and in it one gateway."""
    directory = tmp_path_factory.mktemp("servers")
    command, *arguments = command_of_script(UPSTREAMS / "rich.py")
    servers = {
        "files": shelf(directory, "files", READ),
        "mail": shelf(directory, "mail", SEND),
        "rich": {"command": command, "args": arguments},
    }
    scopes = agents(cursor=["files"], claude=["files", "mail"], codex=["rich"])
    with user_home(servers, agents=scopes, deadlines={"open_seconds": 60}) as made:
        yield made


async def test_clients_that_start_at_once_share_one_gateway_and_each_sees_its_scope(home: UserHome) -> None:
    """One of them starts it, in the place of a socket that a dead gateway left; and each server runs once."""
    home.end()

    async def seen(agent: str) -> tuple[str, list[str], list[int]]:
        async with home.client(agent) as client:
            found = await retrieve(client, "read a file, send a letter")
            listed = (await client.call_tool("upstream_servers", {})).structured_content
            assert {tool["name"].partition(":")[0] for tool in found["tools"]} <= {
                each["name"] for each in listed["servers"]
            }
            return agent, [each["name"] for each in listed["servers"]], home.gateways

    answers = await asyncio.gather(*map(seen, ("cursor", "claude", "codex")))
    assert [answer[:2] for answer in answers] == [
        ("cursor", ["files"]),
        ("claude", ["files", "mail"]),
        ("codex", ["rich"]),
    ]
    assert len({tuple(answer[2]) for answer in answers}) == 1
    assert len(home.gateways) == 1
    assert sum("is connected" in line for line in home.log.splitlines()) == 3


async def test_a_server_that_does_not_start_names_the_log_of_the_gateway_that_a_client_started(home: UserHome) -> None:
    """Nobody chose its place; what the server wrote before it ended is in it."""
    before = home.config.read_text()
    config = json.loads(before)
    ends = ["-c", "import sys; sys.exit('no licence')"]
    config["mcpServers"]["ends"] = {"command": sys.executable, "args": ends}
    config["agents"]["cursor"]["servers"].append("ends")
    home.config.write_text(json.dumps(config, indent=2))
    try:
        async with home.client("cursor") as client:
            await becomes(lambda: _load_status(client, "ends"), "permanent")
            text = text_of(await call(client, "ends:any"))
        [log] = re.findall("must check the gateway's log `([^`]+)`, fix the server", text)
        assert log == str(home.socket.with_suffix(".log"))
        assert "no licence" in home.log
    finally:
        home.config.write_text(before)


async def test_the_calls_of_a_client_that_is_killed_are_cancelled(home: UserHome) -> None:
    """As over stdio; those of other clients go on."""
    async with home.client("codex") as other:
        killed = _waiting_client(home)
        await call(other, "rich:is waiting")
        killed.kill()
        killed.communicate()
        # It answers once a call that waited was cancelled.
        assert not (await call(other, "rich:was cancelled")).is_error


async def test_a_call_that_a_client_cancels_is_cancelled_at_the_server(home: UserHome) -> None:
    """The client stays connected, and its next call is answered."""
    async with home.client("codex") as client:
        waiting = asyncio.create_task(call(client, "rich:wait"))
        assert not (await call(client, "rich:is waiting")).is_error
        waiting.cancel()
        assert not (await call(client, "rich:was cancelled")).is_error
        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_dialog_is_shown_by_the_client_whose_agent_needs_it(home: UserHome) -> None:
    """In both revisions of MCP; the other client of the gateway, which enabled nothing, is asked nothing."""
    async with OAuthProvider() as provider:
        before = home.config.read_text()
        config = json.loads(before)
        config["catalog"] = {"greeter": entry(provider)}
        for name in ("codex", "cursor"):
            config["agents"][name]["servers"].append("greeter")
        home.config.write_text(json.dumps(config, indent=2))
        try:
            other = Person()
            async with home.client("cursor", elicitation_callback=other) as beside:
                for mode in MODES:
                    person = Person()
                    async with home.client("codex", mode=mode, elicitation_callback=person) as client:
                        it = Agent(client, person)
                        await becomes(lambda: _has_catalog(client), True)
                        assert not (await it.enable()).is_error
                        assert len(person.dialogs) == 1
                        assert text_of(await call(client, "greeter:greet")) == "greet was called"
                        await it.disable()
                await beside.list_tools()
            assert other.dialogs == []
        finally:
            home.config.write_text(before)


def test_what_a_client_sent_before_it_closed_its_end_is_answered(home: UserHome) -> None:
    """So a script can pipe requests into the command."""
    answered = home.run("connect", "--agent", "cursor", input=WAIT_FOREVER.splitlines()[0] + "\n")
    assert '"id":1' in answered.stdout, answered.stderr
    assert answered.returncode == 0


def test_an_unknown_agent_and_another_config_are_refused(home: UserHome, tmp_path: Path) -> None:
    """The exit code is that of a usage error; a config with an error shows the log of the start."""
    unknown = home.run("connect", "--agent", "curser")
    assert unknown.returncode == 2
    assert unknown.stderr == "callability: the config has no agent `curser` (did you mean `cursor`?)\n"
    # A place of records is read at a start, and this one is a file.
    unfit = tmp_path / "unfit.json"
    unfit.write_text('{"mcpServers": {}, "records": {"to": "unfit.json"}}')
    refused = home.run("connect", "--config", str(unfit))
    assert refused.returncode == 1
    assert "callability: the gateway did not start; its log, " in refused.stderr
    assert refused.stderr.endswith("not a directory\n")


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[UserHome]:
    """Return the home of a user who misspelt a key of the config while no gateway ran."""
    with user_home({"files": shelf(tmp_path, "files", READ)}, agents=agents(cursor=["files"])) as made:
        made.config.write_text(made.config.read_text().replace('"command"', '"comand"'))
        yield made


async def test_a_client_whose_config_has_errors_reads_so_and_needs_no_restart(broken: UserHome) -> None:
    """Its agent says what the user must do; the servers open as soon as that is done, in the scope of the agent."""
    written = broken.config.read_text()
    async with broken.client("cursor") as client:
        notice = (await retrieve(client, "read a file"))["notice"]
        assert notice == (
            "The gateway has no servers because its config has errors. The user must fix them:"
            " `callability config check` lists them. The servers then open without a restart."
        )
        called = await call(client, "files:read_file")
        assert (called.is_error, text_of(called)) == (True, f"Not called. {notice}")
        listed = (await client.call_tool("upstream_servers", {})).structured_content
        assert (listed["servers"], listed["notice"]) == ([], notice)

        checked = broken.run("config", "check")
        assert "unknown key `comand` in server `files` (did you mean `command`?)" in checked.stdout
        why = broken.run("why", "files:read_file")
        assert (why.returncode, why.stdout) == (1, "")
        assert "unknown key `comand`" in why.stderr
        assert "no server is opened until its errors are corrected" in broken.log

        # Another error is one more edit that is refused.
        broken.config.write_text("{")
        await becomes(lambda: _says(broken, "gateway.json:1:"), True)
        broken.config.write_text(written.replace('"comand"', '"command"'))
        await becomes(names("read a file", client), ["files:read_file"])
        assert not (await call(client, "files:read_file")).is_error
        listed = (await client.call_tool("upstream_servers", {})).structured_content
        assert [each["name"] for each in listed["servers"]] == ["files"]
        assert not listed.keys() & {"notice", "config"}


async def test_records_that_the_corrected_config_wants_begin_with_a_new_gateway(broken: UserHome) -> None:
    """The gateway that waited ends, so that no call goes unrecorded; the client starts its connection again."""
    said = await asyncio.to_thread(_correct_with_records, broken)
    assert said == "callability: the gateway ended; start this client's connection again\n"
    async with broken.client("cursor") as client:
        assert not (await call(client, "files:read_file")).is_error
    recorded = broken.run("records", "show", str(broken.config.with_name("records")))
    assert "files:read_file" in recorded.stdout, recorded.stderr


def test_the_process_of_a_client_imports_the_standard_library_alone(home: UserHome) -> None:
    """And of that nothing that takes long: it is started once for each client and server."""
    command = [sys.executable, "-X", "importtime", "-m", "callability", "connect", "--agent", "nobody"]
    done = subprocess.run(command, env=home.environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2, done.stderr[-500:]
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    modules = {line.rpartition("|")[2].strip() for line in lines}
    ours = {name for name in modules if name.partition(".")[0] == "callability"}
    assert ours == {
        "callability",
        "callability.cli",
        "callability.connect",
        "callability.connect.joining",
    }
    others = {name.partition(".")[0] for name in modules - ours}
    assert not others & {
        "asyncio",
        "dataclasses",
        "inspect",
        "json",
        "pathlib",
        "subprocess",
        "typer",
        "typing",
        "yaml",
    }
    assert not others & {"mcp", "pydantic", "grpc", "google", "anyio", "starlette"}


def test_a_gateway_without_agents_ends_and_says_so(home: UserHome) -> None:
    """A second one of the same config does not start; the next client starts another."""
    home.run("connect", "--agent", "cursor")
    command = ["gateway", "--config", str(home.config), "--transport", "unix", "--idle-seconds", "1"]
    second = home.run(*command)
    assert second.returncode == 2
    assert second.stderr.endswith(f"a gateway of this config runs already: it listens on `{home.socket}`\n")
    home.end()
    first = home.run(*command)
    assert first.returncode == 0
    assert "the gateway ends: no agent was connected for 1 s" in first.stderr


def test_records_that_nobody_would_read_are_refused(tmp_path: Path) -> None:
    """A client starts the gateway without a standard output."""
    servers = {"files": shelf(tmp_path, "files", READ)}
    with user_home(servers, agents=agents(cursor=["files"]), records={"to": "-"}) as home:
        done = home.run("connect", "--agent", "cursor")
        assert done.returncode == 1
        assert (
            "records would be lost: standard output is /dev/null, as a client starts it; name a directory"
            in done.stderr
        )


def test_a_folder_that_others_can_enter_is_not_used(home: UserHome) -> None:
    """Another user could put a socket of its own there."""
    home.end()
    home.folder.chmod(0o755)
    try:
        refused = home.run("connect", "--agent", "cursor")
    finally:
        home.folder.chmod(0o700)
    assert refused.returncode == 1
    assert "it must be a folder of this user that nobody else can enter; set its mode to 0700" in refused.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run a process as another user")
def test_a_socket_of_another_user_is_not_joined_and_another_user_does_not_join(home: UserHome) -> None:
    """Even if the modes of folder and socket allow it, the system says who is at the other end."""
    home.end()
    home.socket.unlink(missing_ok=True)
    listen = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.setuid(65534); s.listen();"
        " print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", listen, str(home.socket)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as stranger:
        assert stranger.stdout is not None
        stranger.stdout.readline()
        refused = home.run("connect", "--agent", "cursor")
        stranger.communicate(timeout=120)
    assert refused.returncode == 1
    assert refused.stderr.endswith("is not joined: another user listens there\n")

    home.run("connect", "--agent", "cursor")
    join = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); os.setuid(65534); s.connect(sys.argv[1]);"
        " s.sendall(sys.argv[2].encode()); print(s.recv(1000).decode())"
    )
    hello = f"{PROTOCOL}\nconfig {home.config}\nagent cursor\n\n"
    opened = [home.path, home.path / ".local", home.path / ".local/state", home.folder.parent, home.folder, home.socket]
    modes = [path.stat().st_mode for path in opened]
    for path in opened:
        path.chmod(0o777)
    joining = [sys.executable, "-S", "-c", join, str(home.socket), hello]
    done = subprocess.run(joining, capture_output=True, text=True, check=False)
    for path, mode in zip(opened, modes, strict=True):
        path.chmod(mode)
    assert done.stdout.strip() == "no this gateway is another user's", done.stderr


def test_a_gateway_that_ends_ends_the_processes_of_its_clients(home: UserHome) -> None:
    """A client sees the end of its server, and can start it again."""
    command = [*COMMAND, "connect", "--agent", "cursor"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=home.environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(WAIT_FOREVER.splitlines()[0] + "\n")
        process.stdin.flush()
        assert '"id":1' in process.stdout.readline()
        for gateway in home.gateways:
            os.kill(gateway, signal.SIGTERM)
        # Its end of the pipe stays open: that it closes is no reason to exit with code 1.
        process.wait(timeout=120)
        _, said = process.communicate()
    assert process.returncode == 1
    assert said == "callability: the gateway ended; start this client's connection again\n"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_of_systemd_are_written_and_removed(tmp_path: Path) -> None:
    """Systemd itself finds no fault in them; what runs `systemctl` here stands for a session of a user."""
    commands = tmp_path / "commands"
    program = tmp_path / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {commands}\n')
    program.chmod(0o755)
    with user_home({}) as home:
        path = f"{tmp_path}:{os.environ['PATH']}"
        environment = {**home.environment, "PATH": path}
        done = home.run("connect", "--install", env=environment)
        units = home.path / ".config" / "systemd" / "user"
        assert done.returncode == 0, done.stderr
        assert sorted(unit.name for unit in units.iterdir()) == ["callability.service", "callability.socket"]
        assert f"ListenStream={home.socket}" in (units / "callability.socket").read_text()
        assert f'Environment="PATH={path}"' in (units / "callability.service").read_text()
        verify = ["systemd-analyze", "--user", "verify", *map(str, units.iterdir())]
        verified = subprocess.run(verify, capture_output=True, text=True, env=environment, check=False)
        assert "callability" not in verified.stderr, verified.stderr
        assert home.run("connect", "--uninstall", env=environment).stdout == "removed the service `callability`\n"
        assert [*units.iterdir()] == []
        assert commands.read_text().splitlines()[:3] == [
            "--user show-environment",
            "--user daemon-reload",
            "--user enable --now callability.socket",
        ]
        missing = home.run("connect", "--install", env={**environment, "PATH": str(tmp_path / "nothing")})
        assert missing.returncode == 1
        assert "the gateway is started on demand, which needs no installation" in missing.stderr


def _correct_with_records(home: UserHome) -> str:
    """Correct the config, which then asks for records, while a client is connected; return what its process says."""
    command, pipe = [*COMMAND, "connect", "--agent", "cursor"], subprocess.PIPE
    with subprocess.Popen(command, env=home.environment, stdin=pipe, stderr=pipe, text=True) as process:
        eventually(lambda: home.socket.with_suffix(".log").exists() and "no server is opened" in home.log)
        config = json.loads(home.config.read_text().replace('"comand"', '"command"'))
        home.config.write_text(json.dumps(config | {"records": {"to": "records", "level": "all"}}))
        # Its end of the pipe stays open: that it closes would be another reason to end.
        process.wait(timeout=120)
        return process.communicate()[1]


async def _says(home: UserHome, words: str) -> bool:
    return words in home.log


async def _has_catalog(client: Client) -> bool:
    return "enable_server" in {tool.name for tool in (await client.list_tools()).tools}


def _waiting_client(home: UserHome) -> subprocess.Popen[bytes]:
    """Return the process of a client whose call of a tool waits."""
    command, pipe = [*COMMAND, "connect", "--agent", "codex"], subprocess.PIPE
    process = subprocess.Popen(command, env=home.environment, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    process.stdin.write(WAIT_FOREVER.encode())
    process.stdin.flush()
    return process


WAIT_FOREVER = """\
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},\
"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"call_tool","arguments":{"name":"rich:wait"}}}
"""


async def _load_status(client: Client, server: str) -> str:
    listed = (await client.call_tool("upstream_servers", {})).structured_content
    return next((each.get("load", {}).get("status", "") for each in listed["servers"] if each["name"] == server), "")
