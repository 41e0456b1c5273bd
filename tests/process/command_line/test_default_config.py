"""Where commands find the config without an option: in the user's configuration directory, never in the current one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from callability.gateway.config.config import is_found_without_option
from callability.gateway.tools.decisions import phrases
from support.commands import callability

PLACE = ".config/callability"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "gateway": ("gateway", "--check"),
    "config check": ("config", "check"),
    "servers list": ("servers", "list"),
    "servers enable": ("servers", "enable", "files"),
    "approvals list": ("approvals", "list", "--offline"),
    "approvals enable": ("approvals", "enable", "files", "read"),
    "inventory": ("inventory", "--offline"),
}
"""Commands that read the config; `files` is a server of it."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory, with the current directory elsewhere, which holds files of the same names."""
    elsewhere = tmp_path / "repository"
    for name in (".", PLACE):
        (elsewhere / name).mkdir(parents=True, exist_ok=True)
        _write(elsewhere / name / "gateway.yaml", "hostile")
    monkeypatch.chdir(elsewhere)
    home = tmp_path / "home"
    (home / PLACE).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("CALLABILITY_CONFIG", raising=False)
    return home


def _write(path: Path, *servers: str) -> Path:
    path.write_text(json.dumps({"mcpServers": {server: {"command": "true"} for server in servers}}))
    return path


def _servers() -> list[str]:
    done = callability("servers", "list", "--json")
    assert done.returncode == 0, done.stderr
    return [server["name"] for server in json.loads(done.stdout)["servers"]]


@pytest.mark.parametrize("name", ["gateway.yaml", "gateway.json"])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_finds_the_config_of_the_user(command: tuple[str, ...], name: str, home: Path) -> None:
    """In YAML or in JSON."""
    _write(home / PLACE / name, "files")
    done = callability(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hostile" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_without_a_config_a_command_says_where_it_looked(command: tuple[str, ...], home: Path) -> None:
    """The current directory is not searched: a cloned repository must not start processes."""
    done = callability(*command)
    assert done.returncode == 2
    assert done.stderr == (
        f"callability: no config: give `--config`, set `$CALLABILITY_CONFIG`, or write `{home / PLACE}/gateway.yaml` or"
        f" `{home / PLACE}/gateway.json`; `callability setup` writes it from those of your MCP clients\n"
    )


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_two_files_in_the_default_place_are_a_finding(command: tuple[str, ...], home: Path) -> None:
    """Neither is used: an edit of the other would have no effect."""
    for name in ("gateway.yaml", "gateway.json"):
        _write(home / PLACE / name, "files")
    done = callability(*command)
    assert done.returncode == 1
    assert (
        f"{home / PLACE}/gateway.yaml: `gateway.json` is in the same directory, and only one of the two can be the"
        " config (remove one, or name one with `--config`) [two-configs]"
    ) in done.stdout + done.stderr


def test_a_check_reports_two_files_in_its_format(home: Path) -> None:
    """As any other finding."""
    for name in ("gateway.yaml", "gateway.json"):
        _write(home / PLACE / name)
    done = callability("config", "check", "--format", "json")
    assert [finding["code"] for finding in json.loads(done.stdout)["findings"]] == ["two-configs"]


def test_the_variable_wins_over_the_default_place_and_the_option_over_both(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty variable counts as unset."""
    _write(home / PLACE / "gateway.yaml", "default")
    monkeypatch.setenv("CALLABILITY_CONFIG", "")
    assert _servers() == ["default"]
    monkeypatch.setenv("CALLABILITY_CONFIG", str(_write(home / "other.json", "variable")))
    assert _servers() == ["variable"]
    option = _write(home / "third.json", "option")
    assert "option" in callability("servers", "list", "--config", str(option)).stdout


def test_a_relative_path_in_the_variable_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would search the current directory."""
    _write(home / PLACE / "gateway.yaml", "default")
    monkeypatch.setenv("CALLABILITY_CONFIG", "gateway.yaml")
    done = callability("servers", "list")
    assert (done.returncode, done.stderr) == (
        2,
        "callability: `$CALLABILITY_CONFIG` must be an absolute path, and is `gateway.yaml`\n",
    )


def test_the_place_follows_the_xdg_base_directory_specification(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative or empty `$XDG_CONFIG_HOME` is ignored."""
    _write(home / PLACE / "gateway.yaml", "home")
    (home / "xdg/callability").mkdir(parents=True)
    _write(home / "xdg/callability/gateway.yaml", "xdg")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert _servers() == ["xdg"]
    for ignored in ("", ".", "xdg", ".config"):
        monkeypatch.setenv("XDG_CONFIG_HOME", ignored)
        assert _servers() == ["home"]


def test_a_home_directory_that_is_relative_is_no_place(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the current directory."""
    monkeypatch.setenv("HOME", ".")
    done = callability("servers", "list")
    assert (done.returncode, "the home directory is not known" in done.stderr) == (2, True)


def _prints_the_option(config: Path) -> bool:
    return "--config" in phrases(config, None).about("files", "read")["enable_tool"]


def test_a_printed_command_leaves_the_option_out_for_exactly_the_default_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person's shell has the home directory, and need not have the rest of the gateway's environment."""
    config = _write(home / PLACE / "gateway.yaml")
    assert not _prints_the_option(config)
    assert _prints_the_option(config.with_name("other.yaml"))
    assert _prints_the_option(_write(home / "gateway.yaml"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    assert not _prints_the_option(config)
    (home / "xdg").mkdir()
    shutil.copytree(home / PLACE, home / "xdg/callability")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert _prints_the_option(config)
    assert _prints_the_option(home / "xdg/callability/gateway.yaml")


def test_a_printed_command_names_the_config_if_the_default_place_holds_two(home: Path) -> None:
    """A gateway may have been started with one of them by the option."""
    config = _write(home / PLACE / "gateway.yaml")
    assert is_found_without_option(config)
    _write(home / PLACE / "gateway.json")
    assert not is_found_without_option(config)
