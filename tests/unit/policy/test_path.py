"""The path to callable, and the reasons of an explanation: both name what matters, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callability.compiler.question import Fact, LabelFact
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_set import Rule, RuleSet
from callability.contract.vocabulary import UNKNOWN, LiftedBy
from callability.kernel import path
from callability.kernel.conditions import AllOf, AnyOf, Condition, Is, Not, decide, facts_read
from callability.kernel.path import PathEnd, Step, explain, path_to_callable, sentences
from support.commands import callability
from support.drawing import drawing
from support.drawn_policies import CORE, NOWHERE, compiled_of
from support.label_rules import RULES
from support.policies import write_policy

STAGE = LabelFact("server.label.stage", ("none", "trial", "live", "old"), "none")
KIND = LabelFact("tool.label.kind", ("none", "safe", "odd"), "none")
QUESTION = CALLABILITY.having([STAGE, KIND])
FACTS = (*CORE, STAGE, KIND)

_is = st.sampled_from((*FACTS, STAGE, KIND, STAGE)).flatmap(
    lambda fact: st.builds(Is, st.just(fact.name), st.frozensets(st.sampled_from(fact.values), min_size=1))
)
_conditions: st.SearchStrategy[Condition] = st.recursive(
    _is,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
_drawn = st.lists(st.tuples(_conditions, st.sampled_from(CALLABILITY.statuses)), min_size=1, max_size=5)
_ENDS = ((Is(STAGE.name, frozenset({"none", "old"})), "disabled_by_config"),)
"""A rule in front of the last, so that many policies have few ways to callable."""
_facts = st.fixed_dictionaries({fact.name: st.sampled_from(fact.readings) for fact in FACTS}).filter(
    lambda facts: QUESTION.contradiction(QUESTION.open_facts | facts) is None
)


def _rule_set(drawn: Sequence[tuple[Condition, str]]) -> RuleSet:
    rules = tuple(Rule(f"r{number}", when, status, NOWHERE) for number, (when, status) in enumerate(drawn))
    return RuleSet(QUESTION, (*rules, Rule("last", None, "callable", NOWHERE)), {})


def _after(steps: Sequence[Step], facts: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    changed = {
        change.fact.name: wanted.get(change.fact.name, change.wanted) for step in steps for change in step.changes
    }
    return {**facts, **changed}


def _leads(rule_set: RuleSet, steps: Sequence[Step], facts: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    """Return the status after the steps; None if another rule than that of a step decides before it."""
    for number, step in enumerate(steps):
        decision = decide(rule_set.conditions, _after(steps[:number], facts, wanted))
        if decision.undetermined or rule_set.rules[decision.rule].id != step.rule.id:
            return None
    decision = decide(rule_set.conditions, _after(steps, facts, wanted))
    return "disabled_unknown" if decision.undetermined else rule_set.rules[decision.rule].status


@drawing(150)
@given(drawn=_drawn, drawn_facts=_facts)
def test_what_the_path_names_makes_the_tool_callable_by_any_value_that_it_names(
    drawn: Sequence[tuple[Condition, str]], drawn_facts: Mapping[str, str]
) -> None:
    """Each step is about the rule that decides at that point; it lists every value that helps, and no superfluous
    change.
    """
    rule_set, facts = _rule_set(drawn), QUESTION.open_facts | dict(drawn_facts)
    path = path_to_callable(compiled_of(rule_set), facts)
    assert path is not None
    status = _leads(rule_set, path.steps, facts, {})
    assert status is not None
    assert (status == "callable") is (path.end is PathEnd.CALLABLE)
    names = [change.fact.name for change in path.changes]
    assert len(set(names)) == len(names)
    for change in path.changes:
        assert facts[change.fact.name] == change.value not in {UNKNOWN, *change.wanted_values}
        for value in set(change.fact.values) - {change.value}:
            if path.end is PathEnd.CALLABLE and change.fact.opened_by_any_value:
                does = _leads(rule_set, path.steps, facts, {change.fact.name: value}) == "callable"
                assert does is (value in change.wanted_values)
    for number, step in enumerate(path.steps):
        for spared in step.changes:
            others = [change for change in step.changes if change is not spared]
            without = _after([*path.steps[:number], Step(step.rule, tuple(others))], facts, {})
            number_then, undetermined = _decided(rule_set, without)
            assert undetermined or number_then <= [rule.id for rule in rule_set.rules].index(step.rule.id)


def _decided(rule_set: RuleSet, facts: Mapping[str, str]) -> tuple[int, bool]:
    decision = decide(rule_set.conditions, facts)
    return decision.rule, decision.undetermined


def _changed(rule_set: RuleSet, facts: Mapping[str, str], *, read: bool) -> Iterator[dict[str, str]]:
    """Yield every combination that changes make of some facts; with `read`, unknown ones become known first."""
    names = sorted({name for rule in rule_set.rules for name in rule.reads})
    choices = [tuple(_choices(QUESTION.facts[name], facts[name], read=read)) for name in names]
    for chosen in product(*choices):
        yield {**facts, **dict(zip(names, chosen, strict=True))}


def _choices(fact: Fact, value: str, *, read: bool) -> Iterator[str]:
    yield value
    if value == UNKNOWN:
        yield from fact.values if read else ()
    elif isinstance(fact, LabelFact):
        yield from set(fact.values) - {value}
    elif fact.opened_by and value != fact.open_value:
        yield fact.open_value


def _some_open(rule_set: RuleSet, facts: Mapping[str, str], *, read: bool) -> bool:
    return any(
        _is_callable(rule_set, each) and QUESTION.contradiction(each) is None
        for each in _changed(rule_set, facts, read=read)
    )


def _is_callable(rule_set: RuleSet, facts: Mapping[str, str]) -> bool:
    decision = decide(rule_set.conditions, facts)
    return not decision.undetermined and rule_set.rules[decision.rule].status == "callable"


@drawing(200)
@given(drawn=_drawn, drawn_facts=_facts)
def test_a_path_leads_to_callable_if_and_only_if_some_changes_do(
    drawn: Sequence[tuple[Condition, str]], drawn_facts: Mapping[str, str]
) -> None:
    """Where no fact is unknown. Every combination of changes is tried; without a path, no change is named."""
    known = {name: value for name, value in drawn_facts.items() if value != UNKNOWN}
    rule_set, facts = _rule_set([*drawn, *_ENDS]), QUESTION.open_facts | known
    if QUESTION.contradiction(facts) is not None:
        return
    path = path_to_callable(compiled_of(rule_set), facts)
    assert path is not None
    assert (path.end is PathEnd.CALLABLE) is _some_open(rule_set, facts, read=False)
    if path.end is not PathEnd.CALLABLE:
        assert (path.end, path.steps) == (PathEnd.POLICY_CHANGE, ())


@drawing(200)
@given(drawn=_drawn, drawn_facts=_facts)
# A record that is disabled has a status, whatever it is: it cannot turn out to be `none`.
@example(
    drawn=[(Not(Is("approval.status", frozenset({"none"}))), "server_disabled")],
    drawn_facts={
        **{fact.name: fact.open_value for fact in FACTS},
        "approval.disabled": "true",
        "approval.status": UNKNOWN,
    },
)
def test_only_a_change_of_the_policy_helps_if_no_change_does_whatever_an_unknown_fact_is(
    drawn: Sequence[tuple[Condition, str]], drawn_facts: Mapping[str, str]
) -> None:
    """What is to be found out otherwise are facts that are unknown, and some values of them help."""
    rule_set, facts = _rule_set([*drawn, *_ENDS]), QUESTION.open_facts | dict(drawn_facts)
    path = path_to_callable(compiled_of(rule_set), facts)
    assert path is not None
    if path.end is PathEnd.POLICY_CHANGE:
        assert (path.steps, path.find_out) == ((), ())
        assert not _some_open(rule_set, facts, read=True)
    elif path.end is PathEnd.FIND_OUT:
        assert path.find_out
        assert _some_open(rule_set, facts, read=True)
        assert {facts[name] for name in path.find_out} == {UNKNOWN}


@drawing(100)
@given(condition=_conditions, drawn_facts=_facts)
def test_the_reasons_of_a_truth_are_enough_and_none_can_be_spared(
    condition: Condition, drawn_facts: Mapping[str, str]
) -> None:
    """These facts alone, with every other fact unknown, give the truth; an unknown fact is no reason."""
    rule_set, facts = _rule_set([(condition, "disabled_by_config")]), QUESTION.open_facts | dict(drawn_facts)
    truth = condition.truth(facts)
    if truth is None:
        return
    why = explain(compiled_of(rule_set), facts).trials[0].why
    reasons = [fact for fact in facts_read(condition) if f"`{fact}` is " in why]
    assert reasons
    for left_out in (None, *reasons):
        known = {fact: facts[fact] if fact in reasons and fact != left_out else UNKNOWN for fact in facts}
        assert (condition.truth(known) is truth) is (left_out is None)


def _path_of(*drawn: tuple[Condition, str], **labels: str) -> tuple[str, ...]:
    """Return the sentences of a path, for the values of labels by their keys."""
    given_labels = {STAGE.name: labels.get("stage", "none"), KIND.name: labels.get("kind", "none")}
    path = path_to_callable(compiled_of(_rule_set(drawn)), QUESTION.open_facts | given_labels)
    assert path is not None
    return sentences(path)


def test_a_value_that_a_later_rule_locks_is_not_named() -> None:
    """The path looks ahead: the operator changes a label once."""
    trial = Is(STAGE.name, frozenset({"trial"}))
    unlabelled = Is(STAGE.name, frozenset({"none"}))
    assert _path_of((trial, "disabled_by_config"), (unlabelled, "disabled_by_config"), stage="trial") == (
        "`server.label.stage` from trial to live or old: the operator, by `edit_labels`",
        "then it is callable",
    )


def test_nothing_is_to_be_found_out_if_no_value_of_it_helps() -> None:
    """Whether the server is enabled is not known, and a later rule locks the tool in both cases."""
    disabled = (Is("server.enabled", frozenset({"false"})), "server_disabled")
    locked = (Is(STAGE.name, frozenset(STAGE.values)), "disabled_by_config")
    facts = QUESTION.open_facts | {"server.enabled": UNKNOWN}
    for rules, end in (((disabled,), PathEnd.FIND_OUT), ((disabled, locked), PathEnd.POLICY_CHANGE)):
        rule_set = _rule_set(rules)
        path = path_to_callable(compiled_of(rule_set), facts)
        assert path is not None
        assert (path.steps, path.end) == ((), end)


def test_labels_that_lock_whatever_they_are_leave_a_change_of_the_policy() -> None:
    """The search ends, although each value leads to a rule that another value makes false."""
    first, second = (
        (Is(STAGE.name, frozenset(values)), "disabled_by_config") for values in (("none", "trial"), ("live", "old"))
    )
    *_, end = _path_of(first, second, stage="trial")
    assert end == "only a change of the policy lifts this"


def test_nothing_is_claimed_if_the_diagram_is_too_large_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a path nor that there is none; a path that the first search finds needs no diagram."""
    monkeypatch.setattr(path, "MOST_LOOKS", 1)
    shut = (Is(STAGE.name, frozenset(STAGE.values)), "disabled_by_config")
    rule_set = _rule_set([shut])
    assert path_to_callable(compiled_of(rule_set), QUESTION.open_facts) is None
    assert _path_of((Is(STAGE.name, frozenset({"trial"})), "disabled_by_config"), stage="trial")[-1] == (
        "then it is callable"
    )


