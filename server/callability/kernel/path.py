"""The path to callable: what has to change, in order, and who can change it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from callability.kernel.explainable import Diagram, Fact, Rule, RuleSet
from callability.kernel.falsifying import Falsification, Values, falsifications
from callability.kernel.nearest import TooManyLooks, fewest_changes, opens_by_findings
from callability.kernel.semantics import Decision, decide
from callability.vocabulary import UNKNOWN

MAX_LISTED = 5
"""Values of a fact that a sentence names; the rest is counted."""


class PathEnd(StrEnum):
    """What a path leads to."""

    CALLABLE = "callable"
    POLICY_CHANGE = "policy_change"
    FIND_OUT = "find_out"


@dataclass(frozen=True, slots=True)
class FactChange:
    """A fact to change, from its value to any of those that would do, in their order.

    A label may have several, and so may an asserted fact.
    """

    fact: Fact
    value: str
    wanted_values: tuple[str, ...]

    @property
    def wanted(self) -> str:
        """The first value that would do."""
        return self.wanted_values[0]


@dataclass(frozen=True, slots=True)
class Step:
    """The changes that keep one rule from deciding."""

    rule: Rule
    changes: tuple[FactChange, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """The steps in order, what they lead to, and the facts to find out first."""

    steps: tuple[Step, ...]
    end: PathEnd
    find_out: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[FactChange, ...]:
        """All changes, in order."""
        return tuple(chain.from_iterable(step.changes for step in self.steps))


def path_to_callable(rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str]) -> Path | None:
    """Change, for the rule that decides, the smallest set of facts that makes it false, until the status is open.

    If that gets stuck, or at unknown facts of which no values help, the diagram says which changes open the status, or
    that none do: only then is it the policy.
    None where the question has no status that everything else could be opened to, or the diagram is too large to say.
    """
    if rule_set.question.open_status is None:
        return None
    search = _Search(rule_set, diagram, facts)
    path = search.path()
    while path is None:
        path = search.path()
    if path.end is not PathEnd.CALLABLE and not _leads_on(path, rule_set, diagram, facts):
        path = _by_fewest_changes(rule_set, diagram, facts)
    return _with_every_value(path, rule_set, facts) if path else None


def remaining_path(rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str]) -> Path | None:
    """Return what still locks a tool once the lock that decides is lifted: the path to callable without its first step.

    None: nothing does, nobody can lift the lock that decides, or it is not known.
    """
    path = path_to_callable(rule_set, diagram, facts)
    if path is None or (not path.steps and not _Search(rule_set, diagram, facts).is_lifted_by_somebody()):
        return None
    rest = replace(path, steps=path.steps[1:])
    return rest if rest.steps or rest.end is not PathEnd.CALLABLE else None


class _Search:
    """Looks for a path. A fact that any value may open is changed once: if that value does not do for a later rule, the
    search begins again without it, so that it ends.
    """

    def __init__(self, rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str]) -> None:
        self._rule_set = rule_set
        self._diagram = diagram
        self._facts = facts
        self._left: dict[str, frozenset[str]] = {}

    def path(self) -> Path | None:
        """Return the path, or None after a value of such a fact was ruled out."""
        question = self._rule_set.question
        now = dict(self._facts)
        steps: list[Step] = []
        while True:
            decision = decide(self._rule_set.rules, now)
            rule = self._rule_set.rules[decision.rule]
            if decision.undetermined:
                return Path(tuple(steps), PathEnd.FIND_OUT, self._diagram.unread_at(now))
            if rule.status == question.open_status:
                return Path(tuple(steps), PathEnd.CALLABLE)
            out = self._easiest_falsification(rule, now, self._values(rule, now))
            if out is None:
                unknown = self._in_the_way(rule, now)
                return Path(tuple(steps), PathEnd.FIND_OUT if unknown else PathEnd.POLICY_CHANGE, unknown)
            again = [fact for fact in out if now[fact] not in out[fact] and now[fact] != self._facts[fact]]
            if again:
                self._left |= {fact: out[fact] - {self._facts[fact]} for fact in again}
                return None
            changes = tuple(_changes(out, self._rule_set, now))
            steps.append(Step(rule, changes))
            now |= {change.fact.name: change.wanted for change in changes}

    def is_lifted_by_somebody(self) -> bool:
        """Return whether changes that somebody can make keep the rule that decides from doing so."""
        rule = self._rule_set.rules[decide(self._rule_set.rules, self._facts).rule]
        return self._easiest_falsification(rule, self._facts, self._values(rule, self._facts)) is not None

    def _easiest_falsification(self, rule: Rule, now: Mapping[str, str], values: Values) -> Falsification | None:
        """Return what makes a rule false with the fewest changes, those of the first facts first."""
        order = {fact: number for number, fact in enumerate(self._rule_set.question.facts)}

        def effort(out: Falsification) -> tuple[int, list[int]]:
            changed = sorted(
                order[fact] for fact in out if now[fact] not in out[fact] and now[fact] == self._facts[fact]
            )
            return len(changed), changed

        return next(iter(falsifications(rule.when, values, effort)), None) if rule.when else None

    def _values(self, rule: Rule, now: Mapping[str, str]) -> dict[str, frozenset[str]]:
        """Return the values that each fact of a rule can have: its own, and those that somebody can give it."""
        facts = (self._rule_set.question.facts[name] for name in rule.reads)
        return {fact.name: self._values_of(fact, now[fact.name]) for fact in facts}

    def _values_of(self, fact: Fact, value: str) -> frozenset[str]:
        if value == UNKNOWN:
            return frozenset()
        if fact.opened_by is None:
            return frozenset((value,))
        if fact.opened_by_any_value:
            unchanged = frozenset((value,)) if value == self._facts[fact.name] else frozenset()
            return unchanged | self._left.get(fact.name, frozenset(fact.values) - {self._facts[fact.name]})
        return frozenset((value, fact.open_value))

    def _in_the_way(self, rule: Rule, now: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unknown facts whose values, known and changed, would make a rule false."""
        values = self._values(rule, now)
        for fact in map(self._rule_set.question.facts.__getitem__, rule.reads):
            if now[fact.name] == UNKNOWN and fact.opened_by:
                values[fact.name] = frozenset(fact.values if fact.opened_by_any_value else (fact.open_value,))
        out = self._easiest_falsification(rule, now, values) or {}
        return tuple(fact for fact in self._rule_set.question.facts if fact in out and now[fact] == UNKNOWN)


