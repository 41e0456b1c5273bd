"""The replies to one question, encoded once for each verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from google.protobuf.message import Message

from callability.policy.loading import Policy
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import VerdictWords, verdict_words
from callability.service.observability.gaps import Gaps, gaps_of
from callability.service.observability.verdict_counts import Counted


class OutcomeReplies:
    """The replies of one policy; `write` makes one from a verdict and its words."""

    def __init__(
        self, policy: Policy, question: str, write: Callable[[Verdict, VerdictWords | None], Message], gaps: Gaps
    ) -> None:
        proved = policy.rule_sets[question]
        self._question = question
        self._diagram = proved.diagram
        self._gaps = gaps
        self._replies = {
            verdict: write(verdict, verdict_words(proved.rule_set, verdict)).SerializeToString()
            for verdict in proved.diagram.verdicts
        }

    def reply(self, facts: Mapping[str, str]) -> bytes:
        """Return the reply for facts, encoded."""
        verdict = self._diagram.verdict(facts)
        if verdict.undetermined:
            self._gaps.met(dict.fromkeys(gaps_of(self._question, self._diagram.unread(verdict, facts)), 1))
        self._gaps.decided(Counted(self._question, verdict.status, "" if verdict.undetermined else verdict.rule))
        return self._replies[verdict]
