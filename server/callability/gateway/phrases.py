"""What the gateway's users can do about a status: which key of which file to edit."""

from __future__ import annotations

from pathlib import Path

from callability.adapter import Phrases

_RESTART = "and restart the gateway"


def phrases(config: Path, approvals: Path | None) -> Phrases:
    """Return the gateway's action phrases for its config and approvals files."""
    server = f"of the server, under `mcpServers` in `{config}`,"
    return {
        "enable_server": f"set `enabled` to `true` in the entry {server} {_RESTART}",
        "edit_config": f"change `enabled_tools` or `disabled_tools` in the entry {server} {_RESTART}",
        "release_server": f"look at the server and set `quarantined` to `false` in the entry {server} {_RESTART}",
        "enable_tool": f"{_in_record('disabled', 'false', config, approvals)} {_RESTART}",
        "approve_tool": f"look at the tool, {_in_record('status', 'approved', config, approvals)} {_RESTART}",
        "check_logs": "look into the log of the gateway, which is its standard error",
    }


def _in_record(key: str, value: str, config: Path, approvals: Path | None) -> str:
    setting = f"set `{key}` to `{value}` in the record of the tool, under its server,"
    return f"{setting} in `{approvals}`" if approvals else f"{setting} in a file that `approvals` in `{config}` names"
