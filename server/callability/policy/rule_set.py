"""A rule set: the ordered rules and the words that answer one question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callability.finding import Place
from callability.policy.condition import Condition, facts_read
from callability.policy.question import Question


@dataclass(frozen=True, slots=True)
class Text:
    """A template of the author's, and where it stands."""

    template: str
    place: Place


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition and the status that it gives; without a condition it always holds."""

    id: str
    when: Condition | None
    status: str
    place: Place
    because: Text | None = None
    action: Text | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that its condition reads, in the order of the text."""
        return facts_read(self.when) if self.when else ()


Words = Mapping[str, Text]
"""What to say about a status: each of the question's texts, by name."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules in order, and the words of each status."""

    question: Question
    rules: tuple[Rule, ...]
    words: Mapping[str, Words]

    @property
    def reads(self) -> frozenset[str]:
        """Every fact that some rule reads."""
        return frozenset(fact for rule in self.rules for fact in rule.reads)
