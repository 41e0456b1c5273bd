"""The exception for a rule set that could not be decided."""

from __future__ import annotations

from callability.finding import Finding


class NotDecided(Exception):
    """A rule set could not be decided. It carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding
