"""From the facts of the contract to the facts of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError

from callability.policy.deciding.space import Space
from callability.policy.questions.fact import NO_LABEL, LabelFact, NameFact
from callability.request_facts.tool import has_newer_status, hints, server_fields, tool_fields
from callability.service.requests.errors import InvalidRequest
from callability.service.requests.limits import check_facts, check_labels
from callability.v1 import facts_pb2 as pb
from callability.vocabulary import UNKNOWN

Facts = TypeVar("Facts", pb.ServerFacts, pb.ToolFacts)


@dataclass(frozen=True, slots=True)
class Names:
    """The names in a request; without an agent, it is unknown on whose behalf the request is made."""

    server: str = ""
    tool: str = ""
    agent: str | None = None


NAMELESS = Names()


@dataclass(frozen=True, slots=True)
class FactValues:
    """Values of facts by name, and which facts are unknown although the caller sent them."""

    values: Mapping[str, str]
    not_understood: frozenset[str] = frozenset()

    def __or__(self, other: FactValues) -> FactValues:
        return FactValues({**self.values, **other.values}, self.not_understood | other.not_understood)


class FactReader:
    """Reads from requests all facts that rules can read, except names, labels and hints that no rule reads.

    Facts that are empty on the wire are all unknown. A label whose value is not declared is unknown and not understood.
    """

    def __init__(self, space: Space) -> None:
        question, read = space.question, frozenset(space.facts)
        names = (fact for fact in question.facts.values() if isinstance(fact, NameFact) and fact.name in read)
        self._names = {fact.name: fact for fact in names}
        self._hints = [name for name, fact in question.facts.items() if fact.hint and name in read]
        self._labels = {
            kind: tuple(
                (fact, fact.name.removeprefix(prefix))
                for fact in question.facts.values()
                if isinstance(fact, LabelFact) and fact.name in read and fact.name.startswith(prefix)
            )
            for kind, prefix in question.labels.items()
        }

    def of_server(self, facts: bytes, server: str = "", agent: str | None = None) -> FactValues:
        """Return what a `ServerFacts`, the name of the server and that of the agent say.

        Raises:
            InvalidRequest: the facts are malformed, or exceed a limit.
        """
        message = _parsed(pb.ServerFacts, facts, "server")
        read = server_fields(message)
        return self._with_names_and_labels(read, {"server.name": server, "agent.name": agent}, message, "server")

    def of_tool(self, facts: bytes, tool: str = "") -> FactValues:
        """Return what a `ToolFacts` and the name of the tool say.

        Raises:
            InvalidRequest: the facts are malformed, or exceed a limit.
        """
        message = _parsed(pb.ToolFacts, facts, "tool")
        read = tool_fields(message)
        if self._hints:
            said = hints(message)
            read |= {name: said[name] for name in self._hints}
        values = self._with_names_and_labels(read, {"tool.name": tool}, message, "tool")
        if has_newer_status(message):
            return values | FactValues({}, frozenset({"approval.status"}))
        return values

    def read(self, server_facts: bytes, tool_facts: bytes, names: Names = NAMELESS) -> FactValues:
        """Return every fact of a tool, from the wire forms of `ServerFacts` and `ToolFacts` and from names.

        Raises:
            InvalidRequest: the facts are malformed, or exceed a limit.
        """
        return self.of_server(server_facts, names.server, names.agent) | self.of_tool(tool_facts, names.tool)

    def _with_names_and_labels(
        self, read: dict[str, str], names: Mapping[str, str | None], message: pb.ServerFacts | pb.ToolFacts, kind: str
    ) -> FactValues:
        for name, value in names.items():
            if name in self._names:
                read[name] = UNKNOWN if value is None else self._names[name].of_name(value)
        not_understood = set()
        for fact, key in self._labels.get(kind, ()):
            read[fact.name] = _label(fact, key, message)
            if read[fact.name] == UNKNOWN and key in message.labels.values:
                not_understood.add(fact.name)
        return FactValues(read, frozenset(not_understood))


def _parsed(message: type[Facts], data: bytes, what: str) -> Facts:
    check_facts(data)
    try:
        facts = message.FromString(data)
    except DecodeError:
        raise InvalidRequest("FACTS_MALFORMED", "the facts are not a `ServerFacts` and a `ToolFacts` message") from None
    check_labels(facts.labels.values, what)
    return facts


def _label(fact: LabelFact, key: str, facts: pb.ServerFacts | pb.ToolFacts) -> str:
    if not facts.HasField("labels"):
        return UNKNOWN
    return fact.of_value(facts.labels.values[key]) if key in facts.labels.values else NO_LABEL
