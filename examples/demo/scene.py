"""The scene: a repository, real MCP servers in several states, and the files that put them there."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent
LOCKED = {
    "git:git_reset": "disabled_by_config",
    "git:git_create_branch": "disabled_by_config",
    "git:git_commit": "disabled_by_user",
    "git:git_add": "pending_approval",
    "git:git_checkout": "disabled_unknown",
    "clock:get_current_time": "server_quarantined",
    "archive:git_log": "server_disabled",
}
"""A tool for each locked status, and one that only a rule of the operator's locks."""
COUNTS = {
    "git": {
        "callable": 7,
        "disabled_by_config": 2,
        "disabled_by_user": 1,
        "pending_approval": 1,
        "disabled_unknown": 1,
    },
    "time": None,
    "clock": {"callable": 0, "server_quarantined": 2},
    "archive": {"callable": 0, "server_disabled": 1},
}
"""The counts of `upstream_servers` for each server; None: it has none, since all its tools are callable."""

CATALOG = ("calendar", "weather")
"""Servers that an agent may enable by itself; they are not connected before."""

APPROVALS = """\
# What people decided about single tools.
git:
  git_commit: {disabled: true}       # the user disabled it
  git_add: {status: pending}         # nobody has reviewed it yet
  git_checkout: {disabled: perhaps}  # a mistake: this value cannot be read, so it is unknown
archive:
  git_log: {}
"""
FREEZE = """\
  - id: branch-freeze
    when: {tool.name: git_create_branch}
    status: disabled_by_config
    because: The operator has frozen the branches.
    action: Ask the operator to {edit_policy}.
"""
"""The rule that the operator has added to the shipped policy."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The files of the demonstration."""

    home: Path
    repository: Path
    policy: Path


def set_up(home: Path) -> Scene:
    """Fill an empty home directory: a repository, and the config and the approvals in their default place."""
    repository = _repository(home / "repository")
    git_server = {"command": str(BIN / "mcp-server-git"), "args": ["--repository", str(repository)]}
    time_server = {"command": str(BIN / "mcp-server-time"), "args": ["--local-timezone", "UTC"]}
    servers = {
        "git": git_server | {"disabled_tools": ["git_reset"]},
        "time": time_server,
        "clock": time_server | {"quarantined": True},
        "archive": git_server | {"enabled": False},
    }
    catalog = {
        "calendar": time_server | {"description": "Times and time zones, for meetings."},
        "weather": time_server | {"description": "Weather by place.", "env": {"WEATHER_KEY": "${WEATHER_KEY}"}},
    }
    directory = home / ".config" / "callability"
    directory.mkdir(parents=True)
    (directory / "approvals.yaml").write_text(APPROVALS)
    deadlines = {"open_seconds": 60}
    content = {"mcpServers": servers, "catalog": catalog, "approvals": "approvals.yaml", "deadlines": deadlines}
    (directory / "gateway.json").write_text(json.dumps(content, indent=2))
    return Scene(home, repository, _policy(directory / "policy"))


def _repository(path: Path) -> Path:
    """Make a repository with one commit, a staged change and a change that is not staged."""
    git = ["git", "-C", str(path)]
    subprocess.run(["git", "init", "--quiet", str(path)], check=True)
    for key, value in (("user.name", "demo"), ("user.email", "demo@localhost")):
        subprocess.run([*git, "config", key, value], check=True)
    for name in ("notes.txt", "plan.txt"):
        (path / name).write_text("one line\n")
    subprocess.run([*git, "add", "notes.txt"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "The first commit"], check=True)
    (path / "notes.txt").write_text("another line\n")
    subprocess.run([*git, "add", "notes.txt"], check=True)
    return path


def _policy(path: Path) -> Path:
    """Export the shipped policy, and add the operator's rule above those of the user's locks."""
    command = [sys.executable, "-m", "callability", "policy", "export", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rules = path / "callability.yaml"
    text = rules.read_text(encoding="utf-8")
    first = "  - {id: user-off,"
    if text.count(first) != 1:
        raise ValueError("the shipped policy has no rule `user-off` any more")
    rules.write_text(text.replace(first, f"{FREEZE}{first}"), encoding="utf-8")
    return path
