"""`callability preflight`: the exit code says whether a job can start, can start later, or needs a person."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.commands import callability
from support.gateway_in_process import http_gateway
from support.gateways import READ, SEND, shelf, write_config
from support.running import callability_process
from support.waiting import eventually


@pytest.fixture
def config(tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config with a tool for each exit code."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(short_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    servers = {
        "files": shelf(tmp_path, "files", READ, SEND, disabled_tools=["send_mail"]),
        "down": {"command": "/nowhere/to/be/found"},
    }
    return write_config(tmp_path, servers, agents={"ci": {"servers": ["files", "down"]}})


READY, LATER, BLOCKED, UNKNOWN = "files:read_file", "down:any", "files:send_mail", "files:raed_file"


def test_the_worst_tool_gives_the_exit_code(config: Path, tmp_path: Path) -> None:
    """The running gateway and the files alone give the same; a wrong call and a refused file keep their codes."""
    cases = {0: [READY, READY], 10: [READY, LATER], 11: [LATER, BLOCKED, READY], 12: [UNKNOWN, BLOCKED, LATER, READY]}

    def codes(*arguments: str) -> dict[int, int]:
        return {
            code: callability("preflight", *tools, "--agent", "ci", "--config", str(config), *arguments).returncode
            for code, tools in cases.items()
        }

    assert codes("--files") == {code: code for code in cases}
    with http_gateway(config, has_status_socket=True):
        eventually(lambda: codes() == {code: code for code in cases})
    for tools in ([], [f"files:{number}" for number in range(51)], [READY, ""]):
        done = callability("preflight", *tools, "--config", str(config))
        assert (done.returncode, "name 1 to 50 tools" in done.stderr) == (2, True)
    refused = tmp_path / "refused.yaml"
    refused.write_text("mcpServers: 3")
    assert callability("preflight", READY, "--config", str(refused)).returncode == 1
    assert callability("preflight", READY, "--config", str(config), "--agent", "cl").returncode == 2


def test_the_tools_are_read_from_a_file_or_from_standard_input(config: Path, tmp_path: Path) -> None:
    """One a line, beside those that the call names."""
    named = tmp_path / "tools"
    named.write_text(f"# what the nightly job calls\n{BLOCKED}\n\n  {READY}\n")
    arguments = ("preflight", LATER, "--config", str(config), "--json")
    done = callability(*arguments, "--file", str(named))
    assert done.returncode == 11
    assert [each["id"] for each in json.loads(done.stdout)["tools"]] == [LATER, BLOCKED, READY]
    with named.open() as stdin:
        again = callability_process(*arguments, "--file", "-", "--offline", stdin=stdin)
    assert again.returncode == 11
    by_name = {each["id"]: each.get("reason") for each in json.loads(again.stdout)["tools"]}
    assert by_name == {LATER: "not_known", BLOCKED: "tool_denied_by_config", READY: "not_known"}
    missing = callability(*arguments, "--file", str(tmp_path / "nothing"), stdin=subprocess.DEVNULL)
    assert (missing.returncode, missing.stderr) == (
        1,
        f"callability: `{tmp_path / 'nothing'}` cannot be read: no such file or directory\n",
    )


def test_offline_gives_no_verdict_about_a_tool_that_only_its_server_could_name(config: Path) -> None:
    """To try again later would help nobody: nothing is connected then either."""
    done = callability("preflight", READY, "--config", str(config), "--offline")
    assert (done.returncode, "verdict: not_known" in done.stdout) == (1, True)
    assert "run it without that" in done.stderr


def test_the_table_says_what_to_do(config: Path) -> None:
    """For people; a near name is suggested."""
    done = callability("preflight", BLOCKED, UNKNOWN, "--config", str(config))
    assert "verdict: unknown_ids" in done.stdout
    assert "tool_denied_by_config" in done.stdout
    assert f"Did you mean {READY}?" in " ".join(done.stdout.split())
