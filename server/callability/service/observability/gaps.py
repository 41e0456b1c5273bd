"""Facts that decisions lack, and facts that no rule file declares: counted for each decision, and logged once for each
policy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from callability.log_output import fields
from callability.service.observability.metrics import PolicyMetrics
from callability.service.observability.verdict_counts import Counted, Result, Results

_logger = logging.getLogger(__name__)


class Cause(StrEnum):
    """Why a fact is unknown, or that it is not declared and so ignored."""

    LEFT_OUT = "left_out"
    NOT_UNDERSTOOD = "not_understood"
    UNDECLARED = "undeclared"


_SAID: Mapping[Cause, str] = {
    Cause.LEFT_OUT: "a caller leaves out `{1}`, which a rule of `{0}` reads, so that the answer is undetermined",
    Cause.NOT_UNDERSTOOD: "a caller sends a value of `{1}` that `{0}` does not declare, so that the answer is"
    " undetermined",
    Cause.UNDECLARED: "a caller sends a fact of a {1} that `{0}` does not declare: it is ignored",
}


class Gap(NamedTuple):
    """A fact that keeps a decision undetermined, of which question, and why it is unknown.

    A declared fact that the rule file does not declare keeps no decision undetermined. It is counted too, not by its
    name, which any caller may invent, but by what it is a fact of: `server`, `tool` or `agent`.
    """

    question: str
    fact: str
    cause: Cause


def gaps_of(question: str, unread: Iterable[str], not_understood: frozenset[str] = frozenset()) -> tuple[Gap, ...]:
    """Return the gaps of a decision with some unread facts, some of which were sent and not understood."""
    return tuple(
        Gap(question, fact, Cause.NOT_UNDERSTOOD if fact in not_understood else Cause.LEFT_OUT) for fact in unread
    )


def undeclared(subject: str, times: int) -> tuple[Gap, ...]:
    """Return the gaps of facts of a server, a tool or an agent that the rule file does not declare."""
    return (Gap("callability", subject, Cause.UNDECLARED),) * times


class Gaps:
    """The gaps of the decisions by one policy. Values of facts are neither counted nor logged."""

    def __init__(self, revision: str, metrics: PolicyMetrics | None) -> None:
        self._revision = revision
        self._metrics = metrics
        self._verdicts = metrics.verdicts if metrics is not None else None
        self._logged: set[Gap] = set()

    def decided(self, kind: Counted) -> None:
        """Count a verdict."""
        if self._verdicts is not None:
            self._verdicts.add(kind)

    def decided_batch(self, fresh: Sequence[Sequence[Result]], again: Sequence[Results], tools: int) -> None:
        """Count the results of a batch about so many tools: decided now, or kept."""
        if self._metrics is not None:
            self._metrics.batch(fresh, again, tools)

    def met(self, found: Mapping[Gap, int]) -> None:
        """Count how many decisions had each gap, and log each that this policy had not had before."""
        for gap, decisions in found.items():
            if self._metrics is not None and gap.cause is Cause.UNDECLARED:
                self._metrics.undeclared(gap.fact, decisions)
            elif self._metrics is not None:
                self._metrics.undetermined(*gap, decisions)
            if gap not in self._logged:
                self._logged.add(gap)
                said = _SAID[gap.cause].format(*gap)
                about = fields(fact=gap.fact, cause=gap.cause.value, revision=self._revision)
                _logger.warning("%s (policy %s)", said, self._revision, extra=about)
