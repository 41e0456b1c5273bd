"""What the gateway's users can do about a status: the command that lifts it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from callability.adapter import Phrases
from callability.gateway.config import from_home, is_found_without_option
from callability.tool_name import is_plain

_SERVER, _TOOL = "SERVER", "TOOL"
_LOG = "look into the log of the gateway, which is its standard error"
_MEANINGS = {
    (_SERVER,): ", where SERVER stands for the name of the server",
    (_TOOL,): ", where TOOL stands for the name of the tool, without its server",
    (_SERVER, _TOOL): (
        ", where SERVER stands for the name of the server and TOOL for that of the tool, without its server"
    ),
}


@dataclass(frozen=True, slots=True)
class Commands:
    """The action phrases of a gateway: verb phrases in the infinitive, with commands that a person can run."""

    config: Path
    approvals: Path | None
    """The approvals file, where the gateway was told of it by an option."""
    catalog: frozenset[str] = frozenset()
    """The servers that are in the catalog of the config, of those that the reader may see."""
    is_default: bool = False
    """Whether commands find the config by themselves."""

    def about(self, server: str, tool: str = "") -> Phrases:
        """Return the phrases about a tool, or about a server alone; they say what stands for a name that is odd."""
        return self._phrases(server if is_plain(server) else _SERVER, tool if is_plain(tool) else _TOOL)

    def about_any(self) -> Phrases:
        """Return the phrases about whatever tool; they say what SERVER and TOOL stand for."""
        return self._phrases(_SERVER, _TOOL)

    def _phrases(self, server: str, tool: str) -> Phrases:
        place = from_home(self.config) if self.is_default else self.config
        entry = f"the entry of the server, under {self._section(server)} in `{place}`"
        show = self._command("approvals", "show", server)
        of_server, of_tool = _meaning(server), _meaning(server, tool)
        # No command connects a server of the catalog: its agents do.
        again = "; after that it can be enabled again"
        if server not in self.catalog:
            again = (
                f", and then have it loaded anew with {self._command('servers', 'disable', server)} and then"
                f" {self._command('servers', 'enable', server)}{of_server}"
            )
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
            "check_logs": _LOG,
            "edit_labels": f"change `labels` or `tool_labels` in {entry}",
            "edit_policy": "change the rules of the policy that the gateway was started with",
            "grant_access": (
                f"give the gateway access by credentials in {entry}, which are taken over at once, or at the server"
                f" itself{again}"
            ),
            "check_server": f"{_LOG}, mend the server or change {entry}{again}",
        }

    def _section(self, server: str) -> str:
        if server == _SERVER and self.catalog:
            return "`mcpServers` or `catalog`"
        return "`catalog`" if server in self.catalog else "`mcpServers`"

    def _command(self, noun: str, verb: str, *names: str) -> str:
        options: tuple[str, ...] = () if self.is_default else ("--config", str(self.config))
        if self.approvals is not None and noun == "approvals":
            options += ("--approvals", str(self.approvals))
        # A name that begins with a hyphen would be taken for an option; what is put in a name's place may be one.
        behind = any(name.startswith("-") or name in {_SERVER, _TOOL} for name in names)
        words = (*options, "--", *names) if behind else (*names, *options)
        return f"`{shlex.join(('callability', noun, verb, *words))}`"


def _meaning(*names: str) -> str:
    """Say what the words stand for that are in the place of names."""
    return _MEANINGS.get(tuple(name for name in names if name in {_SERVER, _TOOL}), "")


def phrases(config: Path, approvals: Path | None, catalog: Iterable[str] = ()) -> Commands:
    """Return the phrases for a config, and the approvals file that was given beside it; they hold in any directory."""
    config = config.absolute()
    given = approvals.absolute() if approvals else None
    return Commands(config, given, frozenset(catalog), is_default=is_found_without_option(config))
