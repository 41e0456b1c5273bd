"""The rules engine and the reference decide both questions about outcomes alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.compiler.combination_sets import space_of
from callability.compiler.confirmation import Engine
from callability.compiler.question import Question
from callability.compiler.questions import ENABLE_OUTCOME, LOAD_OUTCOME
from callability.compiler.rule_set import Rule, RuleSet
from callability.kernel.conditions import AllOf, AnyOf, Condition, Is, Not
from support.drawing import drawing
from support.drawn_policies import NOWHERE, diagram_of, evaluated
from support.policies import needs_engine


def _conditions(question: Question) -> st.SearchStrategy[Condition]:
    one = st.sampled_from(list(question.facts.values())).flatmap(
        lambda fact: st.builds(Is, st.just(fact.name), st.frozensets(st.sampled_from(fact.values), min_size=1))
    )
    return (
        one
        | st.builds(Not, one)
        | st.builds(lambda *parts: AllOf(parts), one, one)
        | st.builds(lambda *parts: AnyOf(parts), one, one)
    )


@needs_engine
@pytest.mark.parametrize("question", [LOAD_OUTCOME, ENABLE_OUTCOME], ids=lambda question: question.name)
@drawing(8)
@given(data=st.data())
def test_engine_and_reference_agree_about_any_rules(question: Question, data: st.DataObject) -> None:
    """Over random rule sets of both questions, one fact or none in their space among them."""
    drawn = data.draw(
        st.lists(st.tuples(_conditions(question), st.sampled_from(question.statuses)), max_size=5), label="rules"
    )
    rules = [Rule(f"r{number}", when, status, NOWHERE) for number, (when, status) in enumerate(drawn)]
    rule_set = RuleSet(question, (*rules, Rule("last", None, question.undetermined, NOWHERE)), {})
    space = space_of(rule_set)
    by_engine, by_reference = (
        evaluated(rule_set, space, by=engine).decisions for engine in (Engine.DURABLE_RULES, Engine.REFERENCE)
    )
    assert by_engine == by_reference
    assert diagram_of(rule_set).verdict(question.open_facts).status in question.statuses
