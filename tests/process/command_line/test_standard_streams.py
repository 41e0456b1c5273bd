"""Standard streams that are closed or full: every command says it in a line where it can, and exits with code 1."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from callability.cli.application import COMMANDS, Group
from support.checkout import POLICY
from support.gateways import shelf, write_config
from support.running import COMMAND, callability_process, command_of_shells, service
from support.warm_program import shared_program

CALLS = {
    "check": "check policy",
    "test": "test policy",
    "explain": "explain",
    "table": "table policy",
    "diff": "diff policy policy",
    "healthcheck": "healthcheck --address ADDRESS",
    "inventory": "inventory --config mcp_config.json --offline",
    "inventory decide": "inventory decide tools.csv --output verdicts.csv",
    "inventory counts": "inventory counts tools.csv",
    "inventory diff": "inventory diff tools.csv --policy policy --against policy",
    "callers check": "callers check callers.yaml",
    "callers token": "callers token new.token",
    "policy export": "policy export copy",
    "bundle build": "bundle build policy --output -",
    "bundle verify": "bundle verify policy.bundle",
    "bundle inspect": "bundle inspect policy.bundle",
    "config check": "config check --config mcp_config.json",
    "config show": "config show --config mcp_config.json",
    "servers add": "servers add more --config mcp_config.json -- program",
    "servers remove": "servers remove files --config mcp_config.json",
    "servers show": "servers show files --config mcp_config.json",
    "servers logout": "servers logout files --config mcp_config.json",
    "tools deny": "tools deny files read --config mcp_config.json",
    "tools allow": "tools allow files read --config mcp_config.json",
    "agents add": "agents add reader --config mcp_config.json",
    "agents list": "agents list --config mcp_config.json",
    "why": "why files:read --config mcp_config.json --files",
    "preflight": "preflight files:read --config mcp_config.json --files",
    "servers list": "servers list --config mcp_config.json",
    "servers enable": "servers enable files --config mcp_config.json",
    "servers disable": "servers disable files --config mcp_config.json",
    "servers quarantine": "servers quarantine files --config mcp_config.json",
    "servers release": "servers release files --config mcp_config.json",
    "approvals list": "approvals list --config mcp_config.json",
    "approvals show": "approvals show files --config mcp_config.json",
    "approvals approve": "approvals approve files --all --yes --config mcp_config.json",
    "approvals disable": "approvals disable files read --config mcp_config.json",
    "approvals enable": "approvals enable files read --config mcp_config.json",
    "schema config": "schema config",
    "schema rules": "schema rules callability",
    "schema tests": "schema tests callability",
    "schema policy": "schema policy schemas",
    "schema records": "schema records",
    "records show": "records show records.jsonl",
    "records stats": "records stats records.jsonl",
    "records replay": "records replay records.jsonl --against policy.bundle",
}
"""For each command that ends by itself, a call that succeeds."""
ELSEWHERE = {
    **dict.fromkeys(("setup", "import", "install", "uninstall"), "needs a home folder of its own: `test_setup.py`"),
    **dict.fromkeys(("connect", "page"), "needs the gateway of a user: `test_user_gateway.py`, `test_people_page.py`"),
    "servers login": "needs a provider: `test_stored_logins.py`",
    "agents revoke": "needs an agent with a token: `test_entries_of_the_config.py`",
}
"""Commands that other tests try, each with its reason."""
SERVING = {
    "serve": "serve --address 127.0.0.1:0",
    "serve with workers": "serve --address 127.0.0.1:0 --workers 2",
    "studio": "studio --policy policy --address 127.0.0.1:0",
    "gateway over http": "gateway --config mcp_config.json --transport http --address 127.0.0.1:0",
    "gateway over stdio": "gateway --config mcp_config.json",
    "check --watch": "check policy --watch",
}
"""Commands that would run until a signal comes; the first line that they print is lost."""

COLUMNS = (
    *("server.name", "tool.name", "server.enabled", "server.quarantined", "tool.config_denied"),
    *("approval.disabled", "approval.status", "caller.refuses"),
)
SHELL = {"closed": '"$@" >&-', "full": '"$@" >/dev/full', "no errors": '"$@" 2>&-', "nothing": '"$@" >&- 2>&- <&-'}
STARTED = {"explain", "bundle build", "approvals show"}
"""One command that prints a text, one that writes bytes, and one that starts a server: a shell starts them too, without
one of the streams.
"""
INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    '"clientInfo":{"name":"agent","version":"1"}}}\n'
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A directory with a good file of each kind, and the address of a service."""
    directory = tmp_path_factory.mktemp("files")
    shutil.copytree(POLICY, directory / "policy", ignore=shutil.ignore_patterns("schema", "examples"))
    write_config(directory, {"files": shelf(directory, "files", {"name": "read"})})
    (directory / "approvals.seen.json").write_text('{"files": {"read": "v2:form"}}\n')
    (directory / "tools.csv").write_text(f"{','.join(COLUMNS)}\ngit,git_log,true,false,false,false,approved,false\n")
    (directory / "callers.yaml").write_text("callers: {}\n")
    (directory / "records.jsonl").write_text('{"v":1,"n":1,"kind":"end","time":"2026-11-26T02:00:00.000Z"}\n')
    built = callability_process("bundle", "build", "policy", "--output", "policy.bundle", cwd=directory)
    assert built.returncode == 0
    with service() as running:
        yield directory, running.address


def _words(call: str, place: tuple[Path, str]) -> list[str]:
    return [place[1] if word == "ADDRESS" else word for word in call.split()]


