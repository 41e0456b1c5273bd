"""The quick starts of the README: short enough, and each line of them works."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.documents import PATH

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_LINES = 6
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLLOWS = {"studio", "gateway"}
"""Commands that run until they are stopped."""


def _quick_start(title: str) -> list[tuple[str, str]]:
    """Return the language and the content of each block of a quick start."""
    return BLOCK.findall(README.split(f"\n### {title}\n")[1].split("\n## ")[0].split("\n### ")[0])


def _environment(home: Path) -> dict[str, str]:
    """Return the environment of a user with a home directory, and nothing set that the quick starts do not set."""
    unset = {"CALLABILITY_CONFIG", "XDG_CONFIG_HOME"}
    return {key: value for key, value in os.environ.items() if key not in unset} | {"PATH": PATH, "HOME": str(home)}


def _config(home: Path) -> Path:
    """Return the path of the config that the README names, with its directory there."""
    [shown] = re.findall(r"^Write `~/(\S+)`", README, re.MULTILINE)
    path = home / str(shown)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=directory,
        env=_environment(directory),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _without_uvx(config: str) -> str:
    """Return a config whose servers are the programs beside Python, which `uvx` would install from a registry."""
    written = json.loads(config)
    for server in written["mcpServers"].values():
        assert server.pop("command") == "uvx"
        server["command"] = str(Path(sys.executable).parent / server.pop("args")[0])
    return json.dumps(written)


def test_each_quick_start_has_at_most_six_lines() -> None:
    """Files and commands together."""
    titles = re.findall(r"^### (.+)$", README.split("\n## Quick starts\n")[1].split("\n## ")[0], re.MULTILINE)
    assert len(titles) == 3
    for title in titles:
        assert 0 < sum(len(content.splitlines()) for _, content in _quick_start(title)) <= MAX_LINES, title


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_the_gateway_of_the_quick_start_is_checked_and_its_tools_are_approved(tmp_path: Path) -> None:
    """By its commands, with the config as it is shown."""
    (_, config), (_, client), (_, commands) = _quick_start("Run a gateway")
    path = _config(tmp_path)
    check, approve = commands.splitlines()
    path.write_text(config)
    warnings = "0 warnings" if shutil.which("uvx", path=PATH) else "1 warning"
    assert f"0 errors, {warnings}" in _run(check, tmp_path).stdout
    path.write_text(_without_uvx(config))
    approved = _run(f"{approve} --yes", tmp_path)
    assert approved.returncode == 0, approved.stderr
    records = (path.parent / "approvals.yaml").read_text()
    assert {name for name in ("git_status", "git_log", "git_add") if name in records} == {"git_status", "git_log"}
    entry = json.loads(client)["mcpServers"]["callability"]
    assert _run(shlex.join([entry["command"], *entry["args"], "--check"]), tmp_path).returncode == 0


def test_each_command_for_a_policy_works_on_the_exported_policy(tmp_path: Path) -> None:
    """Those that end exit with 0; the page of the studio says where it listens; the gateway accepts the policy."""
    (_, config), *_ = _quick_start("Run a gateway")
    [(_, commands)] = _quick_start("Write a policy")
    _config(tmp_path).write_text(config)
    ran = set()
    for line in commands.splitlines():
        command = line.partition(" #")[0].strip()
        verb = shlex.split(command)[1]
        ran.add(verb)
        if verb == "studio":
            _listens(command, tmp_path)
            continue
        done = _run(f"{command} --check" if verb in FOLLOWS else command, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert ran >= FOLLOWS | {"policy", "check", "explain"}


def _listens(command: str, directory: Path) -> None:
    with subprocess.Popen(
        ["sh", "-c", f"exec {command}"], cwd=directory, env=_environment(directory), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("listening on http://127.0.0.1:")
        finally:
            process.terminate()
            process.communicate(timeout=120)


def test_the_call_for_a_proxy_names_the_operator_as_the_one_who_unlocks(address: str, tmp_path: Path) -> None:
    """By reflection, in an empty directory; the service that its first line starts is that of the tests."""
    [(_, commands)] = _quick_start("Build a proxy")
    start, _, call = commands.partition("\n")
    assert start == "callability serve &"
    answer = json.loads(_run(call.replace("127.0.0.1:7420", address), tmp_path).stdout)
    assert answer["verdict"]["status"] == "TOOL_STATUS_DISABLED_BY_CONFIG"
    assert answer["verdict"]["liftedBy"] == "LIFTED_BY_OPERATOR"
