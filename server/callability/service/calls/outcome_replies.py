"""The replies to one question, encoded once for each verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from google.protobuf.message import Message

from callability.policy.deciding.space import Combination
from callability.policy.loading import Policy
from callability.policy.rules.unread import unread_of
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import VerdictWords, verdict_words
from callability.service.observability.gaps import Gap, Gaps, gaps_of

MAX_KEPT = 1_024
"""Combinations of facts that are kept with the gaps of their undetermined verdicts."""


class Outcomes:
    """The replies of one policy; `write` makes one from a verdict and its words."""

    def __init__(
        self, policy: Policy, question: str, write: Callable[[Verdict, VerdictWords | None], Message], gaps: Gaps
    ) -> None:
        proved = policy.rule_sets[question]
        self._rule_set = proved.rule_set
        self._table = proved.table
        self._gaps = gaps
        self._kept: dict[Combination, dict[Gap, int]] = {}
        self._replies = {
            verdict: write(verdict, verdict_words(proved.rule_set, verdict)).SerializeToString()
            for verdict in proved.table.verdicts
        }

    def reply(self, facts: Mapping[str, str]) -> bytes:
        """Return the reply for facts, encoded."""
        verdict = self._table.verdict(facts)
        if verdict.undetermined:
            self._gaps.met(self._gaps_of(verdict, facts))
        return self._replies[verdict]

    def _gaps_of(self, verdict: Verdict, facts: Mapping[str, str]) -> dict[Gap, int]:
        key = self._table.combination(facts)
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            gaps = gaps_of(self._rule_set.question.name, unread_of(self._rule_set, verdict, facts))
            found = self._kept[key] = dict.fromkeys(gaps, 1)
        return found