def _leads_on(path: Path, rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str]) -> bool:
    """Return whether a path ends at facts to find out, and some values of them help."""
    after = {**facts, **{change.fact.name: change.wanted for change in path.changes}}
    return path.end is PathEnd.FIND_OUT and opens_by_findings(rule_set, diagram, after)


def _changes(out: Falsification, rule_set: RuleSet, now: Mapping[str, str]) -> Iterator[FactChange]:
    for fact in rule_set.question.facts.values():
        if fact.name in out and now[fact.name] not in out[fact.name]:
            yield FactChange(fact, now[fact.name], tuple(value for value in fact.values if value in out[fact.name]))


def _by_fewest_changes(rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str]) -> Path | None:
    """Return the path of the fewest changes that open the status, what to find out for it, or that there is none."""
    try:
        wanted = fewest_changes(rule_set, diagram, facts)
        if wanted is not None:
            steps = _steps(rule_set, facts, wanted)
            return Path(steps, PathEnd.CALLABLE) if steps else None
        if UNKNOWN in facts.values():
            wanted = fewest_changes(rule_set, diagram, facts, reading=True)
    except TooManyLooks:
        return None
    unknown = tuple(fact for fact in rule_set.question.facts if wanted and fact in wanted and facts[fact] == UNKNOWN)
    return Path((), PathEnd.FIND_OUT if unknown else PathEnd.POLICY_CHANGE, unknown)


