"""A rule set: the ordered rules and the words that answer one question, and the laws that the rules must keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from callability.finding import Place
from callability.kernel.condition import Condition, facts_read
from callability.policy.questions.fact import DeclaredFact, LabelFact
from callability.policy.questions.question import Question
from callability.policy.rules.law import Law


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
    """The rules in order, the words of each status, and the laws that the rules must keep."""

    question: Question
    rules: tuple[Rule, ...]
    words: Mapping[str, Words]
    laws: tuple[Law, ...] = ()
    fact_places: Mapping[str, Place] = field(default_factory=dict, compare=False)
    """Where the file declares each of its own facts."""

    @property
    def reads(self) -> frozenset[str]:
        """Every fact that some rule or law reads: a law is about each value of its facts, whether a rule reads it or
        not.
        """
        by_rules = chain.from_iterable(rule.reads for rule in self.rules)
        return frozenset(by_rules).union(*(law.reads for law in self.laws))

    @property
    def read_by_rules(self) -> tuple[str, ...]:
        """Every fact that some rule reads, in the order of the facts."""
        read = frozenset(chain.from_iterable(rule.reads for rule in self.rules))
        return tuple(name for name in self.question.facts if name in read)

    @property
    def declared_labels(self) -> tuple[LabelFact, ...]:
        """The labels that the file declares, whether a rule reads them or not, in the order of the facts."""
        return tuple(fact for fact in self.question.facts.values() if isinstance(fact, LabelFact))

    @property
    def declared_facts(self) -> tuple[DeclaredFact, ...]:
        """The facts of its own that the file declares, whether a rule reads them or not, in their order."""
        return tuple(fact for fact in self.question.facts.values() if isinstance(fact, DeclaredFact))

    def rule(self, rule_id: str) -> Rule:
        """Return the rule of an id."""
        return next(rule for rule in self.rules if rule.id == rule_id)
