"""Exit codes of every command: 0 done, 1 a refused file, 2 a usage error (spec A.7)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from callability.cli.application import COMMANDS, Group
from support.checkout import POLICY
from support.commands import callability
from support.warm_program import shared_program

REFUSED = {
    "check": "check bad-policy",
    "check --format json": "check bad-policy --format json",
    "check of no directory": "check nowhere",
    "test": "test bad-policy",
    "test --filter": "test bad-policy --filter no-such-test",
    "test --junit": "test policy --junit nowhere/junit.xml",
    "explain": "explain --policy bad-policy",
    "table": "table bad-policy",
    "diff of OLD": "diff bad-policy policy",
    "diff of NEW": "diff policy bad-policy",
    "diff of no directory": "diff policy nowhere",
    "diff --inventory": "diff policy policy --inventory bad.json",
    "diff --inventory of no file": "diff policy policy --inventory nowhere.json",
    "serve": "serve --policy bad-policy --address 127.0.0.1:0",
    "serve --config": "serve --config list.json --address 127.0.0.1:0",
    "config show": "config show --config bad.json",
    "config show --service": "config show --service --config bad.json",
    "healthcheck": "healthcheck --address unix:no-such-socket --timeout 0.1",
    "serve --callers": "serve --callers list.json --address 127.0.0.1:0",
    "serve --tls-certificate": "serve --tls-certificate bad.json --tls-key bad.json --address 127.0.0.1:0",
    "gateway --tls-key": "gateway --config good.json --transport http --tls-certificate bad.json --tls-key none",
    "callers check": "callers check list.json",
    "callers token": "callers token good.json",
    "studio": "studio --policy nowhere",
    "why": "why git:status --config bad.json --files",
    "why by a policy": "why git:status --config good.json --policy bad-policy",
    "why of approvals": "why git:status --config good.json --approvals list.json",
    "preflight": "preflight git:status --config bad.json --offline",
    "preflight of no file": "preflight --file nowhere --config good.json",
    "gateway": "gateway --config bad.json",
    "gateway of no file": "gateway --config nowhere.json",
    "gateway over http": "gateway --config bad.json --transport http --address 127.0.0.1:0",
    "gateway by a policy": "gateway --config good.json --policy bad-policy",
    "gateway --check of a config": "gateway --check --config bad.json",
    "gateway --check of a policy": "gateway --check --config good.json --policy bad-policy",
    "inventory": "inventory --config bad.json",
    "inventory --output": "inventory --config good.json --output nowhere/out.json",
    "inventory decide": "inventory decide nowhere.csv --output out.csv",
    "inventory decide by a policy": "inventory decide good.csv --policy bad-policy --output out.csv",
    "inventory counts": "inventory counts bad.json",
    "inventory diff": "inventory diff good.csv --against bad-policy",
    "bundle build": "bundle build bad-policy --output policy.bundle",
    "bundle build of no file": "bundle build policy --output nowhere/policy.bundle",
    "bundle verify": "bundle verify bad.json",
    "bundle inspect": "bundle inspect nowhere.bundle",
    "config check": "config check --config bad.json",
    "config check of approvals": "config check --config good.json --approvals list.json",
    "setup": "setup --config bad.json --dry-run",
    "setup --undo": "setup --config good.json --undo",
    "import": "import bad.json --config good.json --client codex --dry-run",
    "import into a config": "import good.json --config bad.json --dry-run",
    "install": "install cursor --config bad.json --dry-run",
    "uninstall": "uninstall cursor --config good.json",
    "servers add": "servers add new --config bad.json -- x",
    "servers remove": "servers remove git --config bad.json",
    "servers show": "servers show git --config bad.json",
    "tools deny": "tools deny git log --config bad.json",
    "tools allow": "tools allow git log --config bad.json",
    "agents add": "agents add new --config bad.json",
    "agents list": "agents list --config bad.json",
    "agents revoke": "agents revoke new --config bad.json",
    "servers list": "servers list --config bad.json",
    "servers enable": "servers enable git --config bad.json",
    "servers disable": "servers disable git --config bad.json",
    "servers quarantine": "servers quarantine git --config bad.json",
    "servers release": "servers release git --config bad.json",
    "servers login": "servers login git --config bad.json",
    "servers logout": "servers logout git --config bad.json",
    "approvals list": "approvals list --config bad.json",
    "approvals list of approvals": "approvals list --config good.json --approvals list.json",
    "approvals show": "approvals show git --config bad.json",
    "approvals approve": "approvals approve git --all --yes --config bad.json",
    "approvals disable": "approvals disable git status --config bad.json",
    "approvals enable": "approvals enable git status --config bad.json",
    "policy export": "policy export policy",
    "schema policy": "schema policy good.json",
    "records show": "records show nowhere.jsonl",
    "records stats": "records stats nowhere.jsonl",
    "records replay": "records replay good.csv --against bad-policy",
    "records show of a table": "records show good.csv",
    "records stats of a table": "records stats good.csv",
    "records replay of a table": "records replay good.csv --against policy",
}
"""Commands whose files are refused, or cannot be read or written."""

WRONG = {
    "no such command": "chek",
    "connect": "connect --agent",
    "page": "page --nothing",
    "check": "check --engine none",
    "check with two formats": "check --json --format sarif",
    "test": "test policy --filter no-such-test",
    "test with two options": "test policy --filter a --coverage 1",
    "explain": "explain server.enabld=true",
    "explain of no question": "explain --question none",
    "table": "table --question none",
    "diff": "diff no-such-revision policy",
    "serve": "serve --address 0.0.0.0:0",
    "config show": "config show",
    "healthcheck": "healthcheck --address nowhere",
    "healthcheck --tls-ca": "healthcheck --address unix:s --tls-ca nowhere",
    "serve --tls-key": "serve --tls-certificate a.pem",
    "serve --socket-mode": "serve --address unix:s --socket-mode 999",
    "gateway --tls-key": "gateway --config good.json --transport http --tls-key a.pem",
    "gateway --policy-token-file": "gateway --config good.json --policy-token-file token",
    "callers check": "callers check",
    "callers token": "callers token new --days 0",
    "serve --metrics-address": "serve --address 127.0.0.1:0 --metrics-address here",
    "studio": "studio --address 0.0.0.0:0",
    "why": "why git",
    "why of no agent": "why git:status --config good.json --files --agent nobody",
    "why of no gateway": "why git:status --gateway 1",
    "why of a gateway and of files": "why git:status --gateway 1 --offline",
    "preflight": "preflight",
    "preflight of no agent": "preflight git:status --config good.json --files --agent nobody",
    "gateway": "gateway",
    "gateway --address": "gateway --config good.json --transport http --address 0.0.0.0:0",
    "gateway --agent": "gateway --config good.json --agent nobody",
    "gateway with two policies": "gateway --config good.json --policy policy --policy-address unix:x",
    "gateway --strict": "gateway --config good.json --strict",
    "gateway --check --agent": "gateway --check --config good.json --agent nobody",
    "inventory": "inventory --config good.json --agent nobody",
    "inventory decide": "inventory decide good.csv",
    "inventory counts": "inventory counts",
    "inventory diff": "inventory diff good.csv --against no-such-revision",
    "bundle build": "bundle build policy --sign key",
    "bundle verify": "bundle verify",
    "bundle inspect": "bundle inspect",
    "config check": "config check",
    "config check --format": "config check --config good.json --format xml",
    "setup": "setup --secrets none",
    "import": "import nowhere.json --config good.json",
    "import --client": "import good.json --config good.json --client none",
    "install": "install cursro --config good.json",
    "uninstall": "uninstall cursro --config good.json",
    "servers add": "servers add git --config good.json -- x",
    "servers remove": "servers remove gti --config good.json",
    "servers show": "servers show gti --config good.json",
    "tools deny": "tools deny gti log --config good.json",
    "tools allow": "tools allow gti log --config good.json",
    "agents add": "agents add new --config good.json --server gti",
    "agents list": "agents list",
    "agents revoke": "agents revoke nobody --config good.json",
    "servers list": "servers list",
    "servers enable": "servers enable gti --config good.json",
    "servers disable": "servers disable gti --config good.json",
    "servers quarantine": "servers quarantine gti --config good.json",
    "servers release": "servers release gti --config good.json",
    "servers login": "servers login gti --config good.json",
    "servers logout": "servers logout gti --config good.json",
    "approvals list": "approvals list gti --config good.json --offline",
    "approvals show": "approvals show gti --config good.json",
    "approvals approve": "approvals approve git --config good.json",
    "approvals disable": "approvals disable gti status --config good.json",
    "approvals enable": "approvals enable gti status --config good.json",
    "policy export": "policy export new --example none",
    "schema config": "schema config --markdwn",
    "schema rules": "schema rules none",
    "schema tests": "schema tests none",
    "schema policy": "schema policy",
    "schema records": "schema records --markdown",
    "records show": "records show good.csv --since yesterday",
    "records show until no time": "records show good.csv --until yesterday",
    "records show of no status": "records show good.csv --status server_disabld",
    "records show of no end": "records show good.csv --ended answred",
    "records stats": "records stats good.csv --limit none",
    "records replay": "records replay good.csv",
}
"""Calls that name something unknown, or options that exclude each other."""

WITHOUT_FILES = {"connect", "page", "schema config", "schema records", "schema rules", "schema tests"}
"""Commands that read and write no file: of `connect` and `page`, the gateway does (`test_user_gateway.py`)."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a good and a bad file of each kind."""
    directory = tmp_path_factory.mktemp("files")
    for name in ("policy", "bad-policy"):
        shutil.copytree(POLICY, directory / name, ignore=shutil.ignore_patterns("schema", "examples"))
    bad = directory / "bad-policy/callability.yaml"
    bad.write_text(bad.read_text().replace("{server.enabled: false}", "{server.enabld: false}"))
    (directory / "good.json").write_text('{"mcpServers": {"git": {"command": "git", "enabled": false}}}')
    (directory / "good.csv").write_text("server.name,tool.name\ngit,git_log\n")
    (directory / "list.json").write_text("[]")
    (directory / "setup.json").write_text("[]")
    (directory / "bad.json").write_text('{"mcpServers": {"git": {"comand": "git"}}}')
    return directory


