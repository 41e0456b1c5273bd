"""From the facts of the contract to the facts of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from google.protobuf.message import DecodeError

from callability.policy.fact import NO_LABEL, LabelFact, NameFact
from callability.policy.question import Question
from callability.service.errors import InvalidRequest
from callability.service.limits import check_labels
from callability.v1 import facts_pb2 as pb
from callability.vocabulary import UNKNOWN

Hint = Literal["read_only", "destructive", "idempotent", "open_world"]
_HINTS: Mapping[Hint, bool] = {"read_only": False, "destructive": True, "idempotent": False, "open_world": True}
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
    """Reads what a question's rules may ask for out of requests."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._labels = tuple(
            (name, kind, name.removeprefix(prefix))
            for kind, prefix in question.labels.items()
            for name in question.facts
            if name.startswith(prefix)
        )

    def read(self, server_facts: bytes, tool_facts: bytes, names: Names = NAMELESS) -> dict[str, str]:
        """Return every fact of a tool by its name, from the wire forms of `ServerFacts` and `ToolFacts`.

        Empty, these say that all is unknown. A label whose value is not declared is unknown too.

        Raises:
            InvalidRequest: they are not such messages, or their labels exceed a limit.
        """
        server, tool = _parsed(server_facts, tool_facts)
        disabled, status = _approval(tool)
        return {
            "server.enabled": _boolean(server.enabled, known=server.HasField("enabled")),
            "tool.config_denied": _boolean(tool.config_denied, known=tool.HasField("config_denied")),
            "server.quarantined": _boolean(server.quarantined, known=server.HasField("quarantined")),
            "approval.disabled": disabled,
            "approval.status": status,
            "caller.refuses": _boolean(tool.caller_refuses, known=True),
            **_hints(tool),
            "server.name": self._name("server.name", names.server),
            "tool.name": self._name("tool.name", names.tool),
            "agent.name": UNKNOWN if names.agent is None else self._name("agent.name", names.agent),
            **{name: self._label(name, key, server if kind == "server" else tool) for name, kind, key in self._labels},
        }

    def _name(self, fact: str, name: str) -> str:
        asked = self._question.facts[fact]
        return asked.of_name(name) if isinstance(asked, NameFact) else name

    def _label(self, fact: str, key: str, facts: pb.ServerFacts | pb.ToolFacts) -> str:
        asked = self._question.facts[fact]
        if not facts.HasField("labels") or not isinstance(asked, LabelFact):
            return UNKNOWN
        return asked.of_value(facts.labels.values[key]) if key in facts.labels.values else NO_LABEL


def _parsed(server_facts: bytes, tool_facts: bytes) -> tuple[pb.ServerFacts, pb.ToolFacts]:
    try:
        server, tool = pb.ServerFacts.FromString(server_facts), pb.ToolFacts.FromString(tool_facts)
    except DecodeError:
        raise InvalidRequest("FACTS_MALFORMED", "the facts are not a `ServerFacts` and a `ToolFacts` message") from None
    check_labels(server.labels.values, "server")
    check_labels(tool.labels.values, "tool")
    return server, tool


def _hints(tool: pb.ToolFacts) -> dict[str, str]:
    """A hint that is left out has the default that MCP gives it; annotations that are left out are unknown."""
    given, known = tool.annotations, tool.HasField("annotations")
    return {
        f"annotations.{name}": _boolean(getattr(given, name) if given.HasField(name) else default, known=known)
        for name, default in _HINTS.items()
    }


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
