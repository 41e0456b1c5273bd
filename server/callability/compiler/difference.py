"""The difference of two policies: every combination whose answer changes, in a few conditions.

What changes where all facts are known comes first, since that is what an author means by an edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from itertools import accumulate, islice
from operator import or_

from callability.compiler.combination_sets import MAX_NODES, CombinationSet, CombinationSets, Space, space_of_facts
from callability.compiler.diagram import order_of, sizes_of, verdicts_of
from callability.compiler.names import SinglesOutUnknown, TooManyStates
from callability.compiler.nodes import MAX_STEPS, TooManyNodes
from callability.compiler.policy import Policy, ProvedRuleSet
from callability.compiler.proof import Decided, needless_parts
from callability.compiler.question import Axis, join_questions
from callability.compiler.questions import QUESTIONS
from callability.compiler.rule_set import Rule, RuleSet, Templates, Verdict, declared_phrases, verdict_words
from callability.contract.finding import Finding, Witness
from callability.contract.vocabulary import UNKNOWN

Box = Mapping[str, tuple[str, ...]]
"""For each fact of a space the readings that it may have: every combination of them that can occur."""


def boxes(wanted: CombinationSet, allowed: CombinationSet, sets: CombinationSets) -> Iterator[Box]:
    """Yield boxes that together hold all of `wanted`, and nothing that is not `allowed`, of which it is a part.

    Each begins at the simplest combination that is not in one before, and is widened: by whole facts, the last first,
    since conditions are read from the left; then by single values with which something comes in that is left.
    """
    left = wanted
    widening = _Widening(allowed, sets)
    while left:
        box = widening.box(left)
        yield box
        left -= combinations_in(box, sets)


def needed_boxes(found: Sequence[Box], wanted: CombinationSet, sets: CombinationSets) -> tuple[Box, ...]:
    """Return the boxes without which something wanted would be in none, of boxes that hold all of it."""
    if len(found) == 1:
        return (*found,)
    held = [combinations_in(box, sets) & wanted for box in found]
    before = [*accumulate(held, or_, initial=sets.none)]
    after = sets.none
    kept: list[int] = []
    for number in reversed(range(len(found))):
        if held[number] - (before[number] | after):
            kept.append(number)
            after |= held[number]
    return tuple(found[number] for number in reversed(kept))


def combinations_in(box: Box, sets: CombinationSets) -> CombinationSet:
    """Return the combinations that a box holds."""
    return sets.of(sets.nodes.box([_points_of(axis, box, sets) for axis in sets.axes]))


def _points_of(axis: Axis, box: Box, sets: CombinationSets) -> frozenset[int] | None:
    """Return the points of an axis that are in a box; None for all."""
    narrow = [fact for fact in axis.facts if fact in box and len(box[fact]) < len(sets.having(fact))]
    return frozenset.intersection(*(_having(fact, box[fact], sets) for fact in narrow)) if narrow else None


def _having(fact: str, readings: Iterable[str], sets: CombinationSets) -> frozenset[int]:
    """Return the points of the axis of a fact at which it has one of some readings."""
    having = sets.having(fact)
    return frozenset().union(*(having[reading] for reading in readings))


class _Widening:
    """Finds the box around the simplest combination of what is left."""

    def __init__(self, allowed: CombinationSet, sets: CombinationSets) -> None:
        self._allowed = allowed
        self._sets = sets
        self._readings: dict[str, tuple[str, ...]] = {}
        self._within: list[frozenset[int]] = []

    def box(self, left: CombinationSet) -> Box:
        """Return a box around what is left, as wide as it can be."""
        simplest = self._sets.simplest(left)
        named = self._sets.named(simplest)
        facts = self._sets.space.question.facts
        self._readings = {fact: (named[fact],) for fact in self._sets.space.facts}
        self._within = [frozenset((point,)) for point in simplest]
        for fact in reversed(self._sets.space.facts):
            self._widen(fact, facts[fact].readings)
        for fact in self._sets.space.facts:
            if len(self._readings[fact]) < len(facts[fact].readings):
                self._add(fact, facts[fact].readings, left)
        return self._readings

    def _widen(self, fact: str, readings: tuple[str, ...]) -> None:
        """Let a fact have all of some readings if nothing comes in that is not allowed."""
        place = self._sets.place(fact)
        widened = self._fitting(fact, place)
        if widened <= self._along(self._allowed, place, every=True):
            self._readings[fact] = readings
            self._within[place] = widened

    def _add(self, fact: str, readings: tuple[str, ...], left: CombinationSet) -> None:
        """Add each reading with which something comes in that is left, and nothing that is not allowed."""
        place = self._sets.place(fact)
        fitting = self._fitting(fact, place)
        inside = self._along(self._allowed, place, every=True)
        if fitting & inside <= self._within[place]:
            return
        some = self._along(left, place, every=False)
        had, having = self._readings[fact], self._sets.having(fact)
        added = tuple(
            reading
            for reading in readings
            if reading not in had and (gained := fitting & having[reading]) <= inside and gained & some
        )
        self._readings[fact] = (*had, *added)
        self._within[place] |= fitting & _having(fact, added, self._sets)

    def _fitting(self, fact: str, place: int) -> frozenset[int]:
        """Return the points of an axis at which its facts, besides one, have their readings."""
        points = frozenset(range(self._sets.nodes.points[place]))
        for other in self._sets.axes[place].facts:
            if other != fact:
                points &= _having(other, self._readings[other], self._sets)
        return points

    def _along(self, given: CombinationSet, place: int, *, every: bool) -> frozenset[int]:
        return self._sets.along.find(given.node, place, self._within, every=every)


MAX_CONDITIONS = 50
"""Conditions that describe where one rule decides."""
MAX_APART = 20
"""The distance up to which the order of two rules is checked."""

Where = Mapping[str, tuple[str, ...]]
"""The values that some facts have; every other fact may have any value."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Where a rule decides: it is true, and every rule above it is false.

    `where` are conditions that together say so, by themselves, whatever the order of the rules; `whole` unless there
    are too many. In `undetermined` more combinations it is reached and cannot be read.
    """

    rule: Rule
    combinations: int
    undetermined: int
    where: tuple[Where, ...]
    whole: bool
    witness: Witness | None


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two rules of which the order decides: with their places exchanged, so many answers are other ones."""

    upper: Rule
    lower: Rule
    answers: int
    witness: Witness


