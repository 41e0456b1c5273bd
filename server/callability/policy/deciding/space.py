"""The combinations of facts that the rules of a rule set can distinguish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, product
from math import prod

from callability.finding import Witness
from callability.policy.questions.fact import Axis
from callability.policy.questions.question import Question
from callability.policy.rules.rule_set import RuleSet

Combination = tuple[str, ...]
"""A value for each fact of a space, in its order."""


@dataclass(frozen=True, slots=True)
class Space:
    """Every combination of the states of some axes."""

    question: Question
    axes: tuple[Axis, ...]

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that vary, in the order of the question."""
        return tuple(chain.from_iterable(axis.facts for axis in self.axes))

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return prod(len(axis.points) for axis in self.axes)

    def combinations(self) -> Iterator[Combination]:
        """Yield every combination, always in the same order."""
        for points in product(*(axis.points for axis in self.axes)):
            yield tuple(chain.from_iterable(point.values for point in points))

    def named(self, combination: Combination) -> dict[str, str]:
        """Return every fact of the question: those that vary as the combination says, others as they fit."""
        return self.question.completed(dict(zip(self.facts, combination, strict=True)))

    def witness(self, facts: Mapping[str, str]) -> Witness:
        """Return the facts of one combination that are not at their default."""
        question = self.question.facts
        return tuple((fact, facts[fact]) for fact in self.facts if facts[fact] != question[fact].open_value)


def space_of(rule_set: RuleSet) -> Space:
    """Return the space of the facts that a rule or law reads, and of those that are always included."""
    return space_of_facts(rule_set.question, rule_set.reads)


def space_of_facts(question: Question, read: frozenset[str]) -> Space:
    """Return the space of some facts of a question, and of those that are always included."""
    axes = (axis for axis in question.axes if axis.always or not read.isdisjoint(axis.facts))
    return Space(question, tuple(axis.projected(read) for axis in axes))
