"""The unknown facts that keep a condition undetermined, and whether a later try can read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from callability.policy.names.glob import holds
from callability.policy.questions.fact import Axis
from callability.policy.questions.question import Question
from callability.policy.rules.condition import All, Any, Condition, Facts, Is, Not, atoms, facts_read
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict
from callability.vocabulary import UNKNOWN, Retry

State = Mapping[str, str]
"""Known values of the unknown facts of one axis."""


def unread(question: Question, condition: Condition | None, facts: Facts) -> tuple[str, ...]:
    """Return the unknown facts that keep a condition from being decided, in the order of the facts.

    A *completion* gives every unknown fact a known value, so that the facts of each axis are at one of its points. Take
    two completions under which the condition has different truths, and the facts that it reads in which they differ. A
    fact is unread if it belongs to such a set of facts that contains no smaller one. Facts that vary by themselves make
    sets of one: such a fact is unread if another value of it alone can change the truth.

    Kleene's logic does not see that `any: [{a: true}, {a: false}]` holds whatever `a` is. For such a condition every
    unknown fact that it reads is returned, so that the result is empty only if the condition is decided.
    """
    if condition is None or condition.truth(facts) is not None:
        return ()
    known = {fact: facts[fact] for fact in facts_read(condition) if facts[fact] != UNKNOWN}
    unknown = frozenset(facts_read(condition)) - known.keys()
    axes = [states for axis in question.axes if unknown & set(axis.facts) and (states := _states(axis, unknown, facts))]
    found = _Completions([_distinguished(states, condition) for states in axes]).deciding(_rest(condition, known))
    return tuple(name for name in question.facts if name in (found or unknown))


def unread_of(rule_set: RuleSet, verdict: Verdict, facts: Facts) -> tuple[str, ...]:
    """Return the unknown facts that keep the rule that a verdict names from being decided; none if it is determined."""
    if not verdict.undetermined:
        return ()
    return unread(rule_set.question, rule_set.rule(verdict.rule).when, facts)


def retry_of(question: Question, status: str, facts: Iterable[str]) -> Retry:
    """Return whether trying again can help with a status and its unread facts: not if one of these stays unknown."""
    if any(question.facts[name].stays_unknown for name in facts):
        return Retry.NEVER
    return question.status(status).retry


def _states(axis: Axis, unknown: frozenset[str], facts: Facts) -> list[State]:
    """Return what the unknown facts of an axis that are read may be together, given those that are known."""
    found: dict[tuple[tuple[str, str], ...], None] = {}
    for point in axis.points:
        values = dict(zip(axis.facts, point.values, strict=True))
        known = (facts.get(name, UNKNOWN) in {UNKNOWN, value} for name, value in values.items())
        if UNKNOWN not in point.values and all(known):
            found[tuple((name, value) for name, value in values.items() if name in unknown)] = None
    return [dict(state) for state in found]


def _distinguished(states: list[State], condition: Condition) -> list[State]:
    """Return one state for all that are the same to a condition, if they differ in one fact alone."""
    if len(states[0]) > 1:
        return states
    [fact] = states[0]
    read = [atom for atom in atoms(condition) if atom.fact == fact]
    return list({tuple(atom.truth(state) for atom in read): state for state in states}.values())


def _rest(condition: Condition, known: Facts) -> Condition | bool:
    """Return what is left of a condition if some facts are known."""
    match condition:
        case Is(fact=fact):
            return holds(condition.values, known[fact]) if fact in known else condition
        case Not(part=part):
            rest = _rest(part, known)
            return not rest if isinstance(rest, bool) else Not(rest)
        case All(parts=parts) | Any(parts=parts):
            # The truth that decides the whole if one part has it.
            deciding = isinstance(condition, Any)
            rests = [_rest(part, known) for part in parts]
            if deciding in rests:
                return deciding
            left = tuple(rest for rest in rests if not isinstance(rest, bool))
            return type(condition)(left) if left else not deciding


class _Completions:
    """What is left of a condition under all completions, as a decision diagram whose equal parts have one number."""

    def __init__(self, axes: list[list[State]]) -> None:
        self._axes = axes
        self._rests: dict[Condition | bool, int] = {}
        self._numbers: dict[Condition | bool | tuple[int, tuple[int, ...]], int] = {}
        self._differences: set[frozenset[str]] = set()

    def deciding(self, rest: Condition | bool) -> frozenset[str]:
        """Return the facts of the smallest differences between completions of different truths."""
        self._number(0, rest)
        smallest = (one for one in self._differences if not any(other < one for other in self._differences))
        return frozenset().union(*smallest)

    def _number(self, axis: int, rest: Condition | bool) -> int:
        """Return the number of what is left of the condition; it is the same for what has the same truths."""
        if rest not in self._rests:
            self._rests[rest] = self._made(axis, rest)
        return self._rests[rest]

    def _made(self, axis: int, rest: Condition | bool) -> int:
        if isinstance(rest, bool) or axis == len(self._axes):
            return self._numbers.setdefault(rest, len(self._numbers))
        states = self._axes[axis]
        parts = tuple(self._number(axis + 1, _rest(rest, state)) for state in states)
        if len(set(parts)) == 1:
            return parts[0]
        self._differences.update(_differences(states, parts))
        return self._numbers.setdefault((axis, parts), len(self._numbers))


def _differences(states: list[State], parts: tuple[int, ...]) -> Iterator[frozenset[str]]:
    """Yield in which facts states differ that leave different parts of a condition."""
    if len(states[0]) == 1:
        yield frozenset(states[0])
        return
    for (one, left), (other, right) in combinations(zip(states, parts, strict=True), 2):
        if left != right:
            yield frozenset(name for name in one if one[name] != other[name])
