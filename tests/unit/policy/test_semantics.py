"""The meaning of a rule set: the rules engine, the table and the reference agree."""

from __future__ import annotations

import pytest

from callability.compiler.confirmation import ConditionTooLarge, conjunctions
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_set import Rule
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import AllOf, AnyOf, Condition, Decision, Is, Not, decide
from callability.kernel.path import PathEnd, path_to_callable
from support.drawn_policies import NOWHERE, compiled_of, rule_set_of


def _one(condition: Condition, **facts: str) -> Decision:
    return decide((condition, None), {name.replace("_", "."): value for name, value in facts.items()})


A_TRUE, B_TRUE = Is("a", frozenset({"true"})), Is("b", frozenset({"true"}))


def test_a_rule_below_the_first_match_never_matters() -> None:
    """First match."""
    for below in (None, A_TRUE, Not(A_TRUE), B_TRUE):
        assert decide((A_TRUE, below), {"a": "true", "b": UNKNOWN}) == Decision(0, undetermined=False)


def test_a_rule_that_is_reached_and_rests_on_an_unknown_fact_is_undetermined() -> None:
    """Whatever stands below."""
    assert _one(A_TRUE, a=UNKNOWN) == Decision(0, undetermined=True)


@pytest.mark.parametrize(
    ("condition", "decision"),
    [
        (AllOf((A_TRUE, B_TRUE)), Decision(1, undetermined=False)),
        (AllOf((B_TRUE, A_TRUE)), Decision(1, undetermined=False)),
        (AnyOf((A_TRUE, Not(B_TRUE))), Decision(0, undetermined=False)),
        (AnyOf((A_TRUE, B_TRUE)), Decision(0, undetermined=True)),
        (Not(A_TRUE), Decision(0, undetermined=True)),
        (AllOf((A_TRUE, Not(B_TRUE))), Decision(0, undetermined=True)),
    ],
)
def test_an_unknown_part_matters_only_where_the_others_leave_it_open(condition: Condition, decision: Decision) -> None:
    """Kleene's logic, with `a` unknown and `b` false."""
    assert _one(condition, a=UNKNOWN, b="false") == decision


def test_no_rule_that_holds_is_an_error_and_not_an_answer() -> None:
    """A rule set that could fall through does not load; the reference reports it anyway."""
    with pytest.raises(LookupError):
        decide((A_TRUE,), {"a": "false"})


def test_a_condition_that_multiplies_out_is_refused() -> None:
    """Groups of alternatives joined by *and* amount to more conjunctions than the engine accepts."""
    values = tuple("abcdefghij")
    domains = {f"fact{number}": (*values, UNKNOWN) for number in range(5)}
    parts = tuple(Is(fact, frozenset(values[:8])) for fact in domains)
    with pytest.raises(ConditionTooLarge):
        conjunctions(0, Rule("one", AllOf(parts), "callable", NOWHERE), domains)


def test_a_path_says_what_to_find_out_where_a_known_fact_alone_does_not_open() -> None:
    """A rule that is true through one fact does not depend on another, unknown one."""
    when = AnyOf((Is("server.enabled", frozenset({"false"})), Is("tool.config_denied", frozenset({"true"}))))
    rule_set = rule_set_of([(when, "server_disabled")])
    facts = CALLABILITY.open_facts | {"server.enabled": "false", "tool.config_denied": UNKNOWN}
    path = path_to_callable(compiled_of(rule_set), facts)
    assert path is not None
    assert (path.steps, path.end, path.find_out) == ((), PathEnd.FIND_OUT, ("tool.config_denied",))


def test_a_path_opens_no_more_than_it_needs() -> None:
    """Of two facts that must both hold, one."""
    when = AllOf((Is("server.enabled", frozenset({"false"})), Is("tool.config_denied", frozenset({"true"}))))
    facts = CALLABILITY.open_facts | {"server.enabled": "false", "tool.config_denied": "true"}
    rule_set = rule_set_of([(when, "server_disabled")])
    path = path_to_callable(compiled_of(rule_set), facts)
    assert path is not None
    assert [[change.fact.name for change in step.changes] for step in path.steps] == [["server.enabled"]]
    assert path.end is PathEnd.CALLABLE
