"""`callability servers`: switches of a person, each of them one key of the config."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from support.commands import callability
from support.running import start

CONFIG = """\
# Of this machine.
mcpServers:
  files:
    command: /bin/files
    env: {KEY: hush-hush}  # not to be shown
    # quarantined: not yet

  web: {url: "https://example.com/hush-hush", enabled: false, trust: manual}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config that a person wrote."""
    path = tmp_path / "mcp_config.yaml"
    path.write_text(CONFIG)
    return path


def servers(*arguments: str, config: Path) -> tuple[int, str, str]:
    """Run `callability servers`, and return its exit code and its output; no secret is in it."""
    done = callability("servers", *arguments, "--config", config.name, cwd=config.parent)
    assert "hush-hush" not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("command", "name", "said", "old", "new"),
    [
        ("enable", "web", "is switched on now: `enabled: true`", "enabled: false", "enabled: true"),
        ("disable", "files", "is switched off now: `enabled: false`", "own\n", "own\n    enabled: false\n"),
        ("quarantine", "web", "is held in quarantine now: `quarantined: true`", "manual", "manual, quarantined: true"),
    ],
)
def test_a_switch_sets_one_key_and_nothing_else(
    command: str, name: str, said: str, old: str, new: str, config: Path
) -> None:
    """Every comment and every other line stays as it was."""
    old, new = (each.replace("own\n", "  # not to be shown\n") for each in (old, new))
    assert servers(command, name, config=config) == (0, f"server `{name}` {said} in `mcp_config.yaml`\n", "")
    assert config.read_text() == CONFIG.replace(old, new)


def test_a_server_is_released_as_it_was_held(config: Path) -> None:
    """By the same key."""
    servers("quarantine", "files", config=config)
    assert servers("release", "files", config=config)[0] == 0
    assert config.read_text() == CONFIG.replace("shown\n", "shown\n    quarantined: false\n")


@pytest.mark.parametrize(
    ("command", "name", "said"),
    [
        ("disable", "web", "is switched off"),
        ("release", "files", "is not held in quarantine"),
    ],
)
def test_what_is_so_already_is_nothing_to_do(command: str, name: str, said: str, config: Path) -> None:
    """The output says so, and it is not an error; a key is not written for its default."""
    assert servers(command, name, config=config) == (0, f"nothing to do: server `{name}` {said}\n", "")
    assert config.read_text() == CONFIG


def test_a_server_that_is_switched_on_already_is_written_again_for_a_retry(config: Path) -> None:
    """A running gateway sees the new file; no byte of it differs."""
    before = config.stat()
    retried = "a running gateway retries it if it is not connected, or if its last call failed"
    said = f"server `files` is switched on already; {retried}\n"
    assert servers("enable", "files", config=config) == (0, said, "")
    assert config.read_text() == CONFIG
    assert config.stat().st_ino != before.st_ino
    assert config.stat().st_mode == before.st_mode


def test_a_server_that_is_not_there_is_a_wrong_call(config: Path) -> None:
    """With the nearest name."""
    code, _, error = servers("enable", "wep", config=config)
    assert (code, error) == (2, "callability: the config has no server `wep` (did you mean `web`?)\n")


def test_a_config_with_errors_is_reported_and_not_touched(config: Path) -> None:
    """With its findings."""
    broken = CONFIG.replace("trust: manual", "trsut: manual")
    config.write_text(broken)
    code, _, error = servers("enable", "web", config=config)
    assert code == 1
    assert "unknown key `trsut` in server `web` (did you mean `trust`?)" in error
    assert config.read_text() == broken


def test_a_directory_that_may_not_be_written_is_reported(config: Path) -> None:
    """The config is unchanged."""
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    config.parent.chmod(0o500)
    try:
        code, _, error = servers("disable", "files", config=config)
    finally:
        config.parent.chmod(0o700)
    assert (code, error) == (1, "callability: `mcp_config.yaml` cannot be written: permission denied\n")
    assert config.read_text() == CONFIG


def test_the_servers_are_listed(config: Path) -> None:
    """In plain columns, in JSON, and in a table on a terminal; none of their secrets is in it."""
    assert servers("list", config=config)[1].splitlines() == [
        "name   type   enabled  quarantined  trust",
        "files  stdio  yes      no           auto",
        "web    http   no       no           manual",
    ]
    report = json.loads(servers("list", "--json", config=config)[1])
    assert report["servers"][1] == {
        "name": "web",
        "type": "http",
        "enabled": False,
        "quarantined": False,
        "trust": "manual",
    }
    assert "┃" in _on_a_terminal("servers", "list", "--config", str(config))


def _on_a_terminal(*arguments: str) -> str:
    """Run a command that writes to a terminal, and return what it wrote."""
    ours, theirs = pty.openpty()
    with start(*arguments, stdout=theirs, stderr=theirs, stdin=theirs) as process:
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 4096):
                text += part
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        assert process.wait(timeout=120) == 0
    return text.decode()


def test_switches_at_the_same_time_do_not_undo_each_other(config: Path) -> None:
    """The second command starts from the result of the first."""
    names = [f"server{number}" for number in range(4)]
    config.write_text("mcpServers:\n" + "".join(f"  {name}: {{command: x}}\n" for name in names))
    command = ("servers", "disable", "--config", str(config))
    running = [start(*command, name, stdout=subprocess.DEVNULL) for name in names]
    assert [process.wait(timeout=120) for process in running] == [0] * len(names)
    assert config.read_text().count("{command: x, enabled: false}\n") == len(names)
