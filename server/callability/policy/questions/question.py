"""A question that a rule set answers: its facts, statuses, texts and actions, which no rule can change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from callability.policy.questions.fact import Axis, DeclaredFact, Fact, axis_of
from callability.vocabulary import Action, LiftedBy, Status


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

    `wordless` are the statuses about which nothing has to be said, and `texts` the texts that the words of any other
    have, with their placeholders. With an `open_status` there is a path from any other status to it. `labels` are what
    a file may declare labels of, with the beginning of the names of their facts. `declares` is what it may declare
    facts of its own of. `owners_by_rule` are, for a status, those whose actions a rule's own words may name besides
    its `lifted_by`: a rule that decides may know more than its status says. `withholds` says for a combination of
    facts whether text from the upstream must be kept back (spec A.3), where the question is about such text.
    `operator_acts`: whatever the operator can do about a status is one of the actions, so that words for such a
    status that name none help nobody.
    """

    name: str
    facts: Mapping[str, Fact]
    axes: tuple[Axis, ...]
    statuses: tuple[Status, ...]
    undetermined: Status
    wordless: frozenset[str]
    texts: Mapping[str, tuple[Placeholder, ...]]
    actions: tuple[Action, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    declares: tuple[str, ...] = ()
    owners_by_rule: Mapping[str, frozenset[LiftedBy]] = field(default_factory=dict)
    open_status: str | None = None
    withholds: Callable[[Mapping[str, str]], bool] | None = None
    operator_acts: bool = True

    @property
    def open_facts(self) -> dict[str, str]:
        """Every fact at its default."""
        return {fact.name: fact.open_value for fact in self.facts.values()}

    def completed(self, written: Mapping[str, str]) -> dict[str, str]:
        """Return every fact, for those that somebody wrote: these as their axes normalize them, the others open."""
        facts = {**self.open_facts, **written}
        for axis in self.axes:
            mine = {name: written[name] for name in axis.facts if name in written} if axis.normalized else None
            if axis.normalized and mine:
                facts |= axis.normalized(mine)
        return facts

    def contradicted(self, facts: Mapping[str, str]) -> Axis | None:
        """Return the first axis whose facts cannot be together what they are; None: the facts can occur together."""
        together = (axis for axis in self.axes if len(axis.facts) > 1)
        return next((axis for axis in together if not axis.has(facts)), None)

    @property
    def shared_placeholders(self) -> tuple[Placeholder, ...]:
        """The placeholders of every text: those that the words of a rule, which join each of them, may hold."""
        first, *others = self.texts.values()
        return tuple(each for each in first if all(each in other for other in others))

    def having(self, facts: Iterable[Fact]) -> Question:
        """Return the question with independent facts added, and the actions that they declare; they replace facts of
        the same names.
        """
        having = facts_by_name(facts)
        axes = (axis for axis in self.axes if not having.keys() & axis.facts)
        declared = (fact.declared_action for fact in having.values() if isinstance(fact, DeclaredFact))
        actions = {action.name: action for action in (*self.actions, *filter(None, declared))}
        return replace(
            self,
            facts={**self.facts, **having},
            axes=(*axes, *map(axis_of, having.values())),
            actions=tuple(actions.values()),
        )

    def action(self, name: str) -> Action | None:
        """Return an action by its name; None if the question has no such action."""
        return next((action for action in self.actions if action.name == name), None)

    def describe(self, box: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
        """Describe the readings of facts for people; a fact that may have any reading is left out."""
        return {
            name: self.facts[name].describe(readings)
            for name, readings in box.items()
            if len(readings) < len(self.facts[name].readings)
        }

    def status(self, name: str) -> Status:
        """Return a status by its name."""
        return next(status for status in self.statuses if status == name)


def joined(one: Question, other: Question) -> Question:
    """Return the question of two rule files, with the distinctions of both.

    Raises:
        TooManyStates: the patterns of both are too many together.
        SinglesOutUnknown: they distinguish the name `unknown` from every other.
    """
    return one.having(
        one.facts[name].joined(fact) if name in one.facts else fact
        for name, fact in other.facts.items()
        if fact != one.facts.get(name)
    )


def facts_by_name(facts: Iterable[Fact]) -> dict[str, Fact]:
    """Return facts by name, in their order."""
    return {fact.name: fact for fact in facts}
