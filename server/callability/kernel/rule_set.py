"""A rule set of a bundle: decides from points or from facts, and explains why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from callability.kernel.diagram import Points
from callability.kernel.explanation import Explanation, explain
from callability.kernel.fact import Fact
from callability.kernel.nearest import opens_by_itself
from callability.kernel.path import Path, remaining_path
from callability.kernel.refusal import invalid
from callability.kernel.verdict import Counts, Law, Rule, Status, Verdict, Words
from callability.vocabulary import UNKNOWN, Retry


@dataclass(frozen=True, slots=True)
class Axis:
    """Facts that vary together. `points` has for their readings the number of the first point that has them."""

    facts: tuple[Fact, ...]
    points: Mapping[tuple[int, ...], int]
    size: int

    def point(self, facts: Mapping[str, str]) -> int:
        """Return the number of the point of some facts, by name.

        Raises:
            KeyError: a fact is missing, or the facts cannot occur together.
        """
        return self.points[tuple([fact.reading(facts[fact.name]) for fact in self.facts])]


@dataclass(frozen=True, slots=True)
class Question:
    """What a rule set answers."""

    name: str
    facts: Mapping[str, Fact]
    statuses: tuple[Status, ...]
    undetermined: str
    open_status: str | None


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A rule set. It is never changed, and threads may share it.

    `decide` returns the verdict at the points of the axes, in the order of `axes`. It does not check them: a point is a
    number that `points_of` returned, or that an `Axis` has. `facts` are those of the axes, as explanations list them.
    `first` is the first node of the diagram, which has so many `inner_nodes`.
    """

    question: Question
    axes: tuple[Axis, ...]
    rules: tuple[Rule, ...]
    laws: tuple[Law, ...]
    status_words: Mapping[str, Words]
    verdicts: tuple[Verdict, ...]
    counts: Counts
    first: Any
    inner_nodes: int
    decide: Callable[[Points], Verdict]
    facts: tuple[str, ...]
    unread_of_rule: Mapping[str, tuple[tuple[str, Callable[[Points], bool]], ...]]

    def points_of(self, facts: Mapping[str, str]) -> tuple[int, ...]:
        """Return the points of some facts by name: of a name or a label, what was read is given.

        Raises:
            KeyError: a fact of an axis is missing, or the facts cannot occur together.
            BundleRefused: the bundle contradicts itself about a name.
        """
        return tuple([axis.point(facts) for axis in self.axes])

    def unread(self, verdict: Verdict, points: Points) -> tuple[str, ...]:
        """Return the unknown facts that keep a verdict undetermined, in the order of the facts; none if it is not."""
        if not verdict.undetermined:
            return ()
        return tuple(fact for fact, is_unread in self.unread_of_rule[verdict.rule] if is_unread(points))

    def retry(self, verdict: Verdict, facts: Mapping[str, str], stays_unknown: Collection[str]) -> Retry:
        """Return whether trying again can help: with an undetermined verdict, only if it can open by itself."""
        if verdict.undetermined and not opens_by_itself(self, self, facts, stays_unknown):
            return Retry.NEVER
        return verdict.status.retry

    def unread_at(self, facts: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unknown facts that keep the verdict for some facts undetermined, in the order of the facts.

        Raises:
            KeyError: a fact of an axis is missing, or the facts cannot occur together.
        """
        points = self.points_of(facts)
        return self.unread(self.decide(points), points)

    def facts_of_axis(self, number: int) -> tuple[str, ...]:
        """Return the names of the facts of an axis."""
        return tuple(fact.name for fact in self.axes[number].facts)

    def points_of_axis(self, number: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Return the points of an axis in order, each with the readings of its facts; of equal ones the first."""
        axis = self.axes[number]
        for readings, point in axis.points.items():
            yield point, tuple(fact.text(reading) for fact, reading in zip(axis.facts, readings, strict=True))

    def reading(self, fact: str, given: str) -> str:
        """Return the reading of a given value of a fact: of a name, what represents its class."""
        found = self.question.facts[fact]
        return found.text(found.reading(given))

    def explain(self, facts: Mapping[str, str]) -> Explanation:
        """Return each rule that is tried for some facts, and the path to callable if there can be one.

        Raises:
            KeyError: a fact of an axis is missing, or the facts cannot occur together.
            BundleRefused: the rules of the bundle contradict its diagram.
        """
        explanation = explain(self, self, self._complete(facts))
        if explanation.trials[-1].rule.id != self.decide(self.points_of(facts)).rule:
            raise invalid("the rules of the bundle contradict its diagram")
        return explanation

    def remaining(self, facts: Mapping[str, str]) -> Path | None:
        """Return what still locks a tool with some facts once the lock that decides is lifted, if that is known."""
        return remaining_path(self, self, self._complete(facts))

    def _complete(self, facts: Mapping[str, str]) -> dict[str, str]:
        return {**dict.fromkeys(self.question.facts, UNKNOWN), **facts}