def test_many_labels_in_one_rule_are_no_problem() -> None:
    """All of them have to change; their subsets are not tried one after the other."""
    labels = [LabelFact(f"server.label.l{number:02}", ("none", "on"), "none") for number in range(60)]
    question = CALLABILITY.having(labels)
    when = AnyOf(tuple(Is(label.name, frozenset({"on"})) for label in labels))
    rules = (Rule("all", when, "disabled_by_config", NOWHERE), Rule("last", None, "callable", NOWHERE))
    rule_set = RuleSet(question, rules, {})
    facts = question.open_facts | {label.name: "on" for label in labels}
    path = path_to_callable(compiled_of(rule_set), facts)
    assert path is not None
    assert (len(path.changes), path.end) == (60, PathEnd.CALLABLE)


def test_a_rule_that_does_not_hold_names_what_makes_it_false_alone(tmp_path: Path) -> None:
    """Of three facts that the rule reads, the first one that is enough."""
    done = callability("explain", "--policy", str(write_policy(tmp_path, RULES)), "annotations.destructive=false")
    assert "  frozen does not hold, since `server.label.environment` is none\n" in done.stdout
    arguments = ("server.label.environment=production", "annotations.destructive=false", "tool.label.reviewed=yes")
    done = callability("explain", "--policy", str(tmp_path), *arguments)
    assert "  frozen does not hold, since `annotations.destructive` is false\n" in done.stdout


def test_labels_belong_to_the_operator() -> None:
    """And the action that changes them is the operator's."""
    action = next(action for action in CALLABILITY.actions if action.name == STAGE.action)
    assert (STAGE.opened_by, action.owner, action.labels) == (LiftedBy.OPERATOR, LiftedBy.OPERATOR, True)
