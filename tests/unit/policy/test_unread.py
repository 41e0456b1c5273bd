"""The unknown facts that keep a rule from being decided, compared with every way to complete the facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.compiler.combination_sets import CombinationSets, Space
from callability.compiler.diagram import UnreadSets
from callability.compiler.question import BOOLEAN, Axis, Fact, LabelFact, Point, Question, axis_of, facts_by_name
from callability.compiler.questions import CALLABILITY, LOAD_OUTCOME
from callability.compiler.rule_set import Rule, RuleSet
from callability.contract.vocabulary import UNKNOWN, Retry
from callability.kernel.conditions import AllOf, AnyOf, Condition, Is, Not, facts_read
from callability.kernel.path import opens_by_itself, retry_of
from support.drawing import drawing
from support.drawn_policies import (
    CORE,
    CORE_SPACE,
    NOWHERE,
    any_rule_sets,
    compiled_of,
    conditions,
    diagram_of,
    drawn_facts,
)
from support.later_tries import opens_later

_JOINT = ("j", "k", "l")
_POINTS = (
    *("0 0 0", "0 1 0", "1 0 0", "1 1 1", "1 2 1"),
    *("? 0 0", "0 ? 0", "1 ? 1", "? ? 0", "? ? ?"),
)
_FACTS = (
    *(Fact(name, BOOLEAN, "true") for name in "ab"),
    Fact("c", ("x", "y", "z"), "x"),
    Fact("j", ("0", "1"), "0"),
    Fact("k", ("0", "1", "2"), "0"),
    Fact("l", ("0", "1"), "0"),
)
JOINED = replace(
    CALLABILITY,
    facts=facts_by_name(_FACTS),
    axes=(
        *map(axis_of, _FACTS[:3]),
        Axis(_JOINT, tuple(Point(each, tuple(each.replace("?", UNKNOWN).split())) for each in _POINTS)),
    ),
)
"""A question with an axis of dependent facts: `k` and `l` depend on `j`."""


def _conditions(facts: tuple[Fact, ...]) -> st.SearchStrategy[Condition]:
    leaf = st.sampled_from(facts).flatmap(
        lambda fact: st.builds(Is, st.just(fact.name), st.frozensets(st.sampled_from(fact.values), min_size=1))
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(AllOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
            st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        ),
        max_leaves=7,
    )


def _points(question: Question) -> st.SearchStrategy[dict[str, str]]:
    states = [[dict(zip(axis.facts, point.values, strict=True)) for point in axis.points] for axis in question.axes]
    drawn = st.tuples(*map(st.sampled_from, states))
    return drawn.map(lambda each: dict(chain.from_iterable(state.items() for state in each)))


def unread(question: Question, condition: Condition, facts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the facts that are unread where the facts are these."""
    read = facts_read(condition)
    sets = CombinationSets(Space(question, tuple(axis for axis in question.axes if set(axis.facts) & set(read))))
    found = UnreadSets(sets).by_fact(condition)
    return tuple(fact for fact, where in found.items() if sets.holds(where, facts))


