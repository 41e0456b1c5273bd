"""The policy in a bundle, and what the check of a policy hands to whatever serves it.

Every number of a rule set is checked before it is used.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError

from callability.bundle.v1 import bundle_pb2 as pb
from callability.contract.enum_words import LIFTED_BY, RETRY
from callability.contract.finding import Finding, as_code
from callability.contract.vocabulary import Action, LiftedBy, Retry
from callability.kernel.conditions import SEMANTICS, AllOf, AnyOf, Condition, Is, Not
from callability.kernel.envelope import (
    BundleRefused,
    Envelope,
    Malformed,
    RefusalCode,
    cost_of_payload,
    invalid,
    max_cost,
    open_bundle,
)
from callability.kernel.rule_set import (
    Axis,
    Counts,
    Fact,
    Law,
    Points,
    Question,
    Rule,
    RuleSet,
    Status,
    Verdict,
    Words,
    fact_of,
    nodes_of,
    walk,
)
from callability.v1 import outcome_pb2

MAX_DEPTH = 128
"""Parts within parts of one condition: more than the reader of rule files allows."""


class Conditions:
    """The conditions of a rule set: each part is taken once, by a part, a rule or a law."""

    def __init__(self, parts: Iterable[pb.ConditionPart], facts: Sequence[Fact]) -> None:
        self._facts = facts
        self._left: dict[int, tuple[Condition, int]] = {}
        for number, part in enumerate(parts):
            condition, depth = self._condition(part)
            if depth > MAX_DEPTH:
                raise invalid(f"a condition is nested more than {MAX_DEPTH} levels deep")
            self._left[number] = condition, depth

    def take(self, number: int) -> Condition:
        """Return a condition that nothing took before.

        Raises:
            BundleRefused: there is none of this number.
        """
        return self._take(number)[0]

    def check_all_taken(self) -> None:
        """Refuse parts that belong to nothing.

        Raises:
            BundleRefused: there are some.
        """
        if self._left:
            raise invalid("a part of a condition belongs to nothing")

    def _take(self, number: int) -> tuple[Condition, int]:
        # A part is here only if it comes before the one that takes it.
        try:
            return self._left.pop(number)
        except KeyError:
            raise invalid(f"part {number} of a condition does not exist, comes too late or is used twice") from None

    def _condition(self, part: pb.ConditionPart) -> tuple[Condition, int]:
        if part.kind == pb.CONDITION_KIND_FACT_IS:
            return self._fact_is(part), 1
        taken = [self._take(number) for number in part.parts]
        depth = 1 + max((each for _, each in taken), default=0)
        parts = tuple(condition for condition, _ in taken)
        match part.kind:
            case pb.CONDITION_KIND_ALL:
                return AllOf(parts), depth
            case pb.CONDITION_KIND_ANY:
                return AnyOf(parts), depth
            case pb.CONDITION_KIND_NOT if len(parts) == 1:
                return Not(parts[0]), depth
        raise invalid("a part of a condition has an unknown kind, or a `not` has not one part")

    def _fact_is(self, part: pb.ConditionPart) -> Is:
        if part.fact >= len(self._facts) or part.parts:
            raise invalid("a condition reads a fact that does not exist")
        fact = self._facts[part.fact]
        readings = tuple(part.readings)
        if any(number >= len(fact.values) for number in readings) or list(readings) != sorted(set(readings)):
            raise invalid("a condition names a value that does not exist")
        # A name is compared by the patterns, and any other fact by its values: both say the same as the readings.
        written = part.written if fact.classes is not None else (fact.values[number] for number in readings)
        return Is(fact.name, frozenset(written))


Item = TypeVar("Item")
_OWNERS = LIFTED_BY.members(LiftedBy)
_RETRIES = RETRY.members(Retry)
_NUMBERS = 2**31
"""No number of a status in the contract reaches it."""
_TEXTS = {
    "callability": ("remediation", "rejection"),
    "load_outcome": ("message",),
    "enable_outcome": ("message",),
}
MAX_DIGITS = 4_000
"""Digits of a count: Python converts few more to a number by default."""
QUESTIONS = tuple(_TEXTS)
"""The questions of a bundle, in their order."""


def rule_set_of(message: pb.RuleSet) -> RuleSet:
    """Return a rule set of a bundle.

    Raises:
        BundleRefused: it contradicts itself.
    """
    facts = tuple(map(fact_of, message.facts))
    by_name = {fact.name: fact for fact in facts}
    if len(by_name) != len(facts):
        raise invalid("two facts have the same name")
    statuses = tuple(map(_status, message.statuses))
    said = _status_words(message, statuses)
    conditions = Conditions(message.condition_parts, facts)
    rules = _rules(message, conditions, statuses)
    laws = tuple(_law(law, conditions, statuses) for law in message.laws)
    conditions.check_all_taken()
    axes = _axes(message.axes, facts)
    verdicts = tuple(_verdict(each, message, statuses, rules, said) for each in message.verdicts)
    if not verdicts:
        raise invalid("a rule set has no verdict")
    sizes = [axis.size for axis in axes]
    nodes = nodes_of(message.diagram, verdicts, sizes)
    first = nodes[-1] if message.diagram.places else verdicts[0]
    return RuleSet(
        question=_question(message, by_name, statuses),
        axes=axes,
        rules=rules,
        laws=laws,
        status_words=said,
        verdicts=verdicts,
        counts=_counts(message.counts),
        first=first,
        inner_nodes=len(message.diagram.places),
        decide=walk(first),
        facts=_facts_at(message.listed_facts, facts, axes),
        unread_of_rule=_unread(message, rules, facts, sizes),
    )


def _question(message: pb.RuleSet, facts: Mapping[str, Fact], statuses: Sequence[Status]) -> Question:
    has_open = message.HasField("open_status")
    return Question(
        name=message.question,
        facts=facts,
        statuses=tuple(statuses),
        undetermined=_at(statuses, message.undetermined_status, "status").name,
        open_status=_at(statuses, message.open_status, "status").name if has_open else None,
    )


def _status(message: pb.Status) -> Status:
    if (
        not message.name
        or not 0 < message.number < _NUMBERS
        or message.lifted_by not in _OWNERS
        or message.retry not in _RETRIES
        or message.entry not in outcome_pb2.EnableEntry.values()
    ):
        raise invalid(f"status {as_code(message.name)} contradicts itself")
    return Status(
        name=message.name,
        number=message.number,
        lifted_by=_OWNERS[message.lifted_by],
        retry=_RETRIES[message.retry],
        error=message.error,
        entry=message.entry,
        tools_changed=message.tools_changed,
    )


def _status_words(message: pb.RuleSet, statuses: Sequence[Status]) -> dict[str, Words]:
    if tuple(message.text_names) != _TEXTS[message.question]:
        raise invalid(f"the words of `{message.question}` have other texts")
    if len({each.name for each in statuses}) != len(statuses) or len({each.number for each in statuses}) != len(
        statuses
    ):
        raise invalid("two statuses are the same")
    found: dict[str, Words] = {}
    for each in message.status_words:
        name = _at(statuses, each.status, "status").name
        if name in found:
            raise invalid(f"status `{name}` has its words twice")
        found[name] = _words("", each.texts, message.text_names)
    return found


def _words(rule: str, texts: Sequence[str], names: Sequence[str]) -> Words:
    if len(texts) != len(names):
        raise invalid("words have not one text for each name of a text")
    return Words(rule, dict(zip(names, texts, strict=True)))


def _rules(message: pb.RuleSet, conditions: Conditions, statuses: Sequence[Status]) -> tuple[Rule, ...]:
    rules = tuple(
        Rule(
            id=rule.id,
            when=conditions.take(rule.condition) if rule.HasField("condition") else None,
            status=_at(statuses, rule.status, "status").name,
            line=rule.line,
            column=rule.column,
            words=_words(rule.id, rule.words, message.text_names) if rule.words else None,
        )
        for rule in message.rules
    )
    if not rules or rules[-1].when is not None:
        raise invalid("the last rule has a condition, or there is no rule")
    if "" in {rule.id for rule in rules} or len({rule.id for rule in rules}) != len(rules):
        raise invalid("a rule has no id, or two rules have the same")
    return rules


def _law(message: pb.Law, conditions: Conditions, statuses: Sequence[Status]) -> Law:
    return Law(
        name=message.name,
        when=conditions.take(message.condition) if message.HasField("condition") else None,
        statuses=tuple(_at(statuses, number, "status").name for number in message.statuses),
        always=message.always,
        line=message.line,
        column=message.column,
    )


def _axes(messages: Iterable[pb.Axis], facts: Sequence[Fact]) -> tuple[Axis, ...]:
    axes = tuple(_axis(each, facts) for each in messages)
    tested = [fact.name for axis in axes for fact in axis.facts]
    if len(set(tested)) != len(tested):
        raise invalid("a fact is on two axes")
    return axes


def _facts_at(numbers: Iterable[int], facts: Sequence[Fact], axes: Iterable[Axis]) -> tuple[str, ...]:
    listed = tuple(_at(facts, number, "fact").name for number in numbers)
    if sorted(listed) != sorted(fact.name for axis in axes for fact in axis.facts):
        raise invalid("the listed facts are not those of the axes, each once")
    return listed


def _axis(message: pb.Axis, facts: Sequence[Fact]) -> Axis:
    mine = tuple(_at(facts, number, "fact") for number in message.facts)
    readings = tuple(message.readings)
    width = len(mine)
    if not width or not readings or len(readings) % width:
        raise invalid("an axis has no facts, or readings that are not as many for each point")
    if len({fact.subject == pb.FACT_SUBJECT_AGENT for fact in mine}) > 1:
        raise invalid("an axis has facts of the agent and others")
    for offset, fact in enumerate(mine):
        if not fact.values or max(readings[offset::width]) >= fact.readings:
            raise invalid(f"an axis has a reading that {as_code(fact.name)} has not")
    points: dict[tuple[int, ...], int] = {}
    size = len(readings) // width
    for number in range(size):
        points.setdefault(readings[number * width : (number + 1) * width], number)
    if width == 1 and len(points) != mine[0].readings:
        raise invalid(f"an axis has no point for a reading of {as_code(mine[0].name)}")
    return Axis(mine, points, size)


def _verdict(
    message: pb.Verdict,
    rule_set: pb.RuleSet,
    statuses: Sequence[Status],
    rules: Sequence[Rule],
    said: Mapping[str, Words],
) -> Verdict:
    status = _at(statuses, message.status, "status")
    rule = _at(rules, message.rule, "rule")
    undetermined = _at(statuses, rule_set.undetermined_status, "status").name
    if status.name != (undetermined if message.undetermined else rule.status):
        raise invalid(f"a verdict of rule {as_code(rule.id)} has another status than the rule")
    own = None if message.undetermined else rule.words
    words = (own or said[status.name]) if status.name in said else None
    return Verdict(status, rule.id, message.undetermined, message.withhold_text, words)


def _unread(
    message: pb.RuleSet, rules: Sequence[Rule], facts: Sequence[Fact], sizes: Sequence[int]
) -> dict[str, tuple[tuple[str, Callable[[Points], bool]], ...]]:
    nodes = nodes_of(message.unread_diagram, (False, True), sizes)
    found: dict[str, list[tuple[str, Callable[[Points], bool]]]] = {rule.id: [] for rule in rules}
    last = (-1, -1)
    for start in message.unread_starts:
        if (start.rule, start.fact) <= last:
            raise invalid("the unread facts of the rules are not in order")
        last = (start.rule, start.fact)
        fact = _at(facts, start.fact, "fact").name
        found[_at(rules, start.rule, "rule").id].append((fact, walk(_at(nodes, start.start, "node"))))
    return {rule: tuple(each) for rule, each in found.items()}


def _counts(message: pb.Counts) -> Counts:
    numbers = (message.combinations, message.regions, message.confirmed_regions)
    if any(not (each.isascii() and each.isdigit() and len(each) <= MAX_DIGITS) for each in numbers):
        raise invalid("a count is not a decimal number")
    combinations, regions, confirmed = map(int, numbers)
    return Counts(combinations, regions, message.witnesses, confirmed, message.tests, message.laws)


def _at(items: Sequence[Item], number: int, what: str) -> Item:
    if number >= len(items):
        raise invalid(f"{what} {number} does not exist")
    return items[number]


@dataclass(frozen=True, slots=True)
class CheckedPolicy:
    """A policy that was checked: its bundle, all findings in order, and what confirmed its diagrams.

    The bundle is empty if the policy is refused. The findings of one that is accepted are warnings.
    """

    bundle: bytes
    findings: tuple[Finding, ...] = ()
    engine: str = ""
    tests: tuple[str, ...] = ()
    """The tests that it passed: each as `question: name`."""

    def pack(self) -> bytes:
        """Return it as bytes for another process of this program."""
        return pickle.dumps(self)


def unpack(data: bytes) -> CheckedPolicy:
    """Return what another process of this program has packed."""
    checked = pickle.loads(data)
    assert isinstance(checked, CheckedPolicy)
    return checked


_REVISION_DIGITS = 64


@dataclass(frozen=True, slots=True)
class LocalPolicy:
    """A policy that decides in this process. It is never changed, and threads may share it.

    `digest` is the SHA-256 of the payload in hexadecimal. `key_ids` are the ids in the signatures, valid or not where
    no keys were given. `size` is in bytes.
    """

    revision: str
    semantics: int
    sequence: int
    digest: str
    key_ids: tuple[str, ...]
    size: int
    actions: tuple[Action, ...]
    rule_sets: Mapping[str, RuleSet]

    @property
    def callability(self) -> RuleSet:
        """The rules for why a tool cannot be called."""
        return self.rule_sets["callability"]

    @property
    def load_outcome(self) -> RuleSet:
        """The rules for why the tools of a server did not load."""
        return self.rule_sets["load_outcome"]

    @property
    def enable_outcome(self) -> RuleSet:
        """The rules for how an enable ended."""
        return self.rule_sets["enable_outcome"]


def read(
    data: bytes, *, keys: Mapping[str, bytes] | None = None, accepted_sequence: int = 0, rollback: bool = False
) -> LocalPolicy:
    """Read a bundle, which may come from anybody.

    `keys` are ed25519 public keys of 32 bytes, by key id: one of them must have signed it. Without `keys`, signatures
    are not looked at. `accepted_sequence` is the sequence number of the bundle that was accepted before: a lower one is
    refused, unless `rollback` is asked for.

    Raises:
        BundleRefused: the bundle is damaged, too new, too old, not signed by one of the keys, or contradicts itself.
        MissingCryptography: there are keys, and the extra `bundle` is not installed.
    """
    envelope = open_bundle(data, keys)
    payload = payload_in(envelope, accepted_sequence, rollback=rollback)
    if tuple(each.question for each in payload.rule_sets) != QUESTIONS:
        raise invalid(f"the bundle has not the rule sets {', '.join(QUESTIONS)}")
    return LocalPolicy(
        revision=_revision(payload.revision),
        semantics=payload.semantics,
        sequence=payload.sequence,
        digest=envelope.digest,
        key_ids=envelope.key_ids,
        size=len(data),
        actions=tuple(map(_action, payload.actions)),
        rule_sets={each.question: rule_set_of(each) for each in payload.rule_sets},
    )


def payload_in(envelope: Envelope, accepted_sequence: int = 0, *, rollback: bool = False) -> pb.Payload:
    """Return the payload in an envelope; its content is not checked.

    Raises:
        BundleRefused: it is malformed, has other semantics, or a lower sequence number than `accepted_sequence`.
    """
    try:
        if cost_of_payload(envelope.payload) > max_cost(len(envelope.payload)):
            raise invalid("the payload of the bundle has too many parts for its size")
        payload = pb.Payload.FromString(envelope.payload)
    except (Malformed, DecodeError):
        raise invalid("the payload of the bundle cannot be read") from None
    _check_version(payload, accepted_sequence, rollback=rollback)
    return payload


def _check_version(payload: pb.Payload, accepted_sequence: int, *, rollback: bool) -> None:
    if payload.semantics != SEMANTICS:
        newer = "update this program" if payload.semantics > SEMANTICS else "build it again"
        sentence = f"the bundle has semantics {payload.semantics}, and this program decides by {SEMANTICS}: {newer}"
        raise BundleRefused(RefusalCode.UNSUPPORTED_SEMANTICS, sentence)
    if payload.sequence < accepted_sequence and not rollback:
        sentence = f"the bundle has sequence {payload.sequence}, which is older than {accepted_sequence}"
        raise BundleRefused(RefusalCode.OLDER_SEQUENCE, sentence)


def _revision(text: str) -> str:
    if len(text) != _REVISION_DIGITS or not set(text) <= set("0123456789abcdef"):
        raise invalid("the revision is not a SHA-256 in hexadecimal")
    return text


def _action(message: pb.Action) -> Action:
    if not message.name or message.owner not in _OWNERS:
        raise invalid(f"action {as_code(message.name)} contradicts itself")
    return Action(message.name, _OWNERS[message.owner], message.fact or None, message.phrase, message.labels)