def _in_each_shell(
    call: str, place: tuple[Path, str], directory: Path, shells: tuple[str, ...], sent: str = ""
) -> dict[str, tuple[int, str, str]]:
    """Run a command in several ways at once, each in a directory of its own: exit code, output and errors."""
    started = {}
    for shell in shells:
        shutil.copytree(place[0], directory / shell)
        pipe, command = subprocess.PIPE, command_of_shells() if shell == "full" else COMMAND
        started[shell] = subprocess.Popen(
            ["/bin/sh", "-c", SHELL[shell], "sh", *command, *_words(call, place)],
            cwd=directory / shell, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace",
        )  # fmt: skip
    ended = {shell: process.communicate(sent, timeout=600) for shell, process in started.items()}
    return {shell: (started[shell].returncode, *said) for shell, said in ended.items()}


SILENT = {"callers check", "inventory decide"}
"""Commands that print nothing on standard output if there is nothing to report."""
CONNECTING = re.compile(
    r"connecting `files`$|server `files` is connected$|server `files` lists 1 tool$|1 tool of 1 server |config `"
    r"|listing the tools once more"
)
"""What a command says about its progress."""
LOST = {
    "closed": "callability: standard output is closed, and what was to be printed is lost\n",
    "full": "callability: standard output cannot be written: no space left on device\n",
}


def _reported(errors: str) -> list[str]:
    return [line for line in errors.splitlines(keepends=True) if not CONNECTING.match(line)]


@pytest.mark.parametrize("name", CALLS)
def test_a_command_whose_output_is_lost_says_so_and_exits_with_1(
    name: str, place: tuple[Path, str], tmp_path: Path
) -> None:
    """In one line and nothing else: an error of the command itself would have another."""
    directory, errors = tmp_path / "place", tmp_path / "errors"
    shutil.copytree(place[0], directory)
    code = shared_program().run(_words(CALLS[name], place), directory, (os.devnull, "/dev/full", str(errors)))
    said = errors.read_text()
    if name in SILENT:
        assert (code, LOST["full"] in said) == (0, False), said
    else:
        assert (code, _reported(said)) == (1, [LOST["full"]])


@pytest.mark.parametrize("name", sorted(STARTED))
def test_a_command_that_loses_a_stream_uses_the_others(name: str, place: tuple[Path, str], tmp_path: Path) -> None:
    """It says that its output is lost; without standard error, it works and exits as always."""
    ended = _in_each_shell(CALLS[name], place, tmp_path, ("closed", "full", "no errors"))
    code, said, _ = ended["no errors"]
    assert code == 0, said
    assert said
    for shell, lost in LOST.items():
        code, said, errors = ended[shell]
        assert (code, said) == (1, "")
        assert _reported(errors) == [lost]


def test_a_command_without_any_stream_exits_with_1(place: tuple[Path, str], tmp_path: Path) -> None:
    """There is nowhere to say why."""
    assert _in_each_shell("explain", place, tmp_path, ("nothing",)) == {"nothing": (1, "", "")}


@pytest.mark.parametrize(
    ("name", "shell"), [*((name, "full") for name in SERVING), ("serve", "closed"), ("gateway over stdio", "closed")]
)
def test_a_command_that_serves_ends_if_it_cannot_say_where(
    name: str, shell: str, place: tuple[Path, str], tmp_path: Path
) -> None:
    """Its last line says why, and there is no traceback."""
    sent = INITIALIZE if name == "gateway over stdio" else ""
    code, said, errors = _in_each_shell(SERVING[name], place, tmp_path, (shell,), sent)[shell]
    assert (code, said) == (1, ""), errors
    last = errors.splitlines(keepends=True)[-1]
    if name == "gateway over stdio":
        assert last.startswith("callability: the agent cannot be answered on standard output: ")
    else:
        assert last == LOST[shell]
    assert "Traceback" not in errors


def test_errors_that_cannot_be_written_are_exit_code_1(place: tuple[Path, str]) -> None:
    """A command whose warnings are lost has not done all of its work."""
    ended = subprocess.run(
        ["/bin/sh", "-c", '"$@" 2>/dev/full', "sh", *command_of_shells(), "chek"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")


def test_a_pipe_that_its_reader_closed_is_no_error_to_report(place: tuple[Path, str]) -> None:
    """As with `| head`."""
    line = '{ "$@"; echo "exit code $?" >&2; } | true'
    ended = subprocess.run(
        ["/bin/sh", "-c", line, "sh", *command_of_shells(), "schema", "rules", "callability"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stderr.splitlines()[-1] in {"exit code 0", "exit code 1"}
    assert len(ended.stderr.splitlines()) == 1


def test_no_file_takes_the_place_of_a_closed_stream(place: tuple[Path, str], tmp_path: Path) -> None:
    """What is written to a closed standard error, here and by a child process, is in no file of the command's own."""
    ended = _in_each_shell("bundle build policy --output written.bundle", place, tmp_path, ("no errors",))
    assert ended["no errors"][0] == 0
    written = (tmp_path / "no errors/written.bundle").read_bytes()
    assert written == (place[0] / "policy.bundle").read_bytes()


def test_every_command_is_tried() -> None:
    """A new command as well."""
    groups = {name: it for name, it in COMMANDS.items() if isinstance(it, Group)}
    inside = {f"{group} {name}" for group, each in groups.items() for name in each.commands}
    own = {name for name, group in groups.items() if group.own}
    tried = {*CALLS, *ELSEWHERE, "serve", "studio", "gateway"}
    assert {*(COMMANDS.keys() - groups.keys()), *own, *inside} == tried
