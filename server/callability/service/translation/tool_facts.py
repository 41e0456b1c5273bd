"""From the facts of the contract to the facts of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from google.protobuf.message import DecodeError

from callability.policy.deciding.space import Space
from callability.policy.questions.fact import NO_LABEL, DeclaredFact, LabelFact, NameFact
from callability.request_facts.tool import has_newer_status, hints, server_fields, tool_fields
from callability.service.requests.errors import InvalidRequest
from callability.service.requests.limits import check_declared_facts, check_facts, check_labels
from callability.v1 import facts_pb2 as pb
from callability.vocabulary import UNKNOWN

Facts = TypeVar("Facts", pb.ServerFacts, pb.ToolFacts)
_Message = pb.ServerFacts | pb.ToolFacts | pb.Agent


@dataclass(frozen=True, slots=True)
class Names:
    """The names in a request."""

    server: str = ""
    tool: str = ""


NAMELESS = Names()


@dataclass(frozen=True, slots=True)
class FactValues:
    """Values of facts by name, and which facts are unknown although the caller sent them."""

    values: Mapping[str, str]
    not_understood: frozenset[str] = frozenset()
    undeclared: int = 0
    """How many facts were sent that the rule file does not declare."""

    def __or__(self, other: FactValues) -> FactValues:
        return FactValues(
            {**self.values, **other.values},
            self.not_understood | other.not_understood,
            self.undeclared + other.undeclared,
        )


class AgentValues(NamedTuple):
    """What rules know of an agent, as a key: its facts that they read, and those of them that are not understood."""

    values: tuple[tuple[str, str], ...] = ()
    not_understood: frozenset[str] = frozenset()


NOBODY = AgentValues()
"""What rules know of any agent if they read nothing of it."""


class FactReader:
    """Reads from requests all facts that rules can read, except names, labels and hints that no rule reads.

    Facts that are empty on the wire are all unknown. A label whose value is not declared is unknown and not understood,
    and so is such a declared fact, unless it is asserted.
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
        declared = [fact for fact in question.facts.values() if isinstance(fact, DeclaredFact)]
        self._declared = {
            kind: tuple(fact for fact in declared if fact.of == kind and fact.name in read)
            for kind in question.declares
        }
        self._known = {kind: frozenset(each.name for each in declared if each.of == kind) for kind in question.declares}
        self._stranger = self._of_agent(pb.Agent(), None)[0]

    def of_agent(self, agent: pb.Agent | None, name: str = "") -> tuple[AgentValues, int]:
        """Return what an `Agent` with this name says, and how many facts in it are not declared.

        Without an agent, everything about it is unknown. Its own name is not looked at: it may be bytes.

        Raises:
            InvalidRequest: its labels or its declared facts exceed a limit.
        """
        return (self._stranger, 0) if agent is None else self._of_agent(agent, name)

    def _of_agent(self, agent: pb.Agent, name: str | None) -> tuple[AgentValues, int]:
        if agent.HasField("labels"):
            check_labels(agent.labels.values, "agent")
        if agent.HasField("declared_facts"):
            check_declared_facts(agent.declared_facts.values, "agent")
        found = self._with_names_and_groups({}, {"agent.name": name}, agent, "agent")
        values = AgentValues(tuple(found.values.items()), found.not_understood) if found.values else NOBODY
        return values, found.undeclared

    def of_server(self, facts: bytes, server: str = "", agent: AgentValues | None = None) -> FactValues:
        """Return what a `ServerFacts`, the name of the server and the agent say; None: nothing is known of the agent.

        Raises:
            InvalidRequest: the facts are malformed, or exceed a limit.
        """
        message = _parsed(pb.ServerFacts, facts, "server")
        read = server_fields(message) | dict((self._stranger if agent is None else agent).values)
        found = self._with_names_and_groups(read, {"server.name": server}, message, "server")
        return found if agent is None else found | FactValues({}, agent.not_understood)

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
        values = self._with_names_and_groups(read, {"tool.name": tool}, message, "tool")
        if has_newer_status(message):
            return values | FactValues({}, frozenset({"approval.status"}))
        return values

    def read(
        self, server_facts: bytes, tool_facts: bytes, names: Names = NAMELESS, agent: AgentValues | None = None
    ) -> FactValues:
        """Return every fact of a tool, from the wire forms of `ServerFacts` and `ToolFacts`, from names and the agent.

        Raises:
            InvalidRequest: the facts are malformed, or exceed a limit.
        """
        return self.of_server(server_facts, names.server, agent) | self.of_tool(tool_facts, names.tool)

    def _with_names_and_groups(
        self, read: dict[str, str], names: Mapping[str, str | None], message: _Message, kind: str
    ) -> FactValues:
        for name, value in names.items():
            if name in self._names:
                read[name] = UNKNOWN if value is None else self._names[name].of_name(value)
        not_understood = set()
        for fact, key in self._labels.get(kind, ()):
            read[fact.name] = _label(fact, key, message)
            if read[fact.name] == UNKNOWN and key in message.labels.values:
                not_understood.add(fact.name)
        for declared in self._declared[kind]:
            sent = message.declared_facts.values.get(declared.name)
            read[declared.name] = declared.reading(UNKNOWN if sent is None else sent)
            if sent is not None and read[declared.name] == UNKNOWN:
                not_understood.add(declared.name)
        undeclared = 0
        if message.HasField("declared_facts"):
            undeclared = sum(name not in self._known[kind] for name in message.declared_facts.values)
        return FactValues(read, frozenset(not_understood), undeclared)


def _parsed(message: type[Facts], data: bytes, what: str) -> Facts:
    check_facts(data)
    try:
        facts = message.FromString(data)
    except DecodeError:
        raise InvalidRequest("FACTS_MALFORMED", "the facts are not a `ServerFacts` and a `ToolFacts` message") from None
    check_labels(facts.labels.values, what)
    if facts.HasField("declared_facts"):
        check_declared_facts(facts.declared_facts.values, what)
    return facts


def _label(fact: LabelFact, key: str, facts: _Message) -> str:
    if not facts.HasField("labels"):
        return UNKNOWN
    return fact.of_value(facts.labels.values[key]) if key in facts.labels.values else NO_LABEL
