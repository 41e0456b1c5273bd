"""Rules in disjunctive normal form: flat conjunctions over known and unknown values, as the engine accepts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product

from callability.kernel.condition import All, Any, Condition, Is, Not
from callability.kernel.glob import holds
from callability.kernel.semantics import Decision
from callability.policy.rules.rule_set import Rule
from callability.vocabulary import UNKNOWN

MAX_CONJUNCTIONS = 5_000
"""Conjunctions that one rule may come to."""
MAX_ALTOGETHER = 20_000
"""Conjunctions that the rules of a file may come to: the engine needs some 20 KB of memory for each."""
MAX_PAIRS = 250_000
"""Pairs of terms that are joined at once: many may come to few."""

Domains = Mapping[str, tuple[str, ...]]
Term = Mapping[str, frozenset[str]]
"""For each fact that matters, the values (unknown among them) that it may have."""


class ConditionTooLarge(Exception):
    """A condition that comes to more than `MAX_CONJUNCTIONS`."""


@dataclass(frozen=True, slots=True)
class Test:
    """The fact has the value, or has any other."""

    __test__ = False

    fact: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Tests that together decide."""

    tests: tuple[Test, ...]
    decision: Decision


def conjunctions(number: int, rule: Rule, domains: Domains) -> tuple[Conjunction, ...]:
    """Return the conjunctions under which a rule is certainly true, then those under which it may be.

    Raises:
        TooLarge: there are more than `MAX_CONJUNCTIONS`.
    """
    if rule.when is None:
        return (Conjunction((), Decision(number, undetermined=False)),)
    found: list[Conjunction] = []
    for possible in (False, True):
        decision = Decision(number, undetermined=possible)
        for term in _terms(rule.when, domains, wanted=True, possible=possible):
            for tests in _flat(term, domains):
                found.append(Conjunction(tests, decision))
                if len(found) > MAX_CONJUNCTIONS:
                    raise ConditionTooLarge
    return tuple(found)


def _terms(condition: Condition, domains: Domains, *, wanted: bool, possible: bool) -> list[Term]:
    """Return terms that hold where the condition is `wanted`, or, if `possible`, where it is not the opposite."""
    match condition:
        case Is(fact=fact, values=values):
            known = frozenset(domains[fact]) - {UNKNOWN}
            allowed = frozenset(value for value in known if holds(values, value) is wanted)
            if possible:
                allowed |= frozenset(domains[fact]) & {UNKNOWN}
            return [{fact: allowed}] if allowed else []
        case Not(part=part):
            return _terms(part, domains, wanted=not wanted, possible=possible)
        case All(parts=parts) | Any(parts=parts):
            each = [_terms(part, domains, wanted=wanted, possible=possible) for part in parts]
            return reduce(_both, each) if isinstance(condition, All) is wanted else _either(each)


def _both(left: list[Term], right: list[Term]) -> list[Term]:
    if len(left) * len(right) > MAX_PAIRS:
        raise ConditionTooLarge
    joined: dict[frozenset[tuple[str, frozenset[str]]], Term] = {}
    for one, other in product(left, right):
        term = _intersection(one, other)
        if term is not None:
            joined[frozenset(term.items())] = term
            if len(joined) > MAX_CONJUNCTIONS:
                raise ConditionTooLarge
    return list(joined.values())


def _either(each: Iterable[list[Term]]) -> list[Term]:
    return list({frozenset(term.items()): term for terms in each for term in terms}.values())


def _intersection(one: Term, other: Term) -> Term | None:
    term = dict(one)
    for fact, allowed in other.items():
        term[fact] = term.get(fact, allowed) & allowed
        if not term[fact]:
            return None
    return term


def _flat(term: Term, domains: Domains) -> Iterator[tuple[Test, ...]]:
    """Yield the flat conjunctions of a term: one equality or inequality a fact."""
    choices = []
    for fact in sorted(term):
        excluded = frozenset(domains[fact]) - term[fact]
        if len(excluded) == 1 and len(domains[fact]) > 2:
            choices.append([Test(fact, min(excluded), equal=False)])
        elif excluded:
            choices.append([Test(fact, value, equal=True) for value in sorted(term[fact])])
    yield from product(*choices)
