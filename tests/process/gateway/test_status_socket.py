"""The socket on which commands ask a running gateway: whose it is, where it is, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from callability.gateway.serving.status_socket import MAX_CONNECTIONS, MAX_PATH_BYTES, MAX_QUESTION_BYTES
from support.commands import callability
from support.edits import edit
from support.gateway_in_process import http_gateway
from support.gateways import READ, shelf, write_config
from support.running import start
from support.waiting import eventually


@pytest.fixture(autouse=True)
def home(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of configuration files of a user who has none."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(short_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("CALLABILITY_CONFIG", raising=False)
    return short_path / "callability"


def _config(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    servers = {"files": shelf(directory, "files", READ), "off": shelf(directory, "off", READ, enabled=False)}
    return write_config(directory, servers, agents={"ci": {"servers": ["files"]}, "clerk": {"servers": ["off"]}})


@contextmanager
def _connected(path: Path) -> Iterator[Any]:
    """Connect to a socket, and yield a stream of lines."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(str(path))
        with connection.makefile("rwb") as stream:
            yield stream


def _answer(stream: Any, line: bytes) -> Any:
    stream.write(line + b"\n")
    stream.flush()
    return json.loads(stream.readline())


def test_the_socket_is_its_users_alone_and_goes_with_the_gateway(home: Path, tmp_path: Path) -> None:
    """It says which gateway it is, and answers a wrong question with what is wrong; nothing on it changes anything."""
    config = _config(tmp_path)
    before = config.read_bytes()
    path = home / "run" / f"{os.getpid()}.sock"
    with http_gateway(config, has_status_socket=True):
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        with _connected(path) as stream:
            about = json.loads(stream.readline())
            assert (about["v"], about["pid"], about["agent"], about["config"]) == (1, os.getpid(), "", str(config))
            assert about["policy"] == {"directory": None, "address": None}
            for line, error in (
                (b"reload", "a question must be a JSON object in one line"),
                (b"[]", "a question must be a JSON object in one line"),
                (b'{"ask": "stop"}', "`ask` must be `why` or `preflight`"),
                (b'{"ask": "why", "server": "files"}', "`server` and `tool` must be names"),
                (b'{"ask": "why", "agent": "cl", "server": "a", "tool": "b"}', "the config has no agent `cl`"),
                (b'{"ask": "preflight", "tools": "files:read_file"}', "`tools` must be a list of ids"),
                (b'{"ask": "preflight", "tools": []}', "`tools` must have 1 to 50 entries, and has 0"),
            ):
                assert _answer(stream, line)["error"].startswith(error)
            question = b'{"ask": "why", "server": "off", "tool": "read_file", "unknown": 1}'
            assert _answer(stream, question)["status"] == "server_disabled"
        with _connected(path) as stream:
            stream.readline()
            stream.write(b" " * (MAX_QUESTION_BYTES + 1) + b"\n")
            stream.flush()
            assert stream.readline() == b""
    assert not path.exists()
    assert config.read_bytes() == before


def test_more_connections_than_commands_need_are_not_answered(home: Path, tmp_path: Path) -> None:
    """One that leaves makes room."""
    path = home / "run" / f"{os.getpid()}.sock"
    with http_gateway(_config(tmp_path), has_status_socket=True):
        opened = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CONNECTIONS)]
        for each in opened:
            each.connect(str(path))
            assert each.recv(1) == b"{"
        with _connected(path) as stream:
            assert stream.readline() == b""
        for each in opened:
            each.close()

        def is_answered() -> bool:
            with _connected(path) as stream:
                return bool(stream.readline())

        eventually(is_answered)


def test_a_directory_that_others_can_open_gets_no_socket(home: Path, tmp_path: Path) -> None:
    """The gateway runs, and its log says why commands cannot ask it."""
    (home / "run").mkdir(parents=True)
    (home / "run").chmod(0o755)
    with http_gateway(_config(tmp_path), has_status_socket=True):
        assert not list((home / "run").iterdir())
    assert "must be a directory of this user, and closed to others" in (tmp_path / "gateway.log").read_text()


