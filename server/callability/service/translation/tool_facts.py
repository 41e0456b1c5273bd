"""From the facts of the contract to the facts of rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from google.protobuf.message import DecodeError

from callability.policy.deciding.space import Space
from callability.policy.questions.callability import normalized_hints
from callability.policy.questions.fact import NO_LABEL, LabelFact, NameFact
from callability.service.requests.errors import InvalidRequest
from callability.service.requests.limits import check_facts, check_labels
from callability.v1 import facts_pb2 as pb
from callability.vocabulary import UNKNOWN

Hint = Literal["read_only", "destructive", "idempotent", "open_world"]
_DEPENDENT: tuple[Hint, ...] = ("read_only", "destructive", "idempotent")
_STATUS = {
    pb.APPROVAL_STATUS_APPROVED: "approved",
    pb.APPROVAL_STATUS_PENDING: "pending",
    pb.APPROVAL_STATUS_CHANGED: "changed",
}


@dataclass(frozen=True, slots=True)
class Names:
    """The names in a request; no agent: on whose behalf it asks is unknown."""

    server: str = ""
    tool: str = ""
    agent: str | None = None


NAMELESS = Names()


class FactReader:
    """Reads out of requests what rules may ask for, and of names, labels and hints what they do ask for."""

    def __init__(self, space: Space) -> None:
        question, read = space.question, frozenset(space.facts)
        names = (fact for fact in question.facts.values() if isinstance(fact, NameFact) and fact.name in read)
        self._names = {fact.name: fact for fact in names}
        self._hints = [name for name, fact in question.facts.items() if fact.hint and name in read]
        self._labels = tuple(
            (fact, kind, fact.name.removeprefix(prefix))
            for kind, prefix in question.labels.items()
            for fact in question.facts.values()
            if isinstance(fact, LabelFact) and fact.name in read and fact.name.startswith(prefix)
        )

    def read(self, server_facts: bytes, tool_facts: bytes, names: Names = NAMELESS) -> dict[str, str]:
        """Return the facts of a tool by name, from the wire forms of `ServerFacts` and `ToolFacts`.

        Empty, these say that all is unknown. A label whose value is not declared is unknown too.

        Raises:
            InvalidRequest: they are not such messages, or their labels exceed a limit.
        """
        server, tool = _parsed(server_facts, tool_facts)
        disabled, status = _approval(tool)
        facts = {
            "server.enabled": _boolean(server.enabled, known=server.HasField("enabled")),
            "tool.config_denied": _boolean(tool.config_denied, known=tool.HasField("config_denied")),
            "server.quarantined": _boolean(server.quarantined, known=server.HasField("quarantined")),
            "approval.disabled": disabled,
            "approval.status": status,
            "caller.refuses": _boolean(tool.caller_refuses, known=True),
        }
        if self._hints:
            hints = _hints(tool)
            facts |= {name: hints[name] for name in self._hints}
        if self._names:
            facts |= self._named(names)
        for fact, kind, key in self._labels:
            facts[fact.name] = _label(fact, key, server if kind == "server" else tool)
        return facts

    def not_understood(self, server_facts: bytes, tool_facts: bytes) -> frozenset[str]:
        """Return the facts that are unknown although the caller sent them: its values are not known here.

        Raises:
            InvalidRequest: as `read`.
        """
        server, tool = _parsed(server_facts, tool_facts)
        found = {
            fact.name
            for fact, kind, key in self._labels
            if (labels := (server if kind == "server" else tool).labels.values)
            and key in labels
            and fact.of_value(labels[key]) == UNKNOWN
        }
        # A number that is not 0 is a status of a newer version.
        status = tool.approval.record.status
        return frozenset(found | ({"approval.status"} if status and status not in _STATUS else set()))

    def _named(self, names: Names) -> dict[str, str]:
        given = {"server.name": names.server, "tool.name": names.tool, "agent.name": names.agent}
        read = {name: (fact, given[name]) for name, fact in self._names.items()}
        return {name: UNKNOWN if value is None else fact.of_name(value) for name, (fact, value) in read.items()}


def _parsed(server_facts: bytes, tool_facts: bytes) -> tuple[pb.ServerFacts, pb.ToolFacts]:
    check_facts(server_facts, tool_facts)
    try:
        server, tool = pb.ServerFacts.FromString(server_facts), pb.ToolFacts.FromString(tool_facts)
    except DecodeError:
        raise InvalidRequest("FACTS_MALFORMED", "the facts are not a `ServerFacts` and a `ToolFacts` message") from None
    check_labels(server.labels.values, "server")
    check_labels(tool.labels.values, "tool")
    return server, tool


def _hints(tool: pb.ToolFacts) -> dict[str, str]:
    """Return all hints. One that is left out has the default that MCP gives it; left out together, all are unknown."""
    if not tool.HasField("annotations"):
        return {f"annotations.{hint}": UNKNOWN for hint in (*_DEPENDENT, "open_world")}
    said = tool.annotations
    given = {
        f"annotations.{hint}": _boolean(getattr(said, hint), known=True) for hint in _DEPENDENT if said.HasField(hint)
    }
    open_world = not said.HasField("open_world") or said.open_world
    return normalized_hints(given) | {"annotations.open_world": _boolean(open_world, known=True)}


def _label(fact: LabelFact, key: str, facts: pb.ServerFacts | pb.ToolFacts) -> str:
    if not facts.HasField("labels"):
        return UNKNOWN
    return fact.of_value(facts.labels.values[key]) if key in facts.labels.values else NO_LABEL


def _boolean(value: bool, *, known: bool) -> str:
    return str(value).lower() if known else UNKNOWN


def _approval(tool: pb.ToolFacts) -> tuple[str, str]:
    """An approval that is absent is unknown; one without a record says that there is none (spec A.2)."""
    if not tool.HasField("approval"):
        return UNKNOWN, UNKNOWN
    if not tool.approval.HasField("record"):
        return "false", "none"
    record = tool.approval.record
    return _boolean(record.disabled, known=record.HasField("disabled")), _STATUS.get(record.status, UNKNOWN)