def effects(rule_set: RuleSet, decided: Decided) -> tuple[Effect, ...]:
    """Return the effect of each rule, in their order."""
    return tuple(_effect(rule, decided) for rule in rule_set.rules)


def overlaps(rule_set: RuleSet, decided: Decided) -> tuple[Overlap, ...]:
    """Return the pairs of rules, not far apart, that cannot be exchanged without an answer changing.

    The last rule is in none: above another it would leave nothing to it.
    """
    rules = rule_set.rules[:-1]
    pairs = ((upper, lower) for lower in range(len(rules)) for upper in range(max(0, lower - MAX_APART), lower))
    found: list[Overlap] = []
    # As far as the sets of one policy may grow.
    with suppress(TooManyNodes):
        for upper, lower in sorted(pairs):
            if overlap := _overlap(rule_set, upper, lower, decided):
                found.append(overlap)
    return tuple(found)


def notes(rule_set: RuleSet, decided: Decided) -> tuple[Finding, ...]:
    """Return what may be as the author wants it, and may be not."""
    found: list[Finding] = []
    with suppress(TooManyNodes):
        found.extend(needless_parts(rule_set.rules, decided))
    return tuple(found)


def _effect(rule: Rule, decided: Decided) -> Effect:
    certain = decided.certain(rule.id)
    where: list[Where] = []
    left = certain
    witness = decided.sets.witness(certain) if certain else None
    with suppress(TooManyNodes):
        for box in islice(boxes(certain, certain, decided.sets), MAX_CONDITIONS):
            where.append(decided.sets.space.question.describe(box))
            left -= combinations_in(box, decided.sets)
    undetermined = decided.where_undetermined(rule.id).size
    return Effect(rule, certain.size, undetermined, tuple(where), not left, witness)


