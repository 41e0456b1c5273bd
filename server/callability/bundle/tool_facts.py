"""From the facts of a request about a tool to facts by name, as the rules of a bundle read them."""

from __future__ import annotations

from collections.abc import Mapping

from callability.bundle.fact import Fact
from callability.bundle.rule_set import RuleSet
from callability.bundle.v1 import bundle_pb2 as pb
from callability.request_facts.tool import hints, server_fields, tool_fields
from callability.v1 import facts_pb2
from callability.vocabulary import UNKNOWN

NAME_BYTES = 512
"""The most bytes that a name may have."""
_Group = facts_pb2.ServerFacts | facts_pb2.ToolFacts | facts_pb2.Agent
_NO_LABEL = "none"
"""The value of a label that is not there."""


class ToolFactReader:
    """Reads the facts that the rules of a bundle distinguish. It keeps nothing of a request.

    What is read of an agent, a server and a tool is joined by `|` to the facts of a decision.
    """

    def __init__(self, rule_set: RuleSet) -> None:
        facts = [fact for axis in rule_set.axes for fact in axis.facts]
        self._by_subject = {
            subject: tuple(fact for fact in facts if fact.subject == subject and fact.kind != pb.FACT_KIND_FIELD)
            for subject in (pb.FACT_SUBJECT_AGENT, pb.FACT_SUBJECT_SERVER, pb.FACT_SUBJECT_TOOL)
        }
        self._tool_names = [
            fact.classes
            for fact in self._by_subject[pb.FACT_SUBJECT_TOOL]
            if fact.kind == pb.FACT_KIND_NAME and fact.classes
        ]
        self._fields = tuple(fact for fact in facts if fact.kind == pb.FACT_KIND_FIELD)
        self._hints = any(fact.hint for fact in self._fields)

    def of_agent(self, agent: facts_pb2.Agent | None) -> dict[str, str]:
        """Return what an agent says; everything about it is unknown without one.

        Raises:
            ValueError: the name is too long.
        """
        message = agent if agent is not None else facts_pb2.Agent()
        name = None if agent is None else checked_name(agent.name, "agent", empty=True)
        return self._keyed(pb.FACT_SUBJECT_AGENT, message, name)

    def of_server(self, facts: facts_pb2.ServerFacts, name: str) -> dict[str, str]:
        """Return what the facts and the name of a server say.

        Raises:
            ValueError: the name is empty or too long.
        """
        fields = self._of_fields(server_fields(facts), pb.FACT_SUBJECT_SERVER)
        return fields | self._keyed(pb.FACT_SUBJECT_SERVER, facts, checked_name(name, "server"))

    def of_tool(self, facts: facts_pb2.ToolFacts, name: str) -> dict[str, str]:
        """Return what the facts and the name of a tool say.

        Raises:
            ValueError: the name is empty or too long.
        """
        said = tool_fields(facts) | (hints(facts) if self._hints else {})
        return self._of_fields(said, pb.FACT_SUBJECT_TOOL) | self._keyed(
            pb.FACT_SUBJECT_TOOL, facts, checked_name(name, "tool")
        )

    def class_of_tool(self, name: str) -> tuple[int, ...]:
        """Return what rules distinguish of the name of a tool.

        Raises:
            ValueError: the name is empty or too long.
        """
        checked_name(name, "tool")
        return tuple([classes.class_of(name) for classes in self._tool_names])

    def _of_fields(self, said: Mapping[str, str], subject: pb.FactSubject.ValueType) -> dict[str, str]:
        """Return the fields that rules read. One that this version does not know is one that nobody can send."""
        return {
            fact.name: said.get(fact.name, fact.open_value if fact.asserted else UNKNOWN)
            for fact in self._fields
            if fact.subject == subject
        }

    def _keyed(self, subject: pb.FactSubject.ValueType, message: _Group, name: str | None) -> dict[str, str]:
        found: dict[str, str] = {}
        for fact in self._by_subject[subject]:
            match fact.kind:
                case pb.FACT_KIND_NAME:
                    found[fact.name] = UNKNOWN if name is None else fact.of_name(name)
                case pb.FACT_KIND_LABEL:
                    found[fact.name] = _label(fact, message)
                case _:
                    found[fact.name] = _declared(fact, message)
        return found


def checked_name(name: str, what: str, *, empty: bool = False) -> str:
    """Return a name that a request may hold; `empty` allows an empty one.

    Raises:
        InvalidName: it is empty, or has more than 512 bytes.
    """
    if not name and not empty:
        raise InvalidName("NAME_EMPTY", f"the name of the {what} is empty, and has 1 to {NAME_BYTES} bytes")
    # Four bytes are the most that a character has.
    if len(name) > NAME_BYTES // 4 and (size := len(name.encode(errors="surrogatepass"))) > NAME_BYTES:
        found = f"the name of the {what} has {size:,} bytes"
        raise InvalidName("NAME_TOO_LONG", f"{found}, and may have {NAME_BYTES}")
    return name


class InvalidName(ValueError):
    """A name that no request may hold. Its text is one sentence; `reason` is that of the contract."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def _label(fact: Fact, message: _Group) -> str:
    if not message.HasField("labels"):
        return UNKNOWN
    value = message.labels.values.get(fact.key)
    if value is None:
        return _NO_LABEL
    return value if value in fact.numbers and value != _NO_LABEL else UNKNOWN


def _declared(fact: Fact, message: _Group) -> str:
    value = message.declared_facts.values.get(fact.key)
    if value is not None and value in fact.numbers:
        return value
    return fact.open_value if fact.asserted else UNKNOWN
