"""`callability why`: for each kind of lock, the place that holds it, and an edit of that place that lifts it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from support.commands import callability
from support.gateway_in_process import http_gateway
from support.gateways import SHELF, http_gateway_process
from support.policies import exported_policy
from support.running import children_of
from support.waiting import eventually

DECLARED = """\
labels:
  server: {changes: [frozen]}
  tool: {risk: [high, low]}
  agent: {tier: [batch, critical]}
facts:
  proxy.quota: {of: server, values: [ok, exhausted], default: ok, owner: operator, action: raise_quota, phrase: raise the quota}
rules:
"""  # noqa: E501
RULES = """\
  - {id: frozen, when: {server.label.changes: frozen}, status: disabled_by_config, action: "Ask to {edit_labels}."}
  - {id: risky, when: {tool.label.risk: high}, status: disabled_by_config, action: "Ask to {edit_labels}."}
  - id: batch
    when: {agent.label.tier: batch, tool.name: deploy}
    status: disabled_by_config
    action: "Ask to {edit_labels}."
  - id: quota
    when: {proxy.quota: exhausted, tool.name: metered}
    status: disabled_by_config
    action: "Ask to {raise_quota}."
  - id: destroys
    when: {annotations.destructive: true, tool.name: wipe}
    status: disabled_by_config
    action: "Ask to {edit_policy}."
  - {id: banned, when: {tool.name: banned}, status: disabled_by_config, action: "Ask to {edit_policy}."}
  - {id: user-off,"""
GIT = [
    *({"name": name} for name in ("log", "push", "reset", "tag", "merge", "odd", "blank", "risky", "banned")),
    *({"name": name} for name in ("deploy", "metered")),
    {"name": "wipe", "annotations": {"destructiveHint": True}},
    {"name": "report", "execution": {"taskSupport": "required"}},
]
CONFIG = """\
approvals: approvals.yaml
mcpServers:
  git:
    command: PYTHON
    env: {TOKEN: "${secret:TOKEN}"}
    args: [SHELF, GIT_TOOLS]
    disabled_tools:
      - push
      - other
    tool_labels:
      risky:
        risk: high
    facts:
      proxy.quota: exhausted
  few:
    command: PYTHON
    args: [SHELF, TWO_TOOLS]
    enabled_tools:
      - one
  reviewed:
    command: PYTHON
    args: [SHELF, TWO_TOOLS]
    trust: manual
  cold:
    command: PYTHON
    args: [SHELF, TWO_TOOLS]
    labels:
      changes: frozen
  held:
    command: PYTHON
    args: [SHELF, TWO_TOOLS]
    quarantined: true
  off:
    command: PYTHON
    args: [SHELF, TWO_TOOLS]
    enabled: false
  down:
    command: /nowhere/to/be/found
  hidden:
    command: PYTHON
    args: [SHELF, TWO_TOOLS]
    enabled: false
catalog:
  extra:
    command: PYTHON
    args: [SHELF, TWO_TOOLS]
agents:
  ci:
    servers: [git, few, reviewed, cold, held, off, down, extra]
    labels:
      tier: batch
deadlines: {open_seconds: 120}
"""
APPROVALS = f"""\
git:
  reset:
    disabled: true
  tag:
    status: pending
  merge:
    sha256: v2:{"0" * 64}
  odd:
    status: maybe
  blank:
    sha256: short
"""


@dataclass(frozen=True, slots=True)
class Held:
    """A lock that a file holds: the line that `why` must name, and the status and the rule of the verdict."""

    tool: str
    status: str
    rule: str
    line: str
    how: str = "edit"


HELD = (
    Held("off:one", "server_disabled", "server-off", "enabled: false"),
    Held("git:push", "disabled_by_config", "operator-denied", "- push"),
    Held("few:two", "disabled_by_config", "operator-denied", "- one"),
    Held("held:one", "server_quarantined", "under-quarantine", "quarantined: true"),
    Held("git:reset", "disabled_by_user", "user-off", "disabled: true"),
    Held("git:tag", "pending_approval", "awaiting-review", "status: pending"),
    Held("git:merge", "pending_approval", "changed-since-approval", f"sha256: v2:{'0' * 64}"),
    Held("reviewed:one", "pending_approval", "awaiting-review", "trust: manual", "command"),
    Held("cold:one", "disabled_by_config", "frozen", "changes: frozen"),
    Held("git:risky", "disabled_by_config", "risky", "risk: high"),
    Held("git:deploy", "disabled_by_config", "batch", "tier: batch"),
    Held("git:metered", "disabled_by_config", "quota", "proxy.quota: exhausted"),
    Held("git:odd", "disabled_unknown", "awaiting-review", "status: maybe", "correct"),
    Held("git:blank", "disabled_unknown", "awaiting-review", "sha256: short", "correct"),
)
Files = tuple[Path, Path]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    """A config whose tools have every kind of lock, and its policy, while a gateway runs with them."""
    directory = tmp_path_factory.mktemp("locks")
    policy = directory / "policy"
    policy.mkdir()
    exported_policy(
        policy, ("callability.yaml", "rules:\n", DECLARED), ("callability.yaml", "  - {id: user-off,", RULES)
    )
    for name, tools in (("git", GIT), ("two", [{"name": "one"}, {"name": "two"}])):
        (directory / f"{name}.json").write_text(json.dumps(tools))
    config = directory / "gateway.yaml"
    words = {"PYTHON": sys.executable, "SHELF": SHELF, "GIT_TOOLS": directory / "git.json"}
    text = CONFIG
    for word, value in {**words, "TWO_TOOLS": directory / "two.json"}.items():
        text = text.replace(word, str(value))
    config.write_text(text)
    (directory / "approvals.yaml").write_text(APPROVALS)
    # What a secret stands for belongs to the config, and is no edit of it.
    (directory / "secrets.env").write_text("TOKEN=a-token-of-git\n")
    (directory / "secrets.env").chmod(0o600)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(prefix="c-") as home:
        patch.setenv("XDG_CONFIG_HOME", home)
        patch.delenv("XDG_RUNTIME_DIR", raising=False)
        patch.delenv("CALLABILITY_CONFIG", raising=False)
        with http_gateway(config, "--policy", str(policy), has_status_socket=True):
            # Until each server is loaded, a gateway knows less than the files do with their servers connected.
            eventually(lambda: all(_is_loaded(config, server) for server in ("git", "few", "reviewed", "cold", "held")))
            yield config, policy


def _is_loaded(config: Path, server: str) -> bool:
    report = json.loads(callability("why", f"{server}:one", "--config", str(config), "--json").stdout)
    return bool(report["connection"]["state"] == "connected")


def _why(tool: str, *arguments: str) -> dict[str, Any]:
    done = callability("why", tool, "--agent", "ci", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _from_files(tool: str, files: Files) -> dict[str, Any]:
    return _why(tool, "--config", str(files[0]), "--policy", str(files[1]))


def _both(tool: str, files: Files) -> dict[str, Any]:
    """Return the report about a tool after checking that the running gateway and the files alone agree about it."""
    running, alone = _why(tool, "--config", str(files[0])), _from_files(tool, files)
    assert running.pop("by")["gateway"] is not None
    assert alone.pop("by")["gateway"] is None
    assert running == alone
    assert running["newer_files"] == []
    return running


def _line(place: dict[str, Any]) -> str:
    lines = Path(place["file"]).read_text().splitlines()
    return lines[int(place["line"]) - 1].strip()


def _changes(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [change for step in report["steps"] for change in step["changes"]]


def _source(report: dict[str, Any], fact: str) -> dict[str, Any]:
    source: dict[str, Any] = next(each["from"] for each in report["facts"] if each["fact"] == fact)
    return source


def _edit(held: Held, report: dict[str, Any]) -> dict[str, Any]:
    """Return the edit that a report names, or the correction of a value that is none."""
    if held.how == "correct":
        value = "approved" if "status" in held.line else "any"
        return {**_source(report, "approval.status"), "do": "set", "value": value}
    [change] = _changes(report)
    edit: dict[str, Any] = change["edit"]
    return edit


def _carry_out(edit: dict[str, Any], beside: Path) -> None:
    """Edit the place that a report names, in a copy of its file."""
    path = beside / Path(edit["file"]).name
    lines = path.read_text().splitlines()
    number, column = edit["line"] - 1, edit["column"] - 1
    if edit["do"] == "remove":
        del lines[number : edit["last_line"]]
    elif edit["do"] == "add":
        lines.insert(number, lines[number].replace(lines[number].split("- ")[1], edit["value"]))
    else:
        lines[number] = lines[number][:column] + edit["value"]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def reports(files: Files) -> dict[str, dict[str, Any]]:
    """The report about each tool that a file locks: the running gateway and the files alone agree about it."""
    return {held.tool: _both(held.tool, files) for held in HELD}


@pytest.mark.parametrize("held", HELD, ids=lambda held: held.tool)
def test_the_line_that_holds_a_lock_is_named(held: Held, reports: dict[str, dict[str, Any]]) -> None:
    """Beside the rule that reads it, with its line in the rule file."""
    report = reports[held.tool]
    assert (report["status"], report["rule"]) == (held.status, held.rule)
    assert _line(report["rule_at"]).startswith((f"- {{id: {held.rule},", f"- id: {held.rule}"))
    if held.how == "correct":
        assert (report["end"], report["find_out"]) == ("find_out", ["approval.status"])
        assert _line(_source(report, "approval.status")) == held.line
    else:
        [change] = _changes(report)
        assert _line(change["from"]) == held.line
        assert change["by"] in ("user", "operator")
        assert report["end"] == "callable"


def test_the_lines_that_are_named_lift_the_locks_once_they_are_edited_as_reported(
    files: Files, reports: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """Every lock at once, in a copy of the files; one without an edit has a command."""
    for path in (files[0], files[0].with_name("approvals.yaml"), files[0].with_name("secrets.env")):
        shutil.copy(path, tmp_path)
    arguments = ("--agent", "ci", "--config", str(tmp_path / files[0].name), "--policy", str(files[1]))
    tools = [held.tool for held in HELD]
    locked = json.loads(callability("preflight", *tools, *arguments, "--json").stdout)
    assert {each["status"] for each in locked["tools"]} == {"unavailable"}
    edits = [_edit(held, reports[held.tool]) for held in HELD if held.how != "command"]
    for edit in sorted(edits, key=lambda edit: -edit["line"]):
        _carry_out(edit, tmp_path)
    for held in HELD:
        if held.how == "command":
            [change] = _changes(reports[held.tool])
            found = re.search(r"`callability (.*)`", change["do"].replace(str(files[0].parent), str(tmp_path)))
            assert found
            assert callability(*shlex.split(found[1]), "--yes").returncode == 0
    done = callability("preflight", *tools, *arguments)
    assert (done.returncode, "verdict: ready" in done.stdout) == (0, True), done.stdout + done.stderr


def test_where_no_file_holds_the_lock_it_names_who_and_where_to_look(files: Files) -> None:
    """What the server lists, the policy's rule, a connection, the catalog and a scope."""
    wipe = _both("git:wipe", files)
    annotation = _source(wipe, "annotations.destructive")
    assert (annotation["in"], annotation["file"]) == ("listing", None)
    assert annotation["note"] == "the server says so by `destructiveHint`"
    for tool, rule in (("git:wipe", "destroys"), ("git:banned", "banned")):
        report = _both(tool, files)
        assert (report["rule"], report["steps"], report["end"]) == (rule, [], "policy_change")
        assert rule in _line(report["rule_at"])
    task = _both("git:report", files)
    assert (task["status"], task["rule"]) == ("disabled_unknown", "refused-elsewhere")
    assert "MCP task" in _source(task, "caller.refuses")["note"]
    assert task["end"] == "nobody"
    written = callability("why", "git:report", "--agent", "ci", "--config", str(files[0])).stdout
    assert "  1. nobody: `caller.refuses` is true, what the server lists: " in written
    assert "then it can be called" not in written
    down = _both("down:any", files)
    assert (down["status"], down["because"]) == ("unknown_tool", "not_connected")
    assert (down["connection"]["load"]["status"], _line(down["connection"]["load"]["from"])) == (
        "permanent",
        "command: /nowhere/to/be/found",
    )
    assert "check the gateway's log" in down["do"]
    extra = _both("extra:one", files)
    assert (extra["because"], extra["lifted_by"]) == ("not_enabled", "user")
    assert "enable_server" in extra["do"]
    hidden = _both("hidden:one", files)
    assert (hidden["because"], _line(hidden["from"]), hidden["do"]) == (
        "out_of_scope",
        "servers: [git, few, reviewed, cold, held, off, down, extra]",
        "add `hidden` to the agent's `servers`",
    )
    unlisted = _both("git:lgo", files)
    assert unlisted["because"] == "no_such_tool"
    assert f"`callability approvals list git --config {files[0]}` shows them" in unlisted["do"]
    # The answer to the agent names near tools of any server, and of the files alone no server is connected for it.
    assert _why("gti:log", "--config", str(files[0]))["because"] == "no_such_server"
    assert _both("git:log", files)["status"] == "callable"


def test_what_could_not_be_read_is_named_with_what_is_wrong_with_it(files: Files) -> None:
    """The place that has to be corrected, and the command that finds its fault."""
    approvals = files[0].with_name("approvals.yaml")
    done = callability("why", "git:odd", "--agent", "ci", "--config", str(files[0]))
    line = approvals.read_text().splitlines().index("    status: maybe") + 1
    assert (
        f"  1. correct `approval.status`, {approvals}:{line}:13; `callability config check --config {files[0]}` says"
        " what is wrong\n  then it depends on approval.status, which could not be read\n"
    ) in done.stdout
    assert f"{approvals}:{line}:13" in callability("config", "check", "--config", str(files[0])).stdout


def test_the_command_that_finds_a_fault_reads_the_approvals_that_a_gateway_was_started_with(tmp_path: Path) -> None:
    """The config does not name them, and their path has a space."""
    directory = tmp_path / "a place"
    directory.mkdir()
    config, approvals = directory / "gateway.yaml", directory / "other.yaml"
    server = {"command": sys.executable, "args": [str(SHELF), str(directory / "tools.json")]}
    (directory / "tools.json").write_text(json.dumps([{"name": "log"}]))
    config.write_text(json.dumps({"mcpServers": {"git": server}}))
    approvals.write_text("git: {log: {status: maybe}}\n")
    question = ("why", "git:log", "--config", str(config))
    with http_gateway_process(config, "--approvals", str(approvals)):
        running = callability(*question).stdout
    for shown in (running, callability(*question, "--approvals", str(approvals)).stdout):
        [command] = re.findall("`(callability config check .*)` says what is wrong", shown)
        assert f"{approvals}:1:21" in callability(*shlex.split(command)[1:]).stdout


def test_offline_nothing_is_said_about_what_only_a_server_could_say(files: Files) -> None:
    """Its server may be well: nobody is sent to a switch."""
    done = callability("why", "cold:one", "--config", str(files[0]), "--policy", str(files[1]), "--offline")
    assert done.stdout.startswith(
        "cold:one for a caller without a name: not_known, because its server is not connected"
    )
    assert "  1. none: run this command without `--offline`" in done.stdout
    assert "servers enable" not in done.stdout


def test_a_server_that_lacks_a_variable_here_is_named(tmp_path: Path) -> None:
    """The environment of the gateway may be another, so that the answer is given all the same."""
    config = tmp_path / "gateway.yaml"
    config.write_text('mcpServers: {one: {command: "true"}, other: {command: "true", env: {K: "${NOT_SET_ANYWHERE}"}}}')
    for command in ("why", "preflight"):
        done = callability(command, "one:tool", "--config", str(config), "--offline")
        assert "in the environment of this command, a server does not load:\n" in done.stderr
        assert "`NOT_SET_ANYWHERE`, which is not set" in done.stderr


def test_a_tool_whose_server_has_ended_is_not_ready(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy still opens it; the report says that its server is not connected, and why."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(short_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    (tmp_path / "tools.json").write_text('[{"name": "one"}]')
    script = tmp_path / "server.sh"
    script.write_text(f"[ -e {tmp_path}/broken ] && exit 7\nexec {sys.executable} {SHELF} {tmp_path}/tools.json\n")
    config = tmp_path / "gateway.json"
    config.write_text(json.dumps({"mcpServers": {"late": {"command": "sh", "args": [str(script)]}}}))
    with http_gateway(config, has_status_socket=True):

        def report() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(callability("why", "late:one", "--config", str(config), "--json").stdout)
            return found

        eventually(lambda: report()["connection"]["state"] == "connected")
        (tmp_path / "broken").touch()
        for process in children_of(os.getpid()):
            if str(tmp_path / "tools.json").encode() in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(int(process), signal.SIGKILL)
        eventually(lambda: report()["connection"]["state"] == "failed")
        failed = report()
        assert (failed["status"], failed["end"]) == ("callable", "not_connected")
        assert failed["connection"]["failure"]
        written = callability("why", "late:one", "--config", str(config)).stdout
        assert (
            "late:one for a caller without a name: callable, by rule `open`, but its server is not connected" in written
        )
        assert "it is callable" not in written
        assert written.endswith("  then it can be called, once its server is connected\n")
