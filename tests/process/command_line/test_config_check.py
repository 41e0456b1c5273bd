"""`callability config check` and `callability gateway --check`: the findings of a start, without a start."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.checkout import POLICY
from support.commands import callability
from support.gateways import write_config

POLICY_LINE = r"policy \S+: accepted, revision [0-9a-f]{64}\n"


def _touching(directory: Path) -> dict[str, object]:
    """Return a server that creates a file if it is run."""
    return {"command": "touch", "args": [str(directory / "started")]}


def _commands(*options: str) -> list[list[str]]:
    return [["config", "check", *options], ["gateway", "--check", *options]]


@pytest.mark.parametrize("command", [["config", "check"], ["gateway", "--check"]], ids=["config check", "gateway"])
def test_files_without_findings_are_accepted_and_nothing_is_started(command: list[str], tmp_path: Path) -> None:
    """No server is run, and nothing is listened on."""
    (tmp_path / "approvals.yaml").write_text("marks: {wipe: {disabled: true}}\n")
    config = write_config(tmp_path, {"marks": {**_touching(tmp_path), "trust": "manual"}}, approvals="approvals.yaml")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        listening = ["--transport", "http", "--address", address] if command[0] == "gateway" else []
        done = callability(*command, "--config", str(config), *listening, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(POLICY_LINE if command[0] == "gateway" else "", done.stdout.partition(f"{config}: ")[0])
    assert done.stdout.endswith(f"{config}: accepted, 0 errors, 0 warnings\n")
    assert not (tmp_path / "started").exists()


def test_servers_that_accept_any_change_are_counted(tmp_path: Path) -> None:
    """Also those of the catalog; with `--strict` they are still accepted, since somebody may want that."""
    server = {"command": "sh"}
    servers = {"files": server, "clock": {**server, "trust": "manual"}, "mail": {**server, "trust": "auto"}}
    config = write_config(tmp_path, servers, catalog={"news": server})
    done = callability("gateway", "--check", "--strict", "--config", str(config))
    assert done.returncode == 0
    assert (
        "note: 3 servers accept any change of their tools without a review (`trust: auto`): `files`, `mail`, `news` ("
        in done.stdout
    )


@pytest.mark.parametrize("command", [["config", "check"], ["gateway", "--check"]], ids=["config check", "gateway"])
def test_everything_that_a_start_would_find_is_found_at_once(command: list[str], tmp_path: Path) -> None:
    """Keys, variables, approvals and leftovers, each with its place, in the order of the files."""
    servers = {"git": {"command": "git", "disabled": True}, "web": {"url": "http://h/${NOT_SET_ANYWHERE}"}}
    config = write_config(tmp_path, servers)
    approvals = tmp_path / "approvals.yaml"
    approvals.write_text("gti: {status: {status: aproved}}\n")
    done = callability(*command, "--config", str(config), "--approvals", str(approvals))
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if not re.fullmatch(POLICY_LINE, f"{line}\n")] == [
        f"{approvals}:1:24: warning: `status` of tool `status` of server `gti` is none of `approved`, `pending`,"
        " `changed`, and counts as unknown (did you mean `approved`?) [unknown-value]",
        f"{config}:5:7: unknown key `disabled` in server `git` (write `enabled: false`) [unknown-key]",
        f"{config}:8:14: warning: `url` of server `web` needs the environment variable `NOT_SET_ANYWHERE`, which is not"
        " set (set it for the gateway, or give it a default: `${NOT_SET_ANYWHERE:-DEFAULT}`) [unset-variable]",
        f"{config}: refused, 1 error, 2 warnings",
    ]
    config.write_text(json.dumps({"mcpServers": {"git": {"command": "git"}}}))
    done = callability(*command, "--config", str(config), "--approvals", str(approvals))
    assert done.returncode == 0
    leftover = "the approvals have records of server `gti`, which is not in the config (did you mean `git`?)"
    assert f"{approvals}:1:1: warning: {leftover} [leftover-records]" in done.stdout.splitlines()


def test_approvals_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    """A gateway starts with them, and holds back every tool."""
    config = write_config(tmp_path, {}, approvals="approvals.yaml")
    done = callability("config", "check", "--config", str(config))
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [
            f"{tmp_path}/approvals.yaml: cannot be read: no such file or directory [unreadable-file]",
            f"{config}: refused, 1 error, 0 warnings",
        ],
    )


@pytest.mark.parametrize("command", [["config", "check"], ["gateway", "--check"]], ids=["config check", "gateway"])
def test_strict_makes_warnings_refuse(command: list[str], tmp_path: Path) -> None:
    """As `callability check --strict` does."""
    config = write_config(tmp_path, {"git": {"command": "git", "disabled_tools": ["push", "push"]}})
    done = callability(*command, "--config", str(config))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{config}: accepted, 0 errors, 1 warning")
    done = callability(*command, "--config", str(config), "--strict")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, f"{config}: refused, 0 errors, 1 warning")


@pytest.mark.parametrize("command", [["config", "check"], ["gateway", "--check"]], ids=["config check", "gateway"])
def test_programs_get_json(command: list[str], tmp_path: Path) -> None:
    """The findings as `callability check --format json` has them, and the counts."""
    config = write_config(tmp_path, {"git": {"comand": "git"}})
    done = callability(*command, "--config", str(config), "--format", "json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["accepted"], report["errors"], report["warnings"]) == (1, False, 1, 0)
    assert {"severity": "error", "code": "unknown-key", "line": 4, "column": 7}.items() <= report["findings"][0].items()


def test_a_gateway_checks_its_policy_with_its_tests(tmp_path: Path) -> None:
    """Beside the config; a policy that a start would refuse refuses."""
    shutil.copytree(POLICY, tmp_path / "policy")
    rules = tmp_path / "policy/callability.yaml"
    rules.write_text(rules.read_text().replace("{server.enabled: false}", "{server.enabld: false}"))
    config = write_config(tmp_path, {"git": {"command": "git"}})
    done = callability("gateway", "--check", "--config", str(config), "--policy", str(tmp_path / "policy"))
    assert done.returncode == 1
    assert f"{rules}:" in done.stdout
    assert "unknown fact `server.enabld`" in done.stdout
    *_, of_policy, of_config = done.stdout.splitlines()
    assert of_policy == f"policy {tmp_path / 'policy'}: refused"
    assert of_config.startswith(f"{config}: refused, ")


@pytest.mark.parametrize("command", [["config", "check"], ["gateway", "--check"]], ids=["config check", "gateway"])
def test_a_policy_that_is_given_is_reported_with_its_revision(command: list[str], tmp_path: Path) -> None:
    """The revision is the one that `callability check` prints."""
    config = write_config(tmp_path, {})
    revision = callability("check", str(POLICY)).stdout.rpartition("revision ")[2].strip()
    done = callability(*command, "--config", str(config), "--policy", str(POLICY))
    assert done.stdout.splitlines()[0] == f"policy {POLICY}: accepted, revision {revision}"
    done = callability(*command, "--config", str(config), "--policy", str(POLICY), "--format", "json")
    assert json.loads(done.stdout)["policy"] == {"directory": str(POLICY), "revision": revision}


@pytest.mark.parametrize("command", [["config", "check"], ["gateway", "--check"]], ids=["config check", "gateway"])
def test_a_command_that_does_not_exist_is_a_warning(command: list[str], tmp_path: Path) -> None:
    """It is searched where the start of the server searches it."""
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "data").write_text("")
    servers = {
        "absent": {"command": "no-such-command"},
        "off": {"command": "no-such-command", "enabled": False},
        "relative": {"command": "./tool", "cwd": str(tmp_path)},
        "elsewhere": {"command": "./tool", "cwd": "/"},
        "own-path": {"command": "tool", "env": {"PATH": "${HERE}"}},
        "no-program": {"command": str(tmp_path / "data")},
        "part": {"command": "uvx", "env": {"PATH": "/none"}},
    }
    config = write_config(tmp_path, servers, catalog={"later": {"command": "no-such-command"}})
    done = callability(*command, "--config", str(config), env={**os.environ, "HERE": str(tmp_path)})
    found = [line.partition(": warning: ")[2] for line in done.stdout.splitlines() if "[missing-command]" in line]
    assert found == [
        "command `no-such-command` of server `absent` is not found (install it, or write its absolute path)"
        " [missing-command]",
        "command `./tool` of server `elsewhere` is not found (install it) [missing-command]",
        f"command `{tmp_path}/data` of server `no-program` is not found (install it) [missing-command]",
        "command `uvx` of server `part` is not found (install uv, or write its absolute path) [missing-command]",
        "command `no-such-command` of catalog server `later` is not found (install it, or write its absolute path)"
        " [missing-command]",
    ]
    assert done.returncode == 0


@pytest.mark.parametrize("command", [["config", "check"], ["gateway", "--check"]], ids=["config check", "gateway"])
def test_names_of_tools_are_not_checked_and_a_note_says_so(command: list[str], tmp_path: Path) -> None:
    """A tool with an approval record is known."""
    git = {"command": "git", "disabled_tools": ["push"]}
    config = write_config(tmp_path, {"git": git, "web": {"url": "http://h/mcp"}}, approvals="approvals.yaml")
    (tmp_path / "approvals.yaml").write_text("{}\n")
    note = "note: names in `enabled_tools` and `disabled_tools` are not checked: no server is connected"
    assert callability(*command, "--config", str(config), "--strict").stdout.count(note) == 1
    (tmp_path / "approvals.yaml").write_text("git: {push: {}}\n")
    assert note not in callability(*command, "--config", str(config)).stdout


def test_a_variable_that_is_set_is_no_finding(tmp_path: Path) -> None:
    """The check looks where the gateway looks: in its own environment."""
    config = write_config(tmp_path, {"web": {"url": "${SET_FOR_THIS}"}})
    for value, code in (("http://h/mcp", 0), ("hunter2", 1)):
        command = ["config", "check", "--strict", "--config", str(config)]
        done = callability(*command, env={**os.environ, "SET_FOR_THIS": value})
        assert done.returncode == code
        assert "hunter2" not in done.stdout + done.stderr


def test_a_config_without_a_declared_fact_that_locks_everything_is_refused(tmp_path: Path) -> None:
    """The finding names the rule and what lacks the fact; a server that has it, or a default for its tools, helps."""
    rules = (POLICY / "callability.yaml").read_text()
    facts = (
        "facts:\n  quiet.hours: {of: server, values: ['no', 'yes'], default: 'no'}\n"
        "  review.risk: {of: tool, values: [low, high], default: low}\n\nrules:\n"
    )
    locks = (
        "  - {id: quiet, when: {quiet.hours: 'yes'}, status: disabled_by_config, action: 'They {edit_policy}.'}\n"
        "  - {id: risky, when: {server.name: db, review.risk: high}, status: disabled_by_config,"
        " action: 'They {edit_policy}.'}\n"
    )
    policy = tmp_path / "policy"
    shutil.copytree(POLICY, policy, ignore=shutil.ignore_patterns("examples", "schema"))
    edited = rules.replace("rules:\n", facts, 1).replace("  - {id: user-off,", f"{locks}  - {{id: user-off,", 1)
    (policy / "callability.yaml").write_text(edited)

    def found(**servers: Mapping[str, object]) -> tuple[int, list[str]]:
        entries = {name: {"command": "cat", **keys} for name, keys in servers.items()}
        (tmp_path / "gateway.json").write_text(json.dumps({"mcpServers": entries}))
        done = callability("gateway", "--check", "--config", "gateway.json", "--policy", str(policy), cwd=tmp_path)
        return done.returncode, [each for each in done.stdout.splitlines() if each.endswith("[missing-fact]")]

    missing = (
        "gateway.json:1:16: {}fact `{}`, which rule `{}` reads, is missing, so that {} is held back ({}) [missing-fact]"
    )
    of_servers, of_tools = "`facts` of the server", "`tool_fact_defaults` of the server, or `tool_facts`"
    quiet = ("quiet.hours", "quiet")
    risk = missing.format(
        "warning: ", "review.risk", "risky", "what it is about",
        f"set it in {of_tools}; it is missing for the tools of server `db`",
    )  # fmt: skip
    every = f"set it in {of_servers}; it is missing for server `git`, server `db`"
    assert found(git={}, db={}) == (1, [missing.format("", *quiet, "every tool", every), risk])
    one = f"set it in {of_servers}; it is missing for server `git`"
    given = {"facts": {"quiet.hours": "no"}}
    assert found(git={}, db=given) == (0, [missing.format("warning: ", *quiet, "what it is about", one), risk])
    assert found(git=given, db={**given, "tool_fact_defaults": {"review.risk": "low"}}) == (0, [])
    code, lines = found(git=given, db={**given, "tool_facts": {"drop": {"review.risk": "high"}}})
    assert (code, lines) == (0, [risk])
