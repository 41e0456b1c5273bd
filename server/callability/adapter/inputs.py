"""Comparing what a proxy sends with what the policy reads, so that a typo in a label or a fact is found at start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from callability.contract.enum_words import FACT_SUBJECT
from callability.contract.finding import as_code, nearest
from callability.v1.callability_service_pb2 import CheckToolsRequest
from callability.v1.facts_pb2 import Agent, ServerFacts, ToolFacts
from callability.v1.policy_service_pb2 import DeclaredFact as WireFact
from callability.v1.policy_service_pb2 import GetPolicyResponse

_RULE_SET = "callability"


class InputFault(StrEnum):
    """What is wrong with an input."""

    UNDECLARED_LABEL = "undeclared_label"
    """The policy does not declare the label, so that no rule reads it."""
    UNDECLARED_VALUE = "undeclared_value"
    """The policy does not declare this value of the label or the fact: every rule that reads it is undetermined, unless
    it is an asserted fact, which then has its default.
    """
    UNDECLARED_FACT = "undeclared_fact"
    """The policy does not declare the fact of this server, tool or agent, so that no rule reads it."""
    MISSING_GROUP = "missing_group"
    """Rules read the group and the request leaves it out, so that every rule that reads it is undetermined."""
    MISSING_FACT = "missing_fact"
    """Rules read the declared fact and the request leaves it out, so that every rule that reads it is undetermined."""


@dataclass(frozen=True, slots=True)
class UnreadInput:
    """An input that the policy cannot read as intended.

    `fact` is the fact as rules write it, or the group that is missing, such as `annotations`. `tool` is empty for facts
    of the server, and `server` too for those of the agent. `near` is the nearest name or value that the policy
    declares; empty if there is none.
    """

    fault: InputFault
    fact: str
    server: str = ""
    tool: str = ""
    value: str = ""
    near: str = ""

    def __str__(self) -> str:
        """Return the line about it for a log."""
        of = f"tool {as_code(f'{self.server}:{self.tool}')}" if self.tool else f"server {as_code(self.server)}"
        value = f" = {as_code(self.value)}" if self.value else ""
        near = f" (did you mean {as_code(self.near)}?)" if self.near else ""
        return f"{self.fault}: {as_code(self.fact)}{value} of {of if self.server else 'the agent'}{near}"


class NotPublished(ValueError):
    """The service does not say which labels its policy declares: it is older than that."""


@dataclass(frozen=True, slots=True)
class DeclaredLabels:
    """The labels that a policy declares: the values by fact, such as `server.label.environment`."""

    values: Mapping[str, tuple[str, ...]]

    def keys(self, kind: str) -> tuple[str, ...]:
        """Return the keys of the labels of a `server`, a `tool` or an `agent`."""
        prefix = f"{kind}.label."
        return tuple(fact.removeprefix(prefix) for fact in self.values if fact.startswith(prefix))

    @classmethod
    def of(cls, policy: GetPolicyResponse) -> DeclaredLabels:
        """Return the labels that a policy declares.

        Raises:
            NotPublished: the service does not say which.
        """
        labels = [label for rule_set in policy.rule_sets if rule_set.name == _RULE_SET for label in rule_set.labels]
        if not policy.semantics and not any(each.reads or each.labels for each in policy.rule_sets):
            raise NotPublished("the service does not publish the labels that its policy declares")
        return cls({label.fact: tuple(label.values) for label in labels})

    def find_undeclared(self, kind: str, labels: Mapping[str, str]) -> Iterator[tuple[str, UnreadInput]]:
        """Yield the labels of a `server`, a `tool` or an `agent` that the policy cannot read, each with its key."""
        for key, value in labels.items():
            fact = f"{kind}.label.{key}"
            values = self.values.get(fact)
            if values is None:
                near = _near(key, self.keys(kind))
                yield key, UnreadInput(InputFault.UNDECLARED_LABEL, fact, value=value, near=near)
            elif value not in values:
                yield key, UnreadInput(InputFault.UNDECLARED_VALUE, fact, value=value, near=_near(value, values))


@dataclass(frozen=True, slots=True)
class DeclaredFact:
    """A fact that a policy declares of a `server`, a `tool` or an `agent`; one that is asserted is never unknown."""

    name: str
    subject: str
    values: tuple[str, ...]
    default: str
    asserted: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredInputs:
    """What a policy declares: labels, and facts of its own by name."""

    labels: DeclaredLabels
    facts: Mapping[str, DeclaredFact]

    @classmethod
    def of(cls, policy: GetPolicyResponse) -> DeclaredInputs:
        """Return what a policy declares.

        Raises:
            NotPublished: the service does not say which labels.
        """
        declared = (fact for each in policy.rule_sets if each.name == _RULE_SET for fact in each.declared_facts)
        facts = (
            DeclaredFact(each.fact, _subject(each), tuple(each.values), each.default_value, each.asserted)
            for each in declared
        )
        return cls(DeclaredLabels.of(policy), {fact.name: fact for fact in facts})

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the facts of a `server`, a `tool` or an `agent`."""
        return tuple(fact.name for fact in self.facts.values() if fact.subject == kind)

    def find_undeclared(self, kind: str, facts: Mapping[str, str]) -> Iterator[UnreadInput]:
        """Yield the facts of a `server`, a `tool` or an `agent` that the policy cannot read."""
        for name, value in facts.items():
            fact = self.facts.get(name)
            if fact is None or fact.subject != kind:
                near = _near(name, self.names(kind))
                yield UnreadInput(InputFault.UNDECLARED_FACT, name, value=value, near=near)
            elif value not in fact.values:
                near = _near(value, fact.values)
                yield UnreadInput(InputFault.UNDECLARED_VALUE, name, value=value, near=near)


