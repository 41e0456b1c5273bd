"""The policy's decisions about the tools that an agent may see, and the commands that lift a status."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from callability.adapter import InvalidArgument, Judgement, Phrases, tool_counts
from callability.client.judgements import Judgements
from callability.connect.joining import MeetingPlace
from callability.contract.finding import as_code, did_you_mean
from callability.contract.vocabulary import EDIT_LABELS, MAX_BYTES, NO_LABEL, byte_length, is_plain, unrecordable
from callability.gateway.call_records import note_decision
from callability.gateway.config.config import is_found_without_option
from callability.gateway.config.model import AgentConfig
from callability.gateway.inventory import GatewayInventory, KnownServer, agent_message
from callability.gateway.observability import UnreadFacts
from callability.gateway.policy_client import PolicyClient
from callability.records.recorder import Recorder
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import outcome_pb2, verdict_pb2
from callability.v1.callability_service_pb2 import FactChange

if TYPE_CHECKING:
    from callability.gateway.loading import Loads
    from callability.records.shadow import Shadow

_SERVER, _TOOL, _AGENT = "SERVER", "TOOL", "AGENT"
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
    logins: frozenset[str] = frozenset()
    """The servers of the config, other than those of the catalog, that a person has to authorize."""
    check_log: str = "check the gateway's log"

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

    def login(self, server: str) -> str:
        """Return the command by which a person authorizes a server."""
        return self._command("servers", "login", server)

    def reported_about(self, server: str, tool: str, labels: Sequence[FactChange], agent: str) -> Phrases:
        """Return the phrases about a tool for a report to a person, who need not edit a list by hand."""
        found = self.about(server, tool, labels=labels, agent=agent)
        if not is_plain(server) or not is_plain(tool):
            return found
        return {**found, "edit_config": f"run {self._command('tools', 'allow', server, tool)}"}

    def config_awaited(self) -> str:
        """Return what to say as long as the config has errors and no earlier one is in effect."""
        check = self._command("config", "check")
        return (
            "The gateway has no servers because its config has errors."
            f" The user must fix them: {check} lists them. The servers then open without a restart."
        )

    def list_tools(self, server: str) -> str:
        """Return the command that lists the tools of a server."""
        return self._command("approvals", "list", server)

    def _phrases(self, server: str, tool: str, of_server: str = "", of_tool: str = "") -> Phrases:
        config = self._config
        entry = "its config entry" if self.is_default else f"its entry in {config}"
        enable = f"{self._command('servers', 'enable', server)}{of_server}"
        show, release = self._command("approvals", "show", server), self._command("servers", "release", server)
        # No command connects a server of the catalog: its agents do.
        again = "enable it again"
        login = f"run {self.login(server)}{of_server}"
        if server not in self.catalog:
            again = f"run {enable}"
        also = f"{login} if it needs a login, or " if server == _SERVER and self.logins else ""
        return {
            "enable_server": f"run {enable}",
            "edit_config": f"edit `enabled_tools` or `disabled_tools` in {config}",
            "release_server": f"review it: run {show}, then {release}{of_server}",
            "enable_tool": f"run {self._command('approvals', 'enable', server, tool)}{of_tool}",
            "approve_tool": f"run {self._command('approvals', 'approve', server, tool)}{of_tool}",
            "check_logs": self.check_log,
            "edit_labels": f"edit `labels` or `tool_labels` in {config}",
            "edit_policy": "edit the policy that the gateway was started with",
            "grant_access": login
            if server in self.logins
            else f"{also}grant access at the server or correct {entry}, then {again}",
            "check_server": f"{self.check_log}, fix the server or {entry}, then {again}",
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


def phrases(config: Path, approvals: Path | None, catalog: Iterable[str] = (), logins: Iterable[str] = ()) -> Commands:
    """Return the phrases for a config, and the approvals file that was given beside it; they hold in any directory."""
    config = config.absolute()
    given = approvals.absolute() if approvals else None
    commands = Commands(config, given, frozenset(catalog), is_found_without_option(config), frozenset(logins))
    # Nobody chose the place of this log, and its readers do not know it.
    log = MeetingPlace(str(config)).log
    with suppress(OSError):
        if os.path.samestat(os.stat(log), os.fstat(2)):
            return replace(commands, check_log=f"{commands.check_log} `{log}`")
    return commands


def refuse_undeclared(arguments: Mapping[str, Any], *declared: str) -> None:
    """Refuse arguments that the schema does not have: a misspelt one would be ignored without a word.

    Raises:
        InvalidArgument: there is one.
    """
    for name in arguments:
        if name not in declared:
            hint = did_you_mean(name[:128], declared)
            raise InvalidArgument(f"there is no argument {as_code(name)} ({hint})")


def text_of(arguments: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
    """Return an argument that is text and not empty.

    Raises:
        InvalidArgument: it is missing, empty or no text.
    """
    value = arguments.get(name)
    value = default if value is None else value
    if not isinstance(value, str) or not value:
        raise InvalidArgument(
            f"`{name}` must be text, and is {'empty or not given' if not value else 'something else'}"
        )
    return value


Result = dict[str, Any]
"""An MCP `CallToolResult` as JSON."""


@dataclass(frozen=True, slots=True)
class AgentView:
    """What the answers to one agent come from; an agent without a name is empty."""

    agent: str
    inventory: GatewayInventory
    decisions: Decisions
    phrases: Commands
    loads: Loads


class Decisions:
    """The answers of the policy for one agent."""

    def __init__(
        self,
        policy: PolicyClient,
        *,
        agent: str = "",
        config: AgentConfig | None = None,
        unread: UnreadFacts | None = None,
        judgements: Judgements | None = None,
        recorder: Recorder | None = None,
        shadow: Shadow | None = None,
    ) -> None:
        self._policy = policy
        self._judgements = judgements or Judgements()
        self._reported: Judgement | None = None
        self._unread = unread or UnreadFacts()
        self._agent = agent_message(agent, config)
        self._recorder = recorder
        self._shadow = shadow

    async def check(self, known: KnownServer, tool: str) -> pb.CheckToolResponse:
        """Decide one tool; a tool that the service cannot be asked about is undetermined, as in a batch.

        A listed tool whose name no request can hold is one that the gateway refuses.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        if byte_length(tool) > MAX_BYTES:
            status = verdict_pb2.TOOL_STATUS_DISABLED_UNKNOWN
            return pb.CheckToolResponse(verdict=verdict_pb2.ToolVerdict(status=status, withhold_text=True))
        request = pb.CheckToolRequest(
            agent=self._agent,
            server=known.facts.name,
            server_facts=known.facts.facts,
            tool=tool,
            tool_facts=known.tool_facts(tool),
        )
        response = await self._policy.check_tool(request)
        note_decision(request, response)
        # Any name may be called of a server that is switched off; only known names are remembered.
        if tool in known.by_name and response.HasField("verdict"):
            self._unread.log_judgement(self._agent.name, [(request.server, tool, tuple(response.verdict.unread))])
        return response

    async def explain(self, known: KnownServer, tool: str) -> pb.ExplainToolResponse:
        """Decide one tool, and say why, and what would make it callable.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        request = pb.ExplainToolRequest(
            agent=self._agent,
            server=known.facts.name,
            server_facts=known.facts.facts,
            tool=tool,
            tool_facts=known.tool_facts(tool),
        )
        return await self._policy.explain_tool(request)

    async def labels_that_lift(self, known: KnownServer, tool: str) -> tuple[FactChange, ...]:
        """Return the changes of labels that lift the lock of a tool, by the rule that decides; nothing if none does.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        response = await self.explain(known, tool)
        changes = response.path.steps[0].changes if response.path.steps else ()
        return tuple(change for change in changes if change.action == EDIT_LABELS.name)

    async def judge(self, servers: Collection[KnownServer]) -> Judgement:
        """Decide every known tool of some servers; what has not changed since is not decided again.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        with closing(self._judgements.judging(self._agent, [known.facts for known in servers])) as steps:
            request = next(steps)
            while True:
                response = await self._policy.check_tools(request)
                if self._shadow is not None:
                    self._shadow.compare(request.SerializeToString(), response.SerializeToString())
                try:
                    request = steps.send(response)
                except StopIteration as end:
                    judgement: Judgement = end.value
                    break
        if judgement is not self._reported:
            self._reported = judgement
            unread = ((each.server, each.tool, each.unread) for each in judgement.tools)
            self._unread.log_judgement(self._agent.name, unread, {known.facts.name for known in servers})
        return judgement

    async def counts(self, servers: Collection[KnownServer]) -> dict[str, dict[str, int]]:
        """Return the counts of those of some servers that have a tool that is not callable (FR-010).

        Raises:
            PolicyUnavailable: there is no answer.
        """
        return tool_counts(await self.judge(servers))

    async def enable(self, server: str, facts: outcome_pb2.EnableFacts) -> pb.ClassifyEnableResponse:
        """Return the policy's classification of an enable of a server.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        request, started = pb.ClassifyEnableRequest(facts=facts), perf_counter()
        response = await self._policy.classify_enable(request)
        if self._recorder is not None:
            about = request.SerializeToString(), response.SerializeToString(), perf_counter() - started
            self._recorder.decided_enable(server, self._agent.name, *about)
        return response
