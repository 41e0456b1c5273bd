"""The difference of two policies: every combination whose answer changes, in a few conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from callability.policy.deciding.building import order_of, verdicts_of
from callability.policy.deciding.combination_set import CombinationSet, CombinationSets
from callability.policy.deciding.nodes import TooManyNodes
from callability.policy.deciding.space import Space, space_of_facts
from callability.policy.loading import Policy, ProvedRuleSet
from callability.policy.names.automaton import TooManyStates
from callability.policy.names.classes import SinglesOutUnknown
from callability.policy.questions.question import joined
from callability.policy.questions.questions import QUESTIONS
from callability.policy.reporting.box import boxes, needed
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import Templates, verdict_words


@dataclass(frozen=True, slots=True)
class Reply:
    """What a caller receives: the status and its words, which a rule may change."""

    status: str
    words: Templates | None

    def __hash__(self) -> int:
        return hash((self.status, tuple((self.words or {}).items())))


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """Combinations whose reply changed from one to another; `where` are conditions for them.

    A condition maps facts to the values that they may have; each combination meets at least one condition. `rules`
    are those that decide before and after, and `example` is one combination with all its facts.
    """

    question: str
    before: Reply
    after: Reply
    combinations: int
    where: tuple[Mapping[str, tuple[str, ...]], ...]
    rules: tuple[tuple[str, ...], tuple[str, ...]]
    example: Mapping[str, str]

    @property
    def words_only(self) -> bool:
        """Whether only the words change, and not the status."""
        return self.before.status == self.after.status


class TooMuch(Exception):
    """Two policies that are too large to compare. Its text says what is too large, and the limit."""


def differences(old: Policy, new: Policy) -> tuple[PolicyChange, ...]:
    """Return every change between two policies, those of a status before those of words, the largest first.

    Raises:
        TooMuch: they are too large to compare.
    """
    found = [change for name in QUESTIONS for change in changes_of(name, old.rule_sets[name], new.rule_sets[name])]
    order = tuple(QUESTIONS)
    return tuple(sorted(found, key=lambda each: (order.index(each.question), each.words_only, -each.combinations)))


def compared_space(old: ProvedRuleSet, new: ProvedRuleSet) -> Space:
    """Return the space of the facts that either of two rule sets reads, with the distinctions of both.

    Raises:
        TooMuch: together they are too large.
    """
    facts = frozenset((*old.diagram.space.facts, *new.diagram.space.facts))
    try:
        question = joined(old.rule_set.question, new.rule_set.question)
    except TooManyStates as error:
        raise TooMuch(f"the patterns of both policies have more than {error} states together") from None
    except SinglesOutUnknown:
        raise TooMuch("the patterns of both policies distinguish the name `unknown` from every other") from None
    return space_of_facts(question, facts)


def changes_of(name: str, old: ProvedRuleSet, new: ProvedRuleSet) -> Iterator[PolicyChange]:
    """Yield every change of the answers to one question.

    Raises:
        TooMuch: they are too large to compare.
    """
    space = compared_space(old, new)
    try:
        sets = CombinationSets(space, order_of(space))
        before, after = (_Replies(each.rule_set, sets) for each in (old, new))
        for reply, where in before.sets.items():
            left = where - after.sets.get(reply, sets.none)
            for other, there in after.sets.items():
                if other != reply and (changed := left & there):
                    left -= changed
                    found = tuple(boxes(changed, changed, sets))
                    yield PolicyChange(
                        question=name,
                        before=reply,
                        after=other,
                        combinations=changed.size,
                        where=tuple(space.question.describe(box) for box in needed(found, changed, sets)),
                        rules=(before.rules(changed), after.rules(changed)),
                        example=sets.facts(changed),
                    )
    except TooManyNodes:
        raise TooMuch("the decision diagrams of both policies need too many nodes together") from None


class _Replies:
    """Where a rule set gives each of its replies, and which rules decide somewhere."""

    def __init__(self, rule_set: RuleSet, sets: CombinationSets) -> None:
        self._rule_set = rule_set
        self._verdicts: list[tuple[Verdict, CombinationSet]] = [*verdicts_of(rule_set, sets)]
        self.sets: dict[Reply, CombinationSet] = {}
        for verdict, where in self._verdicts:
            said = verdict_words(rule_set, verdict)
            reply = Reply(verdict.status, said.texts if said else None)
            self.sets[reply] = self.sets[reply] | where if reply in self.sets else where

    def rules(self, where: CombinationSet) -> tuple[str, ...]:
        """Return the rules that decide somewhere in a set, in their order."""
        deciding = {verdict.rule for verdict, there in self._verdicts if there & where}
        return tuple(rule.id for rule in self._rule_set.rules if rule.id in deciding)
