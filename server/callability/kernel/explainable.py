"""What an explanation needs to know of a rule set, wherever it comes from: a rule file or a compiled policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from callability.kernel.condition import Condition
from callability.vocabulary import LiftedBy


class Fact(Protocol):
    """An input with a finite list of values."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def values(self) -> tuple[str, ...]:
        """Its values, in their order."""

    @property
    def open_value(self) -> str:
        """Its default."""

    @property
    def opened_by(self) -> LiftedBy | None:
        """Who can change it; None: nobody can."""

    @property
    def action(self) -> str:
        """The name of the action by which it is changed; empty if there is none."""

    @property
    def opened_by_any_value(self) -> bool:
        """Whether a path changes it to each value that helps, and not to its default alone."""

    def shown(self, given: str) -> str:
        """Return a given value as a sentence shows it."""


class Rule(Protocol):
    """A condition and the status that it gives."""

    @property
    def id(self) -> str:
        """Its name in its rule set."""

    @property
    def when(self) -> Condition | None:
        """Its condition; without one it always holds."""

    @property
    def status(self) -> str:
        """Its status."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that its condition reads, in the order of the text."""


class Question(Protocol):
    """What a rule set answers."""

    @property
    def facts(self) -> Mapping[str, Fact]:
        """Every fact by name, in order."""

    @property
    def open_status(self) -> str | None:
        """The status to which every other can be opened, if there is one."""

    @property
    def undetermined(self) -> str:
        """The status of an undetermined verdict."""


class RuleSet(Protocol):
    """The rules that answer a question, in order."""

    @property
    def question(self) -> Question:
        """The question."""

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules; the last has no condition."""


class Diagram(Protocol):
    """A decision diagram."""

    @property
    def first(self) -> Any:
        """Its first node: a pair of the number of an axis, and for each of its points a node or a verdict.

        The axes of the nodes below have higher numbers. It is a verdict if all verdicts are the same.
        """

    def facts_of_axis(self, number: int) -> Sequence[str]:
        """Return the names of the facts of an axis."""

    def points_of_axis(self, number: int) -> Iterable[tuple[int, tuple[str, ...]]]:
        """Return the points of an axis in order, each with the readings of its facts."""

    def reading(self, fact: str, given: str) -> str:
        """Return the reading of a given value of a fact: of a name, what represents its class."""

    def unread_at(self, facts: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unknown facts that keep the verdict for some facts undetermined, in the order of the facts."""
