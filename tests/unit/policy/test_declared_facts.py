"""Facts that a rule file declares: what they mean in decisions, paths and proofs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given

from callability.policy.proving.decided import Decided
from callability.policy.proving.proof import prove
from callability.policy.reporting.difference import differences
from callability.policy.rules.rule_set import RuleSet
from callability.reasoning.path import path_to_callable, sentences
from callability.reasoning.semantics import decide
from support.declared_rules import RULES, declaring_policy
from support.drawing import drawing
from support.drawn_policies import any_rule_sets, diagram_of

TEAM = {"agent.label.team": "ops"}
LICENSED = {"proxy.license": "true"}


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({}, ["`agent.label.team` from none to research or ops: the operator, by `edit_labels`"]),
        (TEAM, ["`proxy.license` from false to true: the user, by `accept_license`"]),
        (TEAM | LICENSED | {"proxy.quota": "out"}, ["`proxy.quota` from out to ok: the operator, by `raise_quota`"]),
        (TEAM | LICENSED | {"proxy.quota": "low"}, []),
    ],
)
def test_a_path_names_who_changes_a_declared_fact_and_to_what(
    facts: Mapping[str, str], wanted: list[str], tmp_path: Path
) -> None:
    """The owner changes it to its default; of an asserted fact, whose default locks, to another value."""
    proved = declaring_policy(tmp_path).rule_sets["callability"]
    given = proved.rule_set.question.completed(facts)
    path = path_to_callable(proved.rule_set, proved.diagram, given)
    assert path is not None
    assert list(sentences(path))[: len(wanted)] == wanted


def test_a_value_that_is_not_declared_is_unknown_and_of_an_asserted_fact_its_default(tmp_path: Path) -> None:
    """A caller of a later version may send a value that this file does not list."""
    facts = declaring_policy(tmp_path).rule_sets["callability"].rule_set.question.facts
    assert [facts["proxy.quota"].reading(value) for value in ("low", "lower", "unknown")] == ["low", *["unknown"] * 2]
    assert [facts["proxy.license"].reading(value) for value in ("true", "yes", "unknown")] == ["true", *["false"] * 2]


def _opens(rule_set: RuleSet) -> bool:
    """Say, combination by combination, whether the default of an asserted fact is callable and another value is not."""
    space = diagram_of(rule_set).space
    asserted = [fact for fact in rule_set.declared_facts if fact.asserted and fact.name in space.facts]

    def callable_at(facts: Mapping[str, str]) -> bool:
        decision = decide(rule_set.rules, facts)
        return not decision.undetermined and rule_set.rules[decision.rule].status == "callable"

    return any(
        callable_at({**facts, fact.name: fact.open_value}) and not callable_at(facts)
        for facts in map(space.named, space.combinations())
        for fact in asserted
    )


@drawing(60)
@given(drawn=any_rule_sets())
def test_an_unsafe_default_is_found_exactly_if_some_combination_shows_it(drawn: RuleSet) -> None:
    """The proof on the diagram says what a look at every combination says."""
    found = prove(drawn, Decided(drawn, diagram_of(drawn)))
    assert any(finding.code == "unsafe-default" for finding in found) is _opens(drawn)


def test_a_fact_that_is_no_longer_asserted_changes_the_answer_where_it_is_unknown(tmp_path: Path) -> None:
    """A diff reads the fact in each policy as that policy declares it."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = declaring_policy(tmp_path / "old")
    new = declaring_policy(
        tmp_path / "new", RULES.replace("    asserted: true\n", "").replace("default: false", "default: true")
    )
    [change] = differences(old, new)
    assert (change.before.status, change.after.status) == ("pending_approval", "disabled_unknown")
    assert change.unknown
    assert change.example["proxy.license"] == "unknown"
    assert differences(old, old) == ()
