"""The answer of a rule set to one combination of facts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """A status and the rule that gave it, or, undetermined, that was reached; and whether upstream text is withheld,
    where the question is about such text.
    """

    status: str
    rule: str
    undetermined: bool
    withhold_text: bool | None