def _names(calls: Iterable[str]) -> dict[str, str]:
    """Return the name of the command of each call."""
    groups = {name: command.commands for name, command in COMMANDS.items() if isinstance(command, Group)}
    words = {call: call.split() for call in calls}
    return {
        call: " ".join(each[:2]) if [*each[1:], ""][0] in groups.get(each[0], ()) else each[0]
        for call, each in words.items()
    }


SERVING = {"gateway", "serve", "studio"}
"""Commands that need a process of their own."""


def _run(command: str, place: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    words = command.split()
    if words[0] not in SERVING:
        return callability(*words, cwd=place, stdin=subprocess.DEVNULL)
    out, err = directory / "out", directory / "err"
    code = shared_program().run(words, place, (os.devnull, str(out), str(err)))
    return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())


@pytest.mark.parametrize("command", REFUSED.values(), ids=REFUSED)
def test_a_refused_file_is_exit_code_1_in_every_command(command: str, place: Path, tmp_path: Path) -> None:
    """And so is one that cannot be read or written; the findings are printed."""
    done = _run(command, place, tmp_path)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stdout + done.stderr


@pytest.mark.parametrize("command", WRONG.values(), ids=WRONG)
def test_a_wrong_call_is_exit_code_2_in_every_command(command: str, place: Path, tmp_path: Path) -> None:
    """The error is on standard error, and nothing else is printed."""
    done = _run(command, place, tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr


def test_every_command_is_in_both_tables() -> None:
    """A new command has its exit codes from the start."""
    groups = {name: it for name, it in COMMANDS.items() if isinstance(it, Group)}
    own = {name for name, group in groups.items() if group.own}
    inside = {f"{group} {name}" for group, each in groups.items() for name in each.commands}
    commands = {*(COMMANDS.keys() - groups.keys()), *own, *inside}
    assert commands - {*_names(REFUSED.values()).values()} == WITHOUT_FILES
    assert commands - {*_names(WRONG.values()).values()} == set()


def test_the_help_says_what_exit_codes_mean() -> None:
    """In general, and for each command with more to say."""
    assert "Exit code 0: done. 1: a file is refused" in " ".join(callability("--help").stdout.split())
    assert "1: the config or the policy is refused" in " ".join(callability("gateway", "--help").stdout.split())