def _overlap(rule_set: RuleSet, upper: int, lower: int, decided: Decided) -> Overlap | None:
    rules = rule_set.rules
    between = rules[upper : lower + 1]
    both = decided.sets.truths(between[-1].when).possible & decided.where_reached(between[0].id)
    if not both:
        return None
    exchanged = (between[-1], *between[1:-1], between[0])
    # Elsewhere both are false, wherever they are.
    either = decided.sets.truths(between[0].when).possible | decided.sets.truths(between[-1].when).possible
    tried = decided.where_tried(between[0].id) & either
    before, after = (_answers(order, tried, decided.sets) for order in (between, exchanged))
    changed = decided.sets.none
    for answer, where in before.items():
        changed |= where - after.get(answer, decided.sets.none)
    if not changed:
        return None
    return Overlap(between[0], between[-1], changed.size, decided.sets.witness(changed & both or changed))


def _answers(order: tuple[Rule, ...], left: CombinationSet, sets: CombinationSets) -> dict[object, CombinationSet]:
    """Return where each answer is given if rules are tried in an order: the status and a rule's own words, None where
    it is undetermined.
    """
    answers: dict[object, CombinationSet] = {}
    for rule in order:
        truths = sets.truths(rule.when)
        determined = (rule.status, rule.because and rule.because.template, rule.action and rule.action.template)
        for answer, where in ((determined, truths.certain), (None, truths.possible - truths.certain)):
            answers[answer] = answers.get(answer, sets.none) | (left & where)
        left -= truths.possible
    answers["left"] = left
    return answers


MAX_LOOKS = 1_500_000
"""Nodes that are looked at to describe what changes: some seconds."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a caller receives: the status and its words, which a rule may change.

    Among the words are the phrases of declared actions that they name, each under the action in braces.
    """

    status: str
    words: Templates | None

    def __hash__(self) -> int:
        return hash((self.status, tuple((self.words or {}).items())))


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """Combinations whose reply changed from one to another; `where` are conditions for them.

    A condition maps facts to the values that they may have; each combination meets at least one condition. `rules`
    are those that decide before and after, and `example` is one combination with all its facts. A change is about
    `unknown` facts if at least one fact is unknown in each of its combinations. A change that is not may hold for
    unknown facts too, where they make no difference to it.
    """

    question: str
    before: Reply
    after: Reply
    combinations: int
    where: tuple[Mapping[str, tuple[str, ...]], ...]
    rules: tuple[tuple[str, ...], tuple[str, ...]]
    example: Mapping[str, str]
    unknown: bool = False

    @property
    def words_only(self) -> bool:
        """Whether only the words change, and not the status."""
        return self.before.status == self.after.status

    @property
    def impact(self) -> Impact:
        """What it means to people."""
        if self.words_only:
            return Impact.OTHER_WORDS
        opened = QUESTIONS[self.question].open_status
        if opened is not None and opened in {self.before.status, self.after.status}:
            return Impact.LOCKED if opened == self.before.status else Impact.UNLOCKED
        return Impact.OTHER_STATUS


class Impact(IntEnum):
    """What a change means to people, the largest impact first."""

    LOCKED = 0
    UNLOCKED = 1
    OTHER_STATUS = 2
    OTHER_WORDS = 3


class NotComparable(Exception):
    """Two policies that cannot be compared. Its text says why, such as what is too large, and the limit."""


def differences(old: Policy, new: Policy) -> tuple[PolicyChange, ...]:
    """Return every change between two policies, in the order in which they matter.

    Raises:
        NotComparable: they are too large to compare.
    """
    found = [change for name in QUESTIONS for change in changes_of(name, old.rule_sets[name], new.rule_sets[name])]
    return by_impact(found)


def by_impact(changes: Iterable[PolicyChange]) -> tuple[PolicyChange, ...]:
    """Return changes in the order in which they matter: those about known facts first, and of these and the others
    those with the largest impact on people, and then those of the most combinations.
    """
    order = tuple(QUESTIONS)
    return tuple(
        sorted(changes, key=lambda each: (each.unknown, each.impact, order.index(each.question), -each.combinations))
    )


def compared_space(old: ProvedRuleSet, new: ProvedRuleSet) -> Space:
    """Return the space of the facts that either of two rule sets reads, with the distinctions of both.

    Raises:
        NotComparable: together they are too large, or declare a fact of different subjects.
    """
    facts = frozenset((*old.diagram.space.facts, *new.diagram.space.facts))
    _check_subjects(old.rule_set, new.rule_set, facts)
    try:
        question = join_questions(old.rule_set.question, new.rule_set.question)
    except TooManyStates as error:
        raise NotComparable(f"the patterns of both policies have more than {error} states together") from None
    except SinglesOutUnknown:
        raise NotComparable("the patterns of both policies distinguish the name `unknown` from every other") from None
    return space_of_facts(question, facts)


