"""The path to callable: what has to change, in order, and who can change it; and why a verdict came out as it did."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Any

from callability.contract.finding import list_names
from callability.contract.vocabulary import UNKNOWN, Retry
from callability.kernel.conditions import (
    Condition,
    Decision,
    Falsification,
    Truth,
    Values,
    decide,
    facts_read,
    falsifications,
)
from callability.kernel.envelope import invalid
from callability.kernel.rule_set import Fact, Rule, RuleSet, Verdict

MOST_LOOKS = 50_000
"""Children of nodes that are looked at, at most: some tens of milliseconds. Every implementation counts them alike."""

_Move = tuple[int, int, Mapping[str, str]]
"""What the changes to a point cost, the number of the point, and the changes."""
_Reached = tuple[int, Any, "_Reached | None", Mapping[str, str]]
"""What the changes so far cost, a node or a verdict, from where it was reached, and by which changes."""


class TooManyLooks(Exception):
    """The diagram is too large to say whether changes open the status."""


def opens_by_itself(rule_set: RuleSet, facts: Mapping[str, str], stays_unknown: Collection[str]) -> bool:
    """Return whether the status can open without a change of a known fact, once unknown facts become known.

    Facts that stay unknown do not; the others may have any values that can occur with what is known.
    """
    readable = _unknown(facts).difference(stays_unknown)
    return bool(readable) and _can_open(rule_set, _Moves(rule_set, facts, readable, changes=False))


def retry_of(
    rule_set: RuleSet, verdict: Verdict, facts: Mapping[str, str], stays_unknown: Collection[str] | None = None
) -> Retry:
    """Return whether trying again can help: with an undetermined verdict, only if it can open by itself.

    Without `stays_unknown`, no unknown fact was sent.
    """
    if not verdict.undetermined or rule_set.question.open_status is None:
        return verdict.status.retry
    if stays_unknown is None:
        stays_unknown = {fact.name for fact in rule_set.question.facts.values() if fact.stays_unknown}
    return verdict.status.retry if opens_by_itself(rule_set, facts, stays_unknown) else Retry.NEVER


def opens_by_findings(rule_set: RuleSet, facts: Mapping[str, str]) -> bool:
    """Return whether the status can open by some values of the unknown facts, and by changes of facts."""
    return _can_open(rule_set, _Moves(rule_set, facts, _unknown(facts)))


def _can_open(rule_set: RuleSet, moves: _Moves) -> bool:
    opening = _opening(rule_set)
    onwards: dict[int, tuple[int, ...]] = {}
    seen: set[int] = set()
    waiting = [rule_set.first]
    while waiting:
        node = waiting.pop()
        if type(node) is not tuple:
            if not node.undetermined and node.rule in opening:
                return True
        elif id(node) not in seen:
            seen.add(id(node))
            place, children = node
            if place not in onwards:
                onwards[place] = tuple(point for _, point, _ in moves.of_axis(place))
            waiting += [children[point] for point in onwards[place]]
    return False


def fewest_changes(rule_set: RuleSet, facts: Mapping[str, str], *, reading: bool = False) -> dict[str, str] | None:
    """Return the fewest changes that open the status, those of the first facts first; None if no changes do.

    With `reading`, an unknown fact counts as one that may turn out to have any of its values.

    Raises:
        TooManyLooks: there may be such changes or not.
    """
    opening = _opening(rule_set)
    best: _Reached | None = None
    waiting: dict[int, dict[int, _Reached]] = {}
    moves = _Moves(rule_set, facts, _unknown(facts) if reading else ())

    def arrive(reached: _Reached) -> None:
        nonlocal best
        cost, node, _, _ = reached
        if type(node) is tuple:
            known = waiting.setdefault(node[0], {})
            if id(node) not in known or cost < known[id(node)][0]:
                known[id(node)] = reached
        elif not node.undetermined and node.rule in opening and (best is None or cost < best[0]):
            best = reached

    arrive((0, rule_set.first, None, {}))
    looks = 0
    while waiting:
        # A node is reached from axes before its own alone, so that its cost is final.
        place = min(waiting)
        nodes, onwards = waiting.pop(place), tuple(moves.of_axis(place))
        looks += len(nodes) * len(onwards)
        if looks > MOST_LOOKS:
            raise TooManyLooks
        for reached in nodes.values():
            for cost, point, changes in onwards:
                arrive((reached[0] + cost, reached[1][1][point], reached, changes))
    return _all_changes(best) if best else None


def _unknown(facts: Mapping[str, str]) -> frozenset[str]:
    return frozenset(name for name, value in facts.items() if value == UNKNOWN)


def _opening(rule_set: RuleSet) -> frozenset[str]:
    return frozenset(rule.id for rule in rule_set.rules if rule.status == rule_set.question.open_status)


def _all_changes(reached: _Reached) -> dict[str, str]:
    found: dict[str, str] = {}
    before: _Reached | None = reached
    while before:
        found |= before[3]
        before = before[2]
    return found


class _Moves:
    """Which points of an axis can be reached, and at what cost.

    A fact in `readable` is unknown, and may turn out to have any value. With `changes`, people may change known facts.
    """

    def __init__(
        self,
        rule_set: RuleSet,
        facts: Mapping[str, str],
        readable: Collection[str],
        *,
        changes: bool = True,
    ) -> None:
        self._facts = facts
        self._rule_set = rule_set
        self._by_name = rule_set.question.facts
        self._readable = readable
        self._changes = changes
        many = len(self._by_name)
        # As sums, fewer changes are less, and so are of as many those of the first facts.
        self._costs = {name: (1 << many) - (1 << (many - 1 - place)) for place, name in enumerate(self._by_name)}

    def of_axis(self, place: int) -> Iterator[_Move]:
        """Yield each state that can be reached, at its first point."""
        names = self._rule_set.facts_of_axis(place)
        now = [self._rule_set.reading(name, self._facts[name]) for name in names]
        points: dict[tuple[str, ...], int] = {}
        for point, state in self._rule_set.points_of_axis(place):
            points.setdefault(state, point)
        for state, point in points.items():
            pairs = list(zip(names, now, state, strict=True))
            # An unknown fact has its value already: one that can occur with what is known now, before any change.
            found = tuple(new if old == UNKNOWN else old for _, old, new in pairs)
            if found in points and all(self._can_be(self._by_name[name], old, new) for name, old, new in pairs):
                changes = {name: new for name, old, new in pairs if new != old}
                yield sum(self._costs[name] for name in changes), point, changes

    def _can_be(self, fact: Fact, old: str, new: str) -> bool:
        if new == old:
            return True
        if UNKNOWN in {old, new}:
            return old == UNKNOWN and fact.name in self._readable
        return self._changes and fact.opened_by is not None and (fact.opened_by_any_value or new == fact.open_value)


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


def path_to_callable(rule_set: RuleSet, facts: Mapping[str, str]) -> Path | None:
    """Change, for the rule that decides, the smallest set of facts that makes it false, until the status is open.

    If that gets stuck, or at unknown facts of which no values help, the diagram says which changes open the status, or
    that none do: only then is it the policy.
    None where the question has no status that everything else could be opened to, or the diagram is too large to say.
    """
    if rule_set.question.open_status is None:
        return None
    search = _Search(rule_set, facts)
    path = search.path()
    while path is None:
        path = search.path()
    if path.end is not PathEnd.CALLABLE and not _leads_on(path, rule_set, facts):
        path = _by_fewest_changes(rule_set, facts)
    return _with_every_value(path, rule_set, facts) if path else None


def remaining_path(rule_set: RuleSet, facts: Mapping[str, str]) -> Path | None:
    """Return what still locks a tool once the lock that decides is lifted: the path to callable without its first step.

    None: nothing does, nobody can lift the lock that decides, or it is not known.
    """
    facts = _complete(rule_set, facts)
    path = path_to_callable(rule_set, facts)
    if path is None or (not path.steps and not _Search(rule_set, facts).is_lifted_by_somebody()):
        return None
    rest = replace(path, steps=path.steps[1:])
    return rest if rest.steps or rest.end is not PathEnd.CALLABLE else None


class _Search:
    """Looks for a path. A fact that any value may open is changed once: if that value does not do for a later rule, the
    search begins again without it, so that it ends.
    """

    def __init__(self, rule_set: RuleSet, facts: Mapping[str, str]) -> None:
        self._rule_set = rule_set
        self._facts = facts
        self._left: dict[str, frozenset[str]] = {}

    def path(self) -> Path | None:
        """Return the path, or None after a value of such a fact was ruled out."""
        question = self._rule_set.question
        now = dict(self._facts)
        steps: list[Step] = []
        while True:
            decision = decide(self._rule_set.conditions, now)
            rule = self._rule_set.rules[decision.rule]
            if decision.undetermined:
                return Path(tuple(steps), PathEnd.FIND_OUT, self._rule_set.unread_at(now))
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
        rule = self._rule_set.rules[decide(self._rule_set.conditions, self._facts).rule]
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


def _leads_on(path: Path, rule_set: RuleSet, facts: Mapping[str, str]) -> bool:
    """Return whether a path ends at facts to find out, and some values of them help."""
    after = {**facts, **{change.fact.name: change.wanted for change in path.changes}}
    return path.end is PathEnd.FIND_OUT and opens_by_findings(rule_set, after)


def _changes(out: Falsification, rule_set: RuleSet, now: Mapping[str, str]) -> Iterator[FactChange]:
    for fact in rule_set.question.facts.values():
        if fact.name in out and now[fact.name] not in out[fact.name]:
            yield FactChange(fact, now[fact.name], tuple(value for value in fact.values if value in out[fact.name]))


def _by_fewest_changes(rule_set: RuleSet, facts: Mapping[str, str]) -> Path | None:
    """Return the path of the fewest changes that open the status, what to find out for it, or that there is none."""
    try:
        wanted = fewest_changes(rule_set, facts)
        if wanted is not None:
            steps = _steps(rule_set, facts, wanted)
            return Path(steps, PathEnd.CALLABLE) if steps else None
        if UNKNOWN in facts.values():
            wanted = fewest_changes(rule_set, facts, reading=True)
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
        number = decide(rule_set.conditions, now).rule
        needed = _needed_changes(rule_set, number, now, {fact: wanted[fact] for fact in left})
        if not needed:
            return ()
        changes = (FactChange(rule_set.question.facts[fact], now[fact], (wanted[fact],)) for fact in needed)
        steps.append(Step(rule_set.rules[number], tuple(changes)))
        now |= {fact: wanted[fact] for fact in needed}
        left = [fact for fact in left if fact not in needed]
    return tuple(steps)


def _needed_changes(rule_set: RuleSet, number: int, now: Mapping[str, str], left: Mapping[str, str]) -> list[str]:
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
    decision = decide(rule_set.conditions, {**now, **{fact: left[fact] for fact in changed}})
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
        decision = decide(rule_set.conditions, now)
        if decision.undetermined or rule_set.rules[decision.rule] is not step.rule:
            return None
        now |= {change.fact.name: wanted[change.fact.name] for change in step.changes}
    decision = decide(rule_set.conditions, now)
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


@dataclass(frozen=True, slots=True)
class Trial:
    """One rule that was tried: the truth of its condition, the facts that it reads, and a sentence."""

    rule: Rule
    truth: Truth
    reads: tuple[tuple[str, str], ...]
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rules that were tried, in order, the last of which decided; and the path to callable, if there can be one."""

    trials: tuple[Trial, ...]
    path: Path | None