def _subject(fact: WireFact) -> str:
    return FACT_SUBJECT.words.get(fact.subject, "")


def unread_inputs(policy: GetPolicyResponse, request: CheckToolsRequest) -> tuple[UnreadInput, ...]:
    """Return what of a request the policy cannot read, and the groups that its rules read and that are missing.

    A proxy calls it at start with the inventory that it is about to ask about, and again when the `revision` of an
    answer changes.

    Args:
        policy: the answer of `PolicyService.GetPolicy`.
        request: the request as the proxy sends it.

    Raises:
        NotPublished: the service does not say which labels its policy declares.
    """
    declared = DeclaredInputs.of(policy)
    reads = tuple(fact for each in policy.rule_sets if each.name == _RULE_SET for fact in each.reads)
    return tuple(_unread(declared, reads, request))


def _near(found: str, declared: Iterable[str]) -> str:
    """Return the nearest declared word; `prod` is near `production` too."""
    words = tuple(declared)
    longer = [word for word in words if found and word.startswith(found)]
    return nearest(found, words) or (longer[0] if len(longer) == 1 else "")


def _unread(declared: DeclaredInputs, reads: tuple[str, ...], request: CheckToolsRequest) -> Iterator[UnreadInput]:
    read = tuple(fact for fact in declared.facts.values() if fact.name in reads)
    agent = request.agent if request.HasField("agent") else None
    if agent is not None:
        yield from _unread_of("agent", agent, _groups_of_agent(agent), declared, reads)
    elif any(fact.startswith("agent.") for fact in reads) or any(fact.subject == "agent" for fact in read):
        yield UnreadInput(InputFault.MISSING_GROUP, "agent")
    for server in request.servers:
        for found in _unread_of("server", server.facts, _groups_of_server(server.facts), declared, reads):
            yield replace(found, server=server.name)
        for tool in server.tools:
            for found in _unread_of("tool", tool.facts, _groups_of_tool(tool.facts), declared, reads):
                yield replace(found, server=server.name, tool=tool.name)


def _unread_of(
    kind: str,
    facts: ServerFacts | ToolFacts | Agent,
    groups: Mapping[str, bool],
    declared: DeclaredInputs,
    reads: tuple[str, ...],
) -> Iterator[UnreadInput]:
    for group in _missing(reads, groups):
        yield UnreadInput(InputFault.MISSING_GROUP, group)
    for _, found in declared.labels.find_undeclared(kind, facts.labels.values):
        yield found
    sent = facts.declared_facts.values
    yield from declared.find_undeclared(kind, sent)
    for fact in declared.facts.values():
        if fact.subject == kind and fact.name in reads and fact.name not in sent and not fact.asserted:
            yield UnreadInput(InputFault.MISSING_FACT, fact.name)


def _groups_of_agent(agent: Agent) -> Mapping[str, bool]:
    return {"agent.label": agent.HasField("labels")}


def _groups_of_server(facts: ServerFacts) -> Mapping[str, bool]:
    return {
        "server.enabled": facts.HasField("enabled"),
        "server.quarantined": facts.HasField("quarantined"),
        "server.label": facts.HasField("labels"),
    }


def _groups_of_tool(facts: ToolFacts) -> Mapping[str, bool]:
    return {
        "tool.config_denied": facts.HasField("config_denied"),
        "approval": facts.HasField("approval"),
        "annotations": facts.HasField("annotations"),
        "tool.label": facts.HasField("labels"),
    }


def _missing(reads: tuple[str, ...], sent: Mapping[str, bool]) -> Iterator[str]:
    """Yield the groups that are read and not sent."""
    for group, is_sent in sent.items():
        if not is_sent and any(fact == group or fact.startswith(f"{group}.") for fact in reads):
            yield group
