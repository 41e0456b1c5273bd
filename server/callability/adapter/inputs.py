"""Comparing what a proxy sends with what the policy reads, so that a typo in a label is found at start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from callability.finding import nearest
from callability.v1.callability_service_pb2 import CheckToolsRequest
from callability.v1.facts_pb2 import ServerFacts, ToolFacts
from callability.v1.policy_service_pb2 import GetPolicyResponse

_RULE_SET = "callability"


class InputFault(StrEnum):
    """What is wrong with an input."""

    UNDECLARED_LABEL = "undeclared_label"
    """The policy does not declare the label, so that no rule reads it."""
    UNDECLARED_VALUE = "undeclared_value"
    """The policy does not declare this value of the label, so that every rule that reads the label is undetermined."""
    MISSING_GROUP = "missing_group"
    """Rules read the group and the request leaves it out, so that every rule that reads it is undetermined."""


@dataclass(frozen=True, slots=True)
class UnreadInput:
    """An input that the policy cannot read as intended.

    `fact` is the fact as rules write it, or the group that is missing, such as `annotations`. `tool` is empty for facts
    of the server, and `server` for those of the agent. `near` is the nearest name or value that the policy declares;
    empty if there is none.
    """

    fault: InputFault
    fact: str
    server: str = ""
    tool: str = ""
    value: str = ""
    near: str = ""


class NotPublished(ValueError):
    """The service does not say which labels its policy declares: it is older than that."""


@dataclass(frozen=True, slots=True)
class DeclaredLabels:
    """The labels that a policy declares: the values by fact, such as `server.label.environment`."""

    values: Mapping[str, tuple[str, ...]]

    def keys(self, kind: str) -> tuple[str, ...]:
        """Return the keys of the labels of a `server` or a `tool`."""
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

    def undeclared(self, kind: str, labels: Mapping[str, str]) -> Iterator[tuple[str, UnreadInput]]:
        """Yield the labels of a `server` or a `tool` that the policy cannot read, each with its key."""
        for key, value in labels.items():
            fact = f"{kind}.label.{key}"
            values = self.values.get(fact)
            if values is None:
                near = _near(key, self.keys(kind))
                yield key, UnreadInput(InputFault.UNDECLARED_LABEL, fact, value=value, near=near)
            elif value not in values:
                yield key, UnreadInput(InputFault.UNDECLARED_VALUE, fact, value=value, near=_near(value, values))


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
    declared = DeclaredLabels.of(policy)
    reads = tuple(fact for each in policy.rule_sets if each.name == _RULE_SET for fact in each.reads)
    return tuple(_unread(declared, reads, request))


def _near(found: str, declared: Iterable[str]) -> str:
    """Return the nearest declared word; `prod` is near `production` too."""
    words = tuple(declared)
    longer = [word for word in words if found and word.startswith(found)]
    return nearest(found, words) or (longer[0] if len(longer) == 1 else "")


def _unread(declared: DeclaredLabels, reads: tuple[str, ...], request: CheckToolsRequest) -> Iterator[UnreadInput]:
    if "agent.name" in reads and not request.HasField("agent"):
        yield UnreadInput(InputFault.MISSING_GROUP, "agent")
    for server in request.servers:
        for group in _missing(reads, _groups_of_server(server.facts)):
            yield UnreadInput(InputFault.MISSING_GROUP, group, server.name)
        for _, found in declared.undeclared("server", server.facts.labels.values):
            yield UnreadInput(found.fault, found.fact, server.name, "", found.value, found.near)
        for tool in server.tools:
            for group in _missing(reads, _groups_of_tool(tool.facts)):
                yield UnreadInput(InputFault.MISSING_GROUP, group, server.name, tool.name)
            for _, found in declared.undeclared("tool", tool.facts.labels.values):
                yield UnreadInput(found.fault, found.fact, server.name, tool.name, found.value, found.near)


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