def explain(rule_set: RuleSet, facts: Mapping[str, str]) -> Explanation:
    """Return each rule that is tried for some facts, and the path to callable if there can be one.

    Raises:
        KeyError: a fact of an axis is missing, or the facts cannot occur together.
        BundleRefused: the rules of the bundle contradict its diagram.
    """
    facts = _complete(rule_set, facts)
    trials: list[Trial] = []
    for rule in rule_set.rules:
        truth = rule.when.truth(facts) if rule.when else True
        reads = tuple((fact, facts[fact]) for fact in rule.reads)
        trials.append(Trial(rule, truth, reads, _why(rule, truth, facts, rule_set)))
        if truth is not False:
            break
    if trials[-1].rule.id != rule_set.decide(rule_set.points_of(facts)).rule:
        raise invalid("the rules of the bundle contradict its diagram")
    return Explanation(tuple(trials), path_to_callable(rule_set, facts))


def _complete(rule_set: RuleSet, facts: Mapping[str, str]) -> dict[str, str]:
    return {**dict.fromkeys(rule_set.question.facts, UNKNOWN), **facts}


def _why(rule: Rule, truth: Truth, given: Mapping[str, str], rule_set: RuleSet) -> str:
    if rule.when is None:
        return f"has no condition: gives `{rule.status}`"
    facts = rule_set.question.facts
    if truth is None:
        unread = rule_set.unread_at(given)
        are = "which is" if len(unread) == 1 else "which are"
        return (
            f"cannot be decided without {list_names(unread)}, {are} unknown: gives `{rule_set.question.undetermined}`"
        )
    reasons = " and ".join(f"`{fact}` is {facts[fact].shown(given[fact])}" for fact in _reasons(rule.when, given))
    return f"holds, since {reasons}: gives `{rule.status}`" if truth else f"does not hold, since {reasons}"


def _reasons(condition: Condition, given: Mapping[str, str]) -> tuple[str, ...]:
    """Return facts that a condition reads and that alone make it true or false, whatever the others are.

    None of them can be spared. Where the first facts of the text are enough, it is these.
    """
    truth = condition.truth(given)
    known = dict(given)
    for fact in reversed(facts_read(condition)):
        value, known[fact] = known[fact], UNKNOWN
        if condition.truth(known) is not truth:
            known[fact] = value
    return tuple(fact for fact in facts_read(condition) if known[fact] != UNKNOWN)