def test_a_path_that_is_too_long_is_in_the_session_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find it there; what a gateway left behind that was killed is removed."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ("x" * MAX_PATH_BYTES)))
    session = Path("/tmp") / f"callability-{os.getpid()}"
    session.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    config, left = _config(tmp_path), session / "callability/1.sock"
    try:
        with http_gateway(config, has_status_socket=True):
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(left))
            done = callability("why", "off:read_file", "--config", str(config), "--json")
            assert json.loads(done.stdout)["by"]["gateway"] == os.getpid()
            assert [each.name for each in left.parent.iterdir()] == [f"{os.getpid()}.sock"]
    finally:
        (session / "callability").rmdir()
        session.rmdir()


def test_a_file_that_was_edited_since_is_named_and_an_edit_that_was_refused(tmp_path: Path) -> None:
    """The gateway answers by the last good state, and the report says so."""
    config = _config(tmp_path)
    with http_gateway(config, has_status_socket=True):
        good = json.loads(config.read_text())
        edit(config, servers={"off": {"enabled": "yes"}})

        def report() -> dict[str, Any]:
            done = callability("why", "off:read_file", "--config", str(config), "--json")
            found: dict[str, Any] = json.loads(done.stdout)
            return found

        eventually(lambda: report()["refused_edits"])
        found = report()
        assert (found["status"], found["newer_files"]) == ("server_disabled", [str(config)])
        assert found["refused_edits"] == {"config": "the edited config has errors: the last good one stays in effect"}
        good["mcpServers"]["off"]["enabled"] = True
        config.write_text(json.dumps(good))
        eventually(lambda: report()["status"] != "server_disabled")
        assert (report()["newer_files"], report()["refused_edits"]) == ([], {})


def test_of_several_gateways_a_call_names_one(home: Path, tmp_path: Path) -> None:
    """One over stdio is about its agent alone; the one that ends, and the one that is killed, are no longer there."""
    config, other = _config(tmp_path), _config(tmp_path / "other")

    stdio = ("gateway", "--config", str(other), "--agent", "clerk")
    with (
        http_gateway(config, has_status_socket=True),
        start(*stdio, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process,
    ):
        pid = process.pid
        eventually((home / "run" / f"{pid}.sock").exists)
        several = callability("why", "off:read_file")
        assert several.returncode == 2
        first, *lines = several.stderr.splitlines()
        assert first == "callability: several gateways match: name one by `--gateway PID`"
        assert sorted(line.strip().partition(",")[0] for line in lines) == sorted(
            [f"{pid}: config {other}", f"{os.getpid()}: config {config}"]
        )
        named = json.loads(callability("why", "off:read_file", "--gateway", str(pid), "--json").stdout)
        assert (named["agent"], named["by"]["gateway"]) == ("clerk", pid)
        refused = callability("why", "off:read_file", "--gateway", str(pid), "--agent", "ci")
        assert (refused.returncode, refused.stderr) == (
            2,
            f"callability: gateway {pid}: this gateway is run for agent `clerk` alone\n",
        )
        assert callability("why", "off:read_file", "--gateway", "1").returncode == 2
        for arguments in (("--config", str(config)), ("--agent", "ci")):
            found = json.loads(callability("why", "off:read_file", *arguments, "--json").stdout)
            assert found["by"]["gateway"] == os.getpid()
        assert process.stdin
        process.stdin.close()
    assert not list((home / "run").iterdir())
    command = ("gateway", "--config", str(config), "--transport", "http", "--address", "127.0.0.1:0")
    with start(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as killed:
        assert killed.stdout
        assert killed.stdout.readline().startswith("listening on ")
        killed.send_signal(signal.SIGKILL)
    assert [each.name for each in (home / "run").iterdir()] == [f"{killed.pid}.sock"]
    alone = json.loads(callability("why", "off:read_file", "--config", str(config), "--json").stdout)
    assert alone["by"]["gateway"] is None
    assert not list((home / "run").iterdir())
