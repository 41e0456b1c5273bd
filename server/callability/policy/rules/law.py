"""Laws: statements about a rule set that must hold in every combination of facts."""

from __future__ import annotations

from dataclasses import dataclass

from callability.finding import Place
from callability.kernel.condition import Condition, facts_read


@dataclass(frozen=True, slots=True)
class Law:
    """A name that is a sentence, a condition, and the statuses that must be the only ones there, or must not be.

    `always`: wherever the condition is certainly true, the status is one of these. Otherwise, *never*: wherever it is
    true or undetermined, the status is none of them. So a law holds an unknown fact to be whatever it may be, where
    that is the careful reading. Without a condition a law is about every combination of facts.
    """

    name: str
    when: Condition | None
    statuses: tuple[str, ...]
    place: Place
    always: bool

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that its condition reads, in the order of the text."""
        return facts_read(self.when) if self.when else ()
