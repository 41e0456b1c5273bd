"""Which facts keep verdicts of one rule set undetermined, computed once for the values that the rule reads."""

from __future__ import annotations

from collections.abc import Mapping

from callability.bounded_cache import BoundedCache
from callability.policy.loading import ProvedRuleSet
from callability.policy.questions.question import Question
from callability.policy.rules.rule_set import Rule
from callability.policy.rules.unread import unread_of
from callability.policy.rules.verdict import Verdict
from callability.vocabulary import UNKNOWN

MAX_KEPT = 4_096
"""Rules, each with values of the facts that matter to it, for which the unread facts are kept."""


class UnreadFacts:
    """The unread facts of undetermined verdicts.

    Other facts do not matter to them, and may have many combinations. Finding what is unread can take as long as
    evaluating every completion of a rule.
    """

    def __init__(self, proved: ProvedRuleSet) -> None:
        self._rule_set = proved.rule_set
        self._table = proved.table
        self._places = {fact: place for place, fact in enumerate(proved.table.space.facts)}
        self._matter = {rule.id: _mattering(proved.rule_set.question, rule) for rule in proved.rule_set.rules}
        self._kept: BoundedCache[tuple[str, tuple[str, ...]], tuple[str, ...]] = BoundedCache(MAX_KEPT)

    def of(self, verdict: Verdict, facts: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unread facts of an undetermined verdict, in the order of the facts."""
        combination, places = self._table.combination(facts), self._places
        key = (
            verdict.rule,
            tuple(
                # Of a name or a label that is read, the combination has the class.
                combination[places[fact]] if fact in places else facts.get(fact, UNKNOWN)
                for fact in self._matter[verdict.rule]
            ),
        )
        unread = self._kept.get(key)
        if unread is None:
            unread = unread_of(self._rule_set, verdict, facts)
            self._kept.keep(key, unread)
        return unread


def _mattering(question: Question, rule: Rule) -> tuple[str, ...]:
    """Return the facts that a rule reads, and those that say something about them."""
    return tuple(fact for axis in question.axes if not set(axis.facts).isdisjoint(rule.reads) for fact in axis.facts)
