"""Facts that decisions lack, and facts that no rule file declares: counted for each decision, and logged once for each
policy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from callability.kernel.encoded_results import Cause, Counted, EncodedResult, EncodedServerResults, Gap
from callability.log_output import fields
from callability.service.observability.metrics import PolicyMetrics

_logger = logging.getLogger(__name__)


_SAID: Mapping[Cause, str] = {
    Cause.LEFT_OUT: "a caller leaves out `{1}`, which a rule of `{0}` reads, so that the answer is undetermined",
    Cause.NOT_UNDERSTOOD: "a caller sends a value of `{1}` that `{0}` does not declare, so that the answer is"
    " undetermined",
    Cause.UNDECLARED: "a caller sends a fact of a {1} that `{0}` does not declare: it is ignored",
}


class Gaps:
    """The gaps of the decisions by one policy. Values of facts are neither counted nor logged."""

    def __init__(self, revision: str, metrics: PolicyMetrics) -> None:
        self._revision = revision
        self._metrics = metrics
        self._logged: set[Gap] = set()

    def decided(self, kind: Counted) -> None:
        """Count a verdict."""
        self._metrics.verdicts.add(kind)

    def decided_batch(
        self, fresh: Sequence[Sequence[EncodedResult]], again: Sequence[EncodedServerResults], tools: int
    ) -> None:
        """Count the results of a batch about so many tools: decided now, or kept."""
        self._metrics.batch(fresh, again, tools)

    def met(self, found: Mapping[Gap, int]) -> None:
        """Count how many decisions had each gap, and log each that this policy had not had before."""
        for gap, decisions in found.items():
            if gap.cause is Cause.UNDECLARED:
                self._metrics.undeclared(gap.fact, decisions)
            else:
                self._metrics.undetermined(*gap, decisions)
            if gap not in self._logged:
                self._logged.add(gap)
                said = _SAID[gap.cause].format(*gap)
                about = fields(fact=gap.fact, cause=gap.cause.value, revision=self._revision)
                _logger.warning("%s (policy %s)", said, self._revision, extra=about)
