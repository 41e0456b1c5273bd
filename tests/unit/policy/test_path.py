"""The path to callable, and the reasons of an explanation: both name what matters, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from callability.policy.questions.callability import CALLABILITY
from callability.policy.questions.fact import LabelFact
from callability.policy.rules.rule_set import Rule, RuleSet
from callability.reasoning.condition import All, Any, Condition, Is, Not, facts_read
from callability.reasoning.explanation import explain
from callability.reasoning.path import FactChange, PathEnd, Step, path_to_callable, sentences
from callability.reasoning.semantics import decide
from callability.vocabulary import UNKNOWN, LiftedBy
from support.commands import callability
from support.drawing import drawing
from support.drawn_policies import CORE, NOWHERE, diagram_of
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
        st.builds(All, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Any, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
_drawn = st.lists(st.tuples(_conditions, st.sampled_from(CALLABILITY.statuses)), min_size=1, max_size=5)
_facts = st.fixed_dictionaries({fact.name: st.sampled_from(fact.readings) for fact in FACTS}).filter(
    lambda facts: QUESTION.contradicted(QUESTION.open_facts | facts) is None
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
        decision = decide(rule_set.rules, _after(steps[:number], facts, wanted))
        if decision.undetermined or rule_set.rules[decision.rule] is not step.rule:
            return None
    decision = decide(rule_set.rules, _after(steps, facts, wanted))
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
    path = path_to_callable(rule_set, diagram_of(rule_set), facts)
    assert path is not None
    status = _leads(rule_set, path.steps, facts, {})
    assert status is not None
    assert (status == "callable") is (path.end is PathEnd.CALLABLE)
    names = [change.fact.name for change in path.changes]
    assert len(set(names)) == len(names)
    for change in path.changes:
        assert facts[change.fact.name] == change.value not in {UNKNOWN, *change.wanted_values}
        for value in set(change.fact.values) - {change.value}:
            if path.end is PathEnd.CALLABLE and isinstance(change.fact, LabelFact):
                does = _leads(rule_set, path.steps, facts, {change.fact.name: value}) == "callable"
                assert does is (value in change.wanted_values)
    for number, step in enumerate(path.steps):
        for spared in step.changes:
            others = [change for change in step.changes if change is not spared]
            without = _after([*path.steps[:number], Step(step.rule, tuple(others))], facts, {})
            assert step.rule.when is not None
            assert step.rule.when.truth(without) is not False


@drawing(100)
@given(drawn=_drawn, drawn_facts=_facts)
def test_only_a_change_of_the_policy_helps_where_nobody_can_make_the_rule_false(
    drawn: Sequence[tuple[Condition, str]], drawn_facts: Mapping[str, str]
) -> None:
    """Whichever of its facts are changed to their defaults first; labels are tested below."""
    rule_set, facts = _rule_set(drawn), QUESTION.open_facts | dict(drawn_facts)
    path = path_to_callable(rule_set, diagram_of(rule_set), facts)
    assert path is not None
    if path.end is not PathEnd.POLICY_CHANGE:
        return
    now = _after(path.steps, facts, {})
    when = rule_set.rules[decide(rule_set.rules, now).rule].when
    assert when is not None
    changed = {change.fact.name for change in path.changes}
    read = [fact for fact in CORE if fact.name in facts_read(when) and fact.name not in changed]
    choices = [{now[fact.name], fact.open_value if fact.opened_by else now[fact.name]} for fact in read]
    for chosen in product(*choices):
        opened = {fact.name: value for fact, value in zip(read, chosen, strict=True)}
        assert when.truth({**now, **opened}) is not False


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
    why = explain(rule_set, diagram_of(rule_set), facts).trials[0].why
    reasons = [fact for fact in facts_read(condition) if f"`{fact}` is " in why]
    assert reasons
    for left_out in (None, *reasons):
        known = {fact: facts[fact] if fact in reasons and fact != left_out else UNKNOWN for fact in facts}
        assert (condition.truth(known) is truth) is (left_out is None)


def _path_of(*drawn: tuple[Condition, str], **labels: str) -> tuple[str, ...]:
    """Return the sentences of a path, for the values of labels by their keys."""
    given_labels = {STAGE.name: labels.get("stage", "none"), KIND.name: labels.get("kind", "none")}
    path = path_to_callable(_rule_set(drawn), diagram_of(_rule_set(drawn)), QUESTION.open_facts | given_labels)
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


def test_labels_that_lock_whatever_they_are_leave_a_change_of_the_policy() -> None:
    """The search ends, although each value leads to a rule that another value makes false."""
    first, second = (
        (Is(STAGE.name, frozenset(values)), "disabled_by_config") for values in (("none", "trial"), ("live", "old"))
    )
    *_, end = _path_of(first, second, stage="trial")
    assert end == "only a change of the policy lifts this"


def test_many_labels_in_one_rule_are_no_problem() -> None:
    """All of them have to change; their subsets are not tried one after the other."""
    labels = [LabelFact(f"server.label.l{number:02}", ("none", "on"), "none") for number in range(60)]
    question = CALLABILITY.having(labels)
    when = Any(tuple(Is(label.name, frozenset({"on"})) for label in labels))
    rules = (Rule("all", when, "disabled_by_config", NOWHERE), Rule("last", None, "callable", NOWHERE))
    rule_set = RuleSet(question, rules, {})
    facts = question.open_facts | {label.name: "on" for label in labels}
    path = path_to_callable(rule_set, diagram_of(rule_set), facts)
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
    assert FactChange(STAGE, "trial", ("none", "live")).wanted == "none"
