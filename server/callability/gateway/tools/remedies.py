"""What the gateway's users can do about a status: the command that lifts it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from callability.adapter import Phrases
from callability.gateway.config import is_found_without_option
from callability.tool_name import is_plain, unrecordable
from callability.v1.callability_service_pb2 import FactChange
from callability.vocabulary import EDIT_LABELS, NO_LABEL

_SERVER, _TOOL, _AGENT = "SERVER", "TOOL", "AGENT"
_LOG = "check the gateway's log"
_MEANINGS = {
    (_SERVER,): " (SERVER: the server's name)",
    (_TOOL,): " (TOOL: the tool's name without its server)",
    (_SERVER, _TOOL): " (SERVER: the server's name; TOOL: the tool's name without it)",
}


@dataclass(frozen=True, slots=True)
class Commands:
    """The action phrases of a gateway: verb phrases in the infinitive, with commands that a person can run."""

    config: Path
    approvals: Path | None
    """The approvals file, if an option names it."""
    catalog: frozenset[str] = frozenset()
    """The servers that are in the catalog of the config, of those that the reader may see."""
    is_default: bool = False
    """Whether commands find the config by themselves."""

    def about(self, server: str, tool: str = "", *, labels: Sequence[FactChange] = (), agent: str = "") -> Phrases:
        """Return the phrases about a tool, or about a server alone; they say what stands for a name that is odd.

        `labels` are the changes of labels that lift the lock of the tool for an `agent`, if they are known.
        """
        names = (server if is_plain(server) else _SERVER, tool if is_plain(tool) else _TOOL)
        found = self._phrases(*names, _meaning(*names[:1]), _meaning(*(names if tool else names[:1])))
        if tool and unrecordable(tool):
            # The command would refuse it: no file gets a record for such a name.
            exclude = f"have the operator exclude the tool by `enabled_tools` or `disabled_tools` in {self._config}"
            found = {**found, "approve_tool": f"{exclude}: a tool with such a name cannot be approved"}
        if not labels:
            return found
        changes = " and ".join(_label_change(change, names[1], agent) for change in labels)
        return {**found, EDIT_LABELS.name: f"{changes} in {self._config}"}

    def about_any(self) -> Phrases:
        """Return the phrases about any tool: SERVER and TOOL stand for the names that are listed beside them."""
        return self._phrases(_SERVER, _TOOL)

    def _phrases(self, server: str, tool: str, of_server: str = "", of_tool: str = "") -> Phrases:
        config = self._config
        entry = "its config entry" if self.is_default else f"its entry in {config}"
        enable = f"{self._command('servers', 'enable', server)}{of_server}"
        show, release = self._command("approvals", "show", server), self._command("servers", "release", server)
        # No command connects a server of the catalog: its agents do.
        again = "enable it again"
        if server not in self.catalog:
            again = f"run {enable}"
        return {
            "enable_server": f"run {enable}",
            "edit_config": f"edit `enabled_tools` or `disabled_tools` in {config}",
            "release_server": f"review it: run {show}, then {release}{of_server}",
            "enable_tool": f"run {self._command('approvals', 'enable', server, tool)}{of_tool}",
            "approve_tool": f"run {self._command('approvals', 'approve', server, tool)}{of_tool}",
            "check_logs": _LOG,
            "edit_labels": f"edit `labels` or `tool_labels` in {config}",
            "edit_policy": "edit the policy that the gateway was started with",
            "grant_access": f"grant access at the server or correct {entry}, then {again}",
            "check_server": f"{_LOG}, fix the server or {entry}, then {again}",
        }

    @property
    def _config(self) -> str:
        return "the gateway's config" if self.is_default else f"`{self.config}`"

    def _command(self, noun: str, verb: str, *names: str) -> str:
        options: tuple[str, ...] = () if self.is_default else ("--config", str(self.config))
        if self.approvals is not None and noun == "approvals":
            options += ("--approvals", str(self.approvals))
        # A name that begins with a hyphen would be taken for an option; what is put in a name's place may be one.
        behind = any(name.startswith("-") or name in {_SERVER, _TOOL} for name in names)
        words = (*options, "--", *names) if behind else (*names, *options)
        return f"`{shlex.join(('callability', noun, verb, *words))}`"


def _label_change(change: FactChange, tool: str, agent: str) -> str:
    """Say how to change a label of a server, a tool or an agent, such as `server.label.environment`, in the config."""
    subject, _, key = change.fact.partition(".label.")
    label = f"`tool_labels.{tool}.{key}`" if subject == "tool" else f"`labels.{key}`"
    if subject == "agent":
        label = f"`agents.{agent or _AGENT}.labels.{key}`"
    values = " or ".join(f"`{value}`" for value in change.wanted_values if value != NO_LABEL)
    if not values:
        return f"remove {label}"
    return f"set {label} to {values}" + (" or remove it" if NO_LABEL in change.wanted_values else "")


def _meaning(*names: str) -> str:
    """Say what the words stand for that are in the place of names."""
    return _MEANINGS.get(tuple(name for name in names if name in {_SERVER, _TOOL}), "")


def phrases(config: Path, approvals: Path | None, catalog: Iterable[str] = ()) -> Commands:
    """Return the phrases for a config, and the approvals file that was given beside it; they hold in any directory."""
    config = config.absolute()
    given = approvals.absolute() if approvals else None
    return Commands(config, given, frozenset(catalog), is_default=is_found_without_option(config))