def _check_subjects(old: RuleSet, new: RuleSet, facts: Iterable[str]) -> None:
    """Check that callers send each declared fact with the same subject for both."""
    before, after = ({each.name: each.of for each in one.declared_facts} for one in (old, new))
    for fact in sorted(before.keys() & after.keys() & frozenset(facts)):
        if before[fact] != after[fact]:
            words = f"fact `{fact}` is of the {before[fact]} in the old one and of the {after[fact]} in the new one"
            raise NotComparable(f"{words}, so no caller sends it for both")


def changes_of(name: str, old: ProvedRuleSet, new: ProvedRuleSet) -> Iterator[PolicyChange]:
    """Yield every change of the answers to one question.

    Raises:
        NotComparable: they are too large to compare.
    """
    space = compared_space(old, new)
    try:
        sets = CombinationSets(space, order_of(space), looks=MAX_LOOKS)
        before, after = (_Replies(each.rule_set, sets) for each in (old, new))
        known = _known_facts(sets)
        for reply, where in before.sets.items():
            left = where - after.sets.get(reply, sets.none)
            for other, there in after.sets.items():
                if other != reply and (changed := left & there):
                    left -= changed
                    for part, conditions in _parts(changed, known, sets):
                        yield PolicyChange(
                            question=name,
                            before=reply,
                            after=other,
                            combinations=part.size,
                            where=conditions,
                            rules=(before.rules(part), after.rules(part)),
                            example=sets.facts(part),
                            unknown=not part & known,
                        )
    except TooManyNodes:
        limit = f"more than {MAX_NODES:,} nodes, {MAX_STEPS:,} steps or {MAX_LOOKS:,} looks at nodes"
        facts = f"these facts multiply: {sizes_of(space.axes)}"
        raise NotComparable(f"describing what changes would need {limit}; {facts}") from None


def _known_facts(sets: CombinationSets) -> CombinationSet:
    """Return where every fact is known."""
    known = sets.all
    for place in range(len(sets.axes)):
        known &= sets.where_points(place, lambda values: UNKNOWN not in values)
    return known


def _parts(
    changed: CombinationSet, known: CombinationSet, sets: CombinationSets
) -> Iterator[tuple[CombinationSet, tuple[Mapping[str, tuple[str, ...]], ...]]]:
    """Yield what changed with its conditions: first what known facts can describe, then the rest.

    A condition for known facts holds for unknown ones too where these make no difference: it has fewer words so.
    """
    left = changed
    for kind in (known, ~known):
        if wanted := left & kind:
            found = needed_boxes(tuple(boxes(wanted, left, sets)), wanted, sets)
            part = reduce(or_, (combinations_in(box, sets) for box in found))
            left -= part
            yield part, tuple(sets.space.question.describe(box) for box in found)


def _templates_of(texts: Templates, rule_set: RuleSet) -> Templates:
    phrases = declared_phrases(texts, rule_set.question)
    return {**texts, **{f"{{{action}}}": phrase for action, phrase in phrases.items()}}


class _Replies:
    """Where a rule set gives each of its replies, and which rules decide somewhere."""

    def __init__(self, rule_set: RuleSet, sets: CombinationSets) -> None:
        self._rule_set = rule_set
        self._verdicts: list[tuple[Verdict, CombinationSet]] = [*verdicts_of(rule_set, sets)]
        self.sets: dict[Reply, CombinationSet] = {}
        for verdict, where in self._verdicts:
            said = verdict_words(rule_set, verdict)
            reply = Reply(verdict.status, _templates_of(said.texts, rule_set) if said else None)
            self.sets[reply] = self.sets[reply] | where if reply in self.sets else where

    def rules(self, where: CombinationSet) -> tuple[str, ...]:
        """Return the rules that decide somewhere in a set, in their order."""
        deciding = {verdict.rule for verdict, there in self._verdicts if there & where}
        return tuple(rule.id for rule in self._rule_set.rules if rule.id in deciding)
