"""A question that a rule set answers: what is fixed about it, whatever the rules say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from callability.policy.fact import Axis, Fact
from callability.vocabulary import Action, Status


@dataclass(frozen=True, slots=True)
class Placeholder:
    """What the caller fills in a text; `statuses` where it has something to fill in for some alone."""

    name: str
    statuses: frozenset[str] | None = None

    def fits(self, status: str) -> bool:
        """Say whether it may stand in the words of a status."""
        return self.statuses is None or status in self.statuses


@dataclass(frozen=True, slots=True)
class Question:
    """Facts, statuses and texts of a question, and the status for what could not be determined.

    `wordless` are the statuses about which nothing has to be said, `texts` the texts that the words of any other have,
    with their placeholders, and `impossible` is a hint for facts that cannot occur together. With an `open_status`
    there is a path from any other status to it. `withholds` says for a combination of facts whether text from the
    upstream must be kept back (spec A.3), where the question is about such text.
    """

    name: str
    facts: Mapping[str, Fact]
    axes: tuple[Axis, ...]
    statuses: tuple[Status, ...]
    undetermined: Status
    wordless: frozenset[str]
    texts: Mapping[str, tuple[Placeholder, ...]]
    actions: tuple[Action, ...]
    impossible: str
    open_status: str | None = None
    withholds: Callable[[Mapping[str, str]], bool] | None = None

    @property
    def open_facts(self) -> dict[str, str]:
        """Every fact at its open value."""
        return {fact.name: fact.open_value for fact in self.facts.values()}

    @property
    def shared_placeholders(self) -> tuple[Placeholder, ...]:
        """The placeholders of every text: those that the words of a rule, which join each of them, may hold."""
        first, *others = self.texts.values()
        return tuple(each for each in first if all(each in other for other in others))

    def status(self, name: str) -> Status:
        """Return a status by its name."""
        return next(status for status in self.statuses if status == name)


def facts_by_name(facts: Collection[Fact]) -> dict[str, Fact]:
    """Return facts by name, in their order."""
    return {fact.name: fact for fact in facts}