def _steps(rule_set: RuleSet, facts: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[Step, ...]:
    """Return changes as steps, one for each rule in the way; none if they do not open the status."""
    now = dict(facts)
    left = [fact for fact in rule_set.question.facts if fact in wanted]
    steps: list[Step] = []
    while left:
        number = decide(rule_set.rules, now).rule
        needed = _needed(rule_set, number, now, {fact: wanted[fact] for fact in left})
        if not needed:
            return ()
        changes = (FactChange(rule_set.question.facts[fact], now[fact], (wanted[fact],)) for fact in needed)
        steps.append(Step(rule_set.rules[number], tuple(changes)))
        now |= {fact: wanted[fact] for fact in needed}
        left = [fact for fact in left if fact not in needed]
    return tuple(steps)


def _needed(rule_set: RuleSet, number: int, now: Mapping[str, str], left: Mapping[str, str]) -> list[str]:
    """Return those of the changes that are left that take the decision past a rule, in order, and none to spare."""
    read = rule_set.rules[number].reads
    needed = [fact for fact in left if fact in read]
    if not _moves_on(rule_set, number, now, left, needed):
        needed = list(left)
    if not _moves_on(rule_set, number, now, left, needed):
        return []
    before = len(needed) + 1
    while len(needed) < before:
        before = len(needed)
        for fact in reversed(tuple(needed)):
            others = [other for other in needed if other != fact]
            if _moves_on(rule_set, number, now, left, others):
                needed = others
    return needed


def _moves_on(
    rule_set: RuleSet, number: int, now: Mapping[str, str], left: Mapping[str, str], changed: Iterable[str]
) -> bool:
    """Return whether, after some changes, a later rule decides, or one that opens the status."""
    decision = decide(rule_set.rules, {**now, **{fact: left[fact] for fact in changed}})
    opens = rule_set.rules[decision.rule].status == rule_set.question.open_status
    return not decision.undetermined and (opens or decision.rule > number)


def _with_every_value(path: Path, rule_set: RuleSet, facts: Mapping[str, str]) -> Path:
    """Return a path whose facts have every value with which it takes the same course to the same end.

    The others have their first value meanwhile, which is the one that a client may take for each of them.
    """
    wanted = {change.fact.name: change.wanted for change in path.changes}
    end = _end(path.steps, wanted, rule_set, facts)
    while True:
        found = {
            change.fact.name: tuple(
                value
                for value in (change.fact.values if change.fact.opened_by_any_value else change.wanted_values)
                if value != change.value
                and _end(path.steps, {**wanted, change.fact.name: value}, rule_set, facts) == end
            )
            for change in path.changes
        }
        earlier = next((name for name, values in found.items() if values[0] != wanted[name]), None)
        if earlier is None:
            break
        wanted[earlier] = found[earlier][0]
    steps = (
        Step(step.rule, tuple(replace(each, wanted_values=found[each.fact.name]) for each in step.changes))
        for step in path.steps
    )
    return replace(path, steps=tuple(steps))


def _end(
    steps: tuple[Step, ...], wanted: Mapping[str, str], rule_set: RuleSet, facts: Mapping[str, str]
) -> Decision | str | None:
    """Return what decides after the steps, or the open status; None if another rule decides before one of them."""
    now = dict(facts)
    for step in steps:
        decision = decide(rule_set.rules, now)
        if decision.undetermined or rule_set.rules[decision.rule] is not step.rule:
            return None
        now |= {change.fact.name: wanted[change.fact.name] for change in step.changes}
    decision = decide(rule_set.rules, now)
    status = rule_set.rules[decision.rule].status
    return status if not decision.undetermined and status == rule_set.question.open_status else decision


def sentences(path: Path) -> tuple[str, ...]:
    """Return a path in words: who changes what, in order, and what it leads to."""
    steps = tuple(map(_sentence, path.changes))
    match path.end:
        case PathEnd.CALLABLE:
            return (*steps, "then it is callable" if steps else "it is callable now")
        case PathEnd.POLICY_CHANGE:
            return (*steps, "only a change of the policy lifts this")
        case PathEnd.FIND_OUT:
            return (*steps, f"find out {' and '.join(f'`{fact}`' for fact in path.find_out)} first")


def _sentence(change: FactChange) -> str:
    fact = change.fact
    by = (
        f"the {fact.opened_by}, by `{fact.action}`"
        if fact.action
        else "the caller, whose own gate refuses it: see its logs"
    )
    return f"`{fact.name}` from {change.value} to {_alternatives(change.wanted_values)}: {by}"


def _alternatives(values: tuple[str, ...]) -> str:
    named = values if len(values) <= MAX_LISTED else (*values[:MAX_LISTED], f"{len(values) - MAX_LISTED} more values")
    *others, last = named
    return f"{', '.join(others)} or {last}" if others else last
