"""The replies to one question, encoded once for each verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from google.protobuf.message import Message

from callability.policy.loading import Policy
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import SpokenOf, spoken_of


class Outcomes:
    """The replies of one policy; `write` makes one from a verdict and its words."""

    def __init__(self, policy: Policy, question: str, write: Callable[[Verdict, SpokenOf | None], Message]) -> None:
        proved = policy.rule_sets[question]
        self._table = proved.table
        self._replies = {
            verdict: write(verdict, spoken_of(proved.rule_set, verdict)).SerializeToString()
            for verdict in proved.table.verdicts
        }

    def reply(self, facts: Mapping[str, str]) -> bytes:
        """Return the reply for facts, encoded."""
        return self._replies[self._table.verdict(facts)]
