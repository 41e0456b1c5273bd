"""What the gateway's users can do about a status: the command that lifts it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from callability.adapter import Phrases

# What stands in a command as it is, for a shell and for whoever reads it.
_SAFE = re.compile(r"(?!-)[A-Za-z0-9_.-]{1,128}")
_SERVER = ", where SERVER stands for the name of the server"
_SERVER_AND_TOOL = f"{_SERVER} and TOOL for that of the tool, without its server"


@dataclass(frozen=True, slots=True)
class Commands:
    """The action phrases of a gateway: verb phrases in the infinitive, with commands that a person can run."""

    config: Path
    approvals: Path | None
    """The approvals file, where the gateway was told of it by an option."""

    def about(self, server: str, tool: str) -> Phrases:
        """Return the phrases about one tool."""
        if _SAFE.fullmatch(server) and _SAFE.fullmatch(tool):
            return self._phrases(server, tool, "", "")
        return self.about_any()

    def about_any(self) -> Phrases:
        """Return the phrases about whatever tool; they say what SERVER and TOOL stand for."""
        return self._phrases("SERVER", "TOOL", _SERVER, _SERVER_AND_TOOL)

    def _phrases(self, server: str, tool: str, of_server: str, of_tool: str) -> Phrases:
        entry = f"the entry of the server, under `mcpServers` in `{self.config}`"
        show = self._command("approvals", "show", server)
        return {
            "enable_server": f"run {self._command('servers', 'enable', server)}{of_server}",
            "edit_config": f"change `enabled_tools` or `disabled_tools` in {entry}",
            "release_server": (
                f"look at it with {show}, then run {self._command('servers', 'release', server)}{of_server}"
            ),
            "enable_tool": f"run {self._command('approvals', 'enable', server, tool)}{of_tool}",
            "approve_tool": (
                f"look at the tool and approve it with {self._command('approvals', 'approve', server, tool)}{of_tool}"
            ),
            "check_logs": "look into the log of the gateway, which is its standard error",
        }

    def _command(self, noun: str, *words: str) -> str:
        approvals = () if self.approvals is None or noun == "servers" else ("--approvals", str(self.approvals))
        return f"`{shlex.join(('callability', noun, *words, '--config', str(self.config), *approvals))}`"


def phrases(config: Path, approvals: Path | None) -> Commands:
    """Return the phrases for a config, and the approvals file that was given beside it; they hold in any directory."""
    return Commands(config.absolute(), approvals.absolute() if approvals else None)
