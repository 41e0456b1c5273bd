"""The difference of two policies: every combination whose answer changes, in a few conditions.

What changes where all facts are known comes first, since that is what an author means by an edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from operator import or_

from callability.policy.deciding.building import order_of, sizes_of, verdicts_of
from callability.policy.deciding.combination_set import MAX_NODES, CombinationSet, CombinationSets
from callability.policy.deciding.nodes import MAX_STEPS, TooManyNodes
from callability.policy.deciding.space import Space, space_of_facts
from callability.policy.loading import Policy, ProvedRuleSet
from callability.policy.names.automaton import TooManyStates
from callability.policy.names.classes import SinglesOutUnknown
from callability.policy.questions.question import joined
from callability.policy.questions.questions import QUESTIONS
from callability.policy.reporting.box import boxes, combinations_in, needed
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import Templates, declared_phrases, verdict_words
from callability.vocabulary import UNKNOWN

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
        question = joined(old.rule_set.question, new.rule_set.question)
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
        known = _known(sets)
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


def _known(sets: CombinationSets) -> CombinationSet:
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
            found = needed(tuple(boxes(wanted, left, sets)), wanted, sets)
            part = reduce(or_, (combinations_in(box, sets) for box in found))
            left -= part
            yield part, tuple(sets.space.question.describe(box) for box in found)


def _said(texts: Templates, rule_set: RuleSet) -> Templates:
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
            reply = Reply(verdict.status, _said(said.texts, rule_set) if said else None)
            self.sets[reply] = self.sets[reply] | where if reply in self.sets else where

    def rules(self, where: CombinationSet) -> tuple[str, ...]:
        """Return the rules that decide somewhere in a set, in their order."""
        deciding = {verdict.rule for verdict, there in self._verdicts if there & where}
        return tuple(rule.id for rule in self._rule_set.rules if rule.id in deciding)
