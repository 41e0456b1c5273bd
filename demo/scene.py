"""The scene: a repository, two real MCP servers in several states, and the files that put them there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BIN = Path(sys.executable).parent
LOCKED = {
    "git:git_reset": "disabled_by_config",
    "git:git_commit": "disabled_by_user",
    "git:git_add": "pending_approval",
    "git:git_checkout": "disabled_unknown",
    "clock:get_current_time": "server_quarantined",
    "archive:git_log": "server_disabled",
}
"""A tool for each locked status."""
COUNTS = {
    "git": {
        "callable": 8,
        "disabled_by_config": 1,
        "disabled_by_user": 1,
        "pending_approval": 1,
        "disabled_unknown": 1,
    },
    "time": None,
    "clock": {"callable": 0, "server_quarantined": 2},
    "archive": {"callable": 0, "server_disabled": 1},
}
"""What `upstream_servers` has to say about the tools of each server; None: nothing, since all are callable."""

APPROVALS = """\
# What people decided about single tools.
git:
  git_commit: {disabled: true}       # the user switched it off
  git_add: {status: pending}         # nobody has looked at it yet
  git_checkout: {disabled: perhaps}  # a slip of the pen: this cannot be read, so that it is unknown
archive:
  git_log: {}
"""


def set_up(directory: Path) -> Path:
    """Make the repository and write the config and the approvals; return the path of the config."""
    repository = directory / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=demo", "-c", "user.email=demo@localhost"]
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    (repository / "notes.txt").write_text("one line\n")
    subprocess.run([*git, "add", "notes.txt"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "The first commit"], check=True)
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
    (directory / "approvals.yaml").write_text(APPROVALS)
    config = directory / "mcp_config.json"
    deadlines = {"open_seconds": 60}
    content = {"mcpServers": servers, "catalog": catalog, "approvals": "approvals.yaml", "deadlines": deadlines}
    config.write_text(json.dumps(content, indent=2))
    return config
