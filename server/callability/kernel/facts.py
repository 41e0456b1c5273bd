"""From the facts of a request about a tool to readings by name: the only reader of such facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from google.protobuf.message import DecodeError

from callability.bundle.v1 import bundle_pb2
from callability.kernel import limits
from callability.kernel.fact import Fact
from callability.kernel.fields import hints, outside_domain, server_fields, tool_fields
from callability.kernel.limits import InvalidRequest
from callability.kernel.rule_set import RuleSet
from callability.v1 import facts_pb2 as pb
from callability.vocabulary import NO_LABEL, UNKNOWN

_Group = TypeVar("_Group", pb.ServerFacts, pb.ToolFacts)
_Message = pb.ServerFacts | pb.ToolFacts | pb.Agent
_SUBJECTS = {
    "agent": bundle_pb2.FACT_SUBJECT_AGENT,
    "server": bundle_pb2.FACT_SUBJECT_SERVER,
    "tool": bundle_pb2.FACT_SUBJECT_TOOL,
}
_KEPT_NAMES = 4_096
"""Names whose classes are kept."""


@dataclass(frozen=True, slots=True)
class Readings:
    """What a request says of facts, by name, and which of them are unknown although the caller sent them.

    `stays_unknown` are those that are unknown until a person changes something: no later request has them.
    """

    values: Mapping[str, str]
    not_understood: frozenset[str] = frozenset()
    stays_unknown: frozenset[str] = frozenset()
    undeclared: int = 0
    """How many facts were sent that the rule file does not declare."""

    def __or__(self, other: Readings) -> Readings:
        return Readings(
            {**self.values, **other.values},
            self.not_understood | other.not_understood,
            self.stays_unknown | other.stays_unknown,
            self.undeclared + other.undeclared,
        )

    @property
    def key(self) -> tuple[tuple[tuple[str, str], ...], frozenset[str], frozenset[str]]:
        """What distinguishes it from other readings of the same subject."""
        return tuple(self.values.items()), self.not_understood, self.stays_unknown


class FactReader:
    """Reads the facts that the rules of a bundle read. It keeps nothing of a request but the classes of names.

    What is read of an agent, a server and a tool is joined by `|` to the readings of a decision. Facts that are empty
    on the wire are all unknown. A label whose value is not declared is unknown and not understood, and so is such a
    declared fact, unless it is asserted. Unless it is `limited`, labels and declared facts may be of any size.
    """

    def __init__(self, rule_set: RuleSet, *, limited: bool = False) -> None:
        self._limited = limited
        facts = [fact for axis in rule_set.axes for fact in axis.facts]
        self._facts = {
            subject: tuple(fact for fact in facts if fact.subject == number) for subject, number in _SUBJECTS.items()
        }
        self._hints = any(fact.hint for fact in facts)
        declared = [fact for fact in rule_set.question.facts.values() if fact.kind == bundle_pb2.FACT_KIND_DECLARED]
        self._declared = {
            subject: frozenset(fact.key for fact in declared if fact.subject == number)
            for subject, number in _SUBJECTS.items()
        }
        classes = {
            subject: tuple(fact.classes for fact in facts if fact.kind == bundle_pb2.FACT_KIND_NAME and fact.classes)
            for subject, facts in self._facts.items()
        }
        self._names = frozenset(subject for subject, each in classes.items() if each)

        def class_of(subject: str, name: str) -> tuple[int, ...]:
            return tuple([each.class_of(name) for each in classes[subject]])

        # It does not refer to the reader, which would then live until a collection, with the policy.
        self.class_of = lru_cache(_KEPT_NAMES)(class_of)
        """What rules distinguish of the name of a subject, such as `tool`: empty if they do not read it."""

    def reads_name(self, subject: str) -> bool:
        """Return whether rules read the name of a subject."""
        return subject in self._names

    def of_agent(self, agent: pb.Agent | None, name: str = "") -> Readings:
        """Return what an agent says; everything about it is unknown without one. Its own name is not looked at.

        Raises:
            InvalidRequest: its labels or its declared facts exceed a limit.
            BundleRefused: the bundle contradicts itself about a name.
        """
        return self._read("agent", {}, agent or pb.Agent(), name if agent is not None else None)

    def of_server(self, facts: pb.ServerFacts, name: str) -> Readings:
        """Return what the facts and the name of a server say.

        Raises:
            InvalidRequest: the facts exceed a limit.
            BundleRefused: the bundle contradicts itself about a name.
        """
        return self._read("server", server_fields(facts), facts, name)

    def of_tool(self, facts: pb.ToolFacts, name: str) -> Readings:
        """Return what the facts and the name of a tool say.

        Raises:
            InvalidRequest: the facts exceed a limit.
            BundleRefused: the bundle contradicts itself about a name.
        """
        fields = tool_fields(facts) | (hints(facts) if self._hints else {})
        return self._read("tool", fields, facts, name, outside_domain(facts))

    def parsed(self, message: type[_Group], data: bytes) -> _Group:
        """Return the facts of a server or a tool that are encoded.

        Raises:
            InvalidRequest: they are malformed, or have too many bytes.
        """
        if self._limited:
            limits.check_facts(data)
        try:
            return message.FromString(data)
        except DecodeError:
            sentence = "the facts are not a `ServerFacts` and a `ToolFacts` message"
            raise InvalidRequest("FACTS_MALFORMED", sentence) from None

    def _read(
        self,
        subject: str,
        fields: Mapping[str, str],
        message: _Message,
        name: str | None,
        not_understood: frozenset[str] = frozenset(),
    ) -> Readings:
        if self._limited:
            limits.check_labels(message.labels.values, subject)
            limits.check_declared_facts(message.declared_facts.values, subject)
        found: dict[str, str] = {}
        sent = set(not_understood)
        for fact in self._facts[subject]:
            match fact.kind:
                case bundle_pb2.FACT_KIND_NAME:
                    found[fact.name] = UNKNOWN if name is None else fact.of_name(name)
                    continue
                case bundle_pb2.FACT_KIND_LABEL:
                    found[fact.name], was_sent = _label(fact, message), fact.key in message.labels.values
                case bundle_pb2.FACT_KIND_DECLARED:
                    found[fact.name], was_sent = _declared(fact, message), fact.key in message.declared_facts.values
                case _:
                    # A field that this version does not know is one that nobody can send.
                    found[fact.name] = fields.get(fact.name, fact.open_value if fact.asserted else UNKNOWN)
                    continue
            if was_sent and found[fact.name] == UNKNOWN:
                sent.add(fact.name)
        undeclared = 0
        if message.HasField("declared_facts"):
            undeclared = sum(key not in self._declared[subject] for key in message.declared_facts.values)
        # Without an agent, nothing about it is ever sent.
        stays = frozenset(
            fact.name
            for fact in self._facts[subject]
            if found[fact.name] == UNKNOWN and (fact.stays_unknown or fact.name in sent or name is None)
        )
        return Readings(found, frozenset(sent), stays, undeclared)


def _label(fact: Fact, message: _Message) -> str:
    if not message.HasField("labels"):
        return UNKNOWN
    value = message.labels.values.get(fact.key)
    if value is None:
        return NO_LABEL
    return value if value in fact.numbers and value != NO_LABEL else UNKNOWN


def _declared(fact: Fact, message: _Message) -> str:
    value = message.declared_facts.values.get(fact.key)
    if value is not None and value in fact.numbers:
        return value
    return fact.open_value if fact.asserted else UNKNOWN