def _completions(question: Question, facts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for points in product(*(axis.points for axis in question.axes)):
        found = {
            name: value
            for axis, point in zip(question.axes, points, strict=True)
            for name, value in zip(axis.facts, point.values, strict=True)
        }
        if UNKNOWN not in found.values() and all(facts[name] in {UNKNOWN, found[name]} for name in found):
            yield found


def _by_brute_force(question: Question, condition: Condition, facts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the facts of the smallest differences between any two completions of different truths."""
    if condition.truth(facts) is not None:
        return ()
    read = facts_read(condition)
    truths = {tuple(found[name] for name in read): condition.truth(found) for found in _completions(question, facts)}
    differences = {
        frozenset(name for name, left, right in zip(read, one, other, strict=True) if left != right)
        for one, other in product(truths, truths)
        if truths[one] != truths[other]
    }
    smallest = [one for one in differences if not any(other < one for other in differences)]
    found = frozenset().union(*smallest) or {name for name in read if facts[name] == UNKNOWN}
    return tuple(name for name in question.facts if name in found)


CORE_QUESTION = replace(CALLABILITY, facts=facts_by_name(CORE), axes=CORE_SPACE.axes)


@given(condition=conditions, facts=_points(CORE_QUESTION))
def test_unread_facts_of_a_tool_are_those_that_brute_force_finds(condition: Condition, facts: dict[str, str]) -> None:
    """Over all completions of the facts that the shipped policy reads."""
    assert unread(CORE_QUESTION, condition, facts) == _by_brute_force(CORE_QUESTION, condition, facts)


_HINTS = tuple(fact for fact in CALLABILITY.facts.values() if fact.hint)
_OF_HINTS = facts_by_name(_HINTS)
HINT_QUESTION = replace(
    CALLABILITY, facts=_OF_HINTS, axes=tuple(axis for axis in CALLABILITY.axes if _OF_HINTS.keys() & axis.facts)
)


@given(condition=_conditions(_HINTS), facts=_points(HINT_QUESTION))
def test_unread_annotations_are_those_that_brute_force_finds(condition: Condition, facts: dict[str, str]) -> None:
    """Some of which depend on each other."""
    assert unread(HINT_QUESTION, condition, facts) == _by_brute_force(HINT_QUESTION, condition, facts)


@given(condition=_conditions(_FACTS), facts=_points(JOINED))
def test_unread_facts_that_depend_on_one_another_are_those_that_brute_force_finds(
    condition: Condition, facts: dict[str, str]
) -> None:
    """Even if no value of a fact alone can change the truth, but only together with one of another fact."""
    assert unread(JOINED, condition, facts) == _by_brute_force(JOINED, condition, facts)


@given(condition=_conditions(_FACTS), facts=_points(JOINED))
def test_whoever_knows_the_unread_facts_knows_whether_the_rule_matches(
    condition: Condition, facts: dict[str, str]
) -> None:
    """An undetermined condition has unread facts, all of them are unknown and read, and no others are needed."""
    found = unread(JOINED, condition, facts)
    assert bool(found) is (condition.truth(facts) is None)
    assert {facts[name] for name in found} <= {UNKNOWN}
    assert set(found) <= set(facts_read(condition))
    truths: dict[tuple[str, ...], set[bool | None]] = {}
    for completion in _completions(JOINED, facts):
        truths.setdefault(tuple(completion[name] for name in found), set()).add(condition.truth(completion))
    assert all(len(each) == 1 for each in truths.values())


A, B = Is("a", frozenset({"true"})), Is("b", frozenset({"true"}))
UNKNOWN_ALL = {fact.name: UNKNOWN for fact in _FACTS}


@pytest.mark.parametrize(
    ("condition", "known", "expected"),
    [
        (AllOf((A, B)), {}, ("a", "b")),
        (AllOf((B, A)), {}, ("a", "b")),
        (AllOf((A, B)), {"a": "true"}, ("b",)),
        (AnyOf((A, B)), {"a": "false"}, ("b",)),
        (AllOf((A, B)), {"a": "false"}, ()),
        (AnyOf((AllOf((A, B)), AllOf((A, Not(B))))), {}, ("a",)),
        (AnyOf((A, Not(A))), {}, ("a",)),
        (AllOf((AnyOf((A, Not(A))), B)), {}, ("b",)),
        (AllOf((AnyOf((A, Not(A))), B)), {"b": "true"}, ("a",)),
        (AllOf((Is("j", frozenset("0")), Is("l", frozenset("1")))), {}, ("j", "l")),
        (Is("k", frozenset("2")), {"j": "0", "l": "0"}, ("k",)),
        (AllOf((Is("j", frozenset("1")), Is("k", frozenset("2")))), {}, ("k",)),
    ],
    ids=[
        "both of two",
        "in the order of the facts and not of the text",
        "not one that is known",
        "the other of two",
        "nothing if the condition is decided",
        "not one that makes no difference whatever the others are",
        "one that Kleene's logic does not see to make no difference",
        "not that one beside another that does",
        "that one again if the other is known",
        "all that are read if the parts can never hold together",
        "one that can have no value that would do",
        "not one that another implies",
    ],
)
def test_the_unread_facts_of_a_condition(
    condition: Condition, known: Mapping[str, str], expected: tuple[str, ...]
) -> None:
    """By example; the given facts are known, and all others are not."""
    assert unread(JOINED, condition, {**UNKNOWN_ALL, **known}) == expected


def test_a_condition_may_have_more_completions_than_could_be_tried() -> None:
    """Its facts have 2**64 completions."""
    facts = tuple(Fact(f"{name}{number}", BOOLEAN, "true") for number in range(32) for name in "ab")
    question = replace(CALLABILITY, facts=facts_by_name(facts), axes=tuple(map(axis_of, facts)))
    leaf = {fact.name: Is(fact.name, frozenset({"true"})) for fact in facts}
    condition = AnyOf(tuple(AllOf((leaf[f"a{number}"], leaf[f"b{number}"])) for number in range(32)))
    assert unread(question, condition, dict.fromkeys(question.facts, UNKNOWN)) == tuple(question.facts)


def test_a_fact_on_which_the_truth_does_not_depend_is_not_unread() -> None:
    """It has 60 values, and so have two on which the truth depends."""
    facts = tuple(Fact(f"f{number}", tuple(f"v{value}" for value in range(60)), "v0") for number in range(3))
    question = replace(CALLABILITY, facts=facts_by_name(facts), axes=tuple(map(axis_of, facts)))
    first, second, third = ([Is(fact.name, frozenset({value})) for value in fact.values] for fact in facts)
    pairs = [AllOf((one, other)) for one, other in zip(first, second, strict=True)]
    condition = AnyOf((*pairs, *(AllOf((one, Not(one))) for one in third)))
    assert len(facts_read(condition)) == 3
    assert unread(question, condition, dict.fromkeys(question.facts, UNKNOWN)) == ("f0", "f1")


def test_a_failure_and_its_http_status_are_unread_as_they_depend_on_one_another() -> None:
    """Only a failure that is an HTTP status has a number, so the number is enough for a rule that reads both."""
    condition = AllOf((Is("load.failure", frozenset({"http_status"})), Is("load.http_status", frozenset({"404"}))))
    facts = dict.fromkeys(LOAD_OUTCOME.facts, UNKNOWN)
    assert unread(LOAD_OUTCOME, condition, facts) == ("load.http_status",)
    assert unread(LOAD_OUTCOME, condition.parts[0], facts) == ("load.failure",)


_MAY_STAY = ("approval.disabled", "approval.status", "proxy.quota", "proxy.shift")
"""Facts that stay unknown if a value of them was sent that they do not have."""


@drawing(60)
@given(drawn=any_rule_sets(), may_stay=st.frozensets(st.sampled_from(_MAY_STAY)))
def test_a_later_try_can_succeed_if_and_only_if_some_combination_is_callable(
    drawn: RuleSet, may_stay: frozenset[str]
) -> None:
    """Every combination is looked at that agrees with what is known, in which unknown facts are known that can be."""
    diagram = diagram_of(drawn)
    axes = [(axis.facts, [point.values for point in axis.points]) for axis in diagram.space.axes]
    stays = may_stay | {name for name, fact in drawn.question.facts.items() if fact.stays_unknown}
    for facts in drawn_facts(diagram.space, 60):
        verdict = diagram.verdict(facts)
        if verdict.undetermined:
            assert opens_by_itself(compiled_of(drawn), facts, stays) is opens_later(drawn, axes, facts, stays)


_LABEL = LabelFact("server.label.environment", ("none", "production"), "none")
_LOCKS: Mapping[str, Condition] = {
    "the label is unknown": AllOf((Is("server.enabled", frozenset({"false"})), Is(_LABEL.name, frozenset({"none"})))),
    "whatever the label is": AnyOf((Is("server.enabled", frozenset({"false"})), Is(_LABEL.name, frozenset({"none"})))),
    "both values": AnyOf((Is("server.enabled", frozenset({"false"})), Is("server.enabled", frozenset({"true"})))),
}


@pytest.mark.parametrize(
    ("lock", "facts", "expected"),
    [
        ("the label is unknown", {"server.enabled": UNKNOWN, _LABEL.name: UNKNOWN}, Retry.LATER),
        ("whatever the label is", {"server.enabled": UNKNOWN, _LABEL.name: UNKNOWN}, Retry.NEVER),
        ("whatever the label is", {"server.enabled": UNKNOWN, _LABEL.name: "production"}, Retry.LATER),
        ("whatever the label is", {_LABEL.name: UNKNOWN}, Retry.NEVER),
        ("both values", {"server.enabled": UNKNOWN}, Retry.NEVER),
        ("both values", {}, Retry.NEVER),
    ],
)
def test_a_fact_that_stays_unknown_prevents_a_later_try_only_if_the_others_do_not_decide(
    lock: str, facts: Mapping[str, str], expected: Retry
) -> None:
    """A label is corrected by a person; a locked tool stays locked."""
    question = CALLABILITY.having((_LABEL,))
    rules = (Rule("lock", _LOCKS[lock], "disabled_by_config", NOWHERE), Rule("open", None, "callable", NOWHERE))
    rule_set = RuleSet(question, rules, {})
    compiled, complete = compiled_of(rule_set), question.open_facts | dict(facts)
    assert retry_of(compiled, compiled.decide(compiled.points_of(complete)), complete) is expected


@drawing(40)
@given(drawn=any_rule_sets())
def test_a_diagram_lists_the_unread_facts_that_brute_force_finds(drawn: RuleSet) -> None:
    """For whichever rule is undetermined, over names, labels and annotations."""
    diagram = diagram_of(drawn)
    for facts in drawn_facts(diagram.space, 100):
        verdict = diagram.verdict(facts)
        condition = drawn.rule(verdict.rule).when
        expected: tuple[str, ...] = ()
        if condition is not None:
            read = facts_read(condition)
            axes = tuple(axis for axis in diagram.space.axes if set(axis.facts) & set(read))
            names = [name for axis in axes for name in axis.facts]
            few = {name: fact for name, fact in drawn.question.facts.items() if name in names}
            expected = _by_brute_force(replace(drawn.question, facts=few, axes=axes), condition, facts)
        assert diagram.unread(verdict, facts) == expected
