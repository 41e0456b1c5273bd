"""The semantics of a rule set. This is the specification; the engine and the table are tested against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from callability.kernel.condition import Facts
from callability.kernel.explainable import Rule

SEMANTICS = 2
"""The version of what facts and rules mean. It grows when a release gives other answers under the same rule files.

2: a tool that is known to be read-only is not destructive and is idempotent, whatever its other annotations say. In 1,
which was never published as a number, each annotation counted by itself.
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """Which rule was reached, counted from 0, and whether it was undetermined."""

    rule: int
    undetermined: bool


def decide(rules: Sequence[Rule], facts: Facts) -> Decision:
    """Return the decision of the first rule that is not false: true, it gives its status; undetermined, it gives the
    undetermined status of the question.

    Raises:
        LookupError: every rule is false, which a rule set whose last rule has no condition cannot be.
    """
    for number, rule in enumerate(rules):
        truth = rule.when.truth(facts) if rule.when else True
        if truth is not False:
            return Decision(number, undetermined=truth is None)
    raise LookupError("no rule decides")
