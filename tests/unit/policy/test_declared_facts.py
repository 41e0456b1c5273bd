"""Facts that a rule file declares: what they mean in decisions, paths and proofs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given

from callability.compiler.bundle_writing import compile_rule_set
from callability.compiler.difference import NotComparable, differences
from callability.compiler.policy import Policy, load
from callability.compiler.proof import Decided, prove
from callability.compiler.rule_set import RuleSet
from callability.kernel.conditions import decide
from callability.kernel.path import path_to_callable, sentences
from support.declared_rules import RULES, declaring_policy
from support.drawing import drawing
from support.drawn_policies import any_rule_sets, diagram_of
from support.policies import write_policy

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
    given = proved.rule_set.question.complete(facts)
    path = path_to_callable(compile_rule_set(proved), given)
    assert path is not None
    assert list(sentences(path))[: len(wanted)] == wanted


def test_a_value_that_is_not_declared_is_unknown_and_of_an_asserted_fact_its_default(tmp_path: Path) -> None:
    """A caller of a later version may send a value that this file does not list."""
    facts = declaring_policy(tmp_path).rule_sets["callability"].rule_set.question.facts
    assert [facts["proxy.quota"].reading(value) for value in ("low", "lower", "unknown")] == ["low", *["unknown"] * 2]
    assert [facts["proxy.license"].reading(value) for value in ("true", "yes", "unknown")] == ["true", *["false"] * 2]


@pytest.mark.parametrize("written", ["00", "010", "0x10", "0o17", "0b11", "1_000", "+5", "-0", "2026-01-01", "yes"])
def test_a_value_without_quotes_is_the_text_that_is_written(written: str, tmp_path: Path) -> None:
    """YAML reads some as numbers, and a caller sends the text; a test of the policy says it with or without quotes."""
    cases = "".join(
        f"  - {{name: {name}, facts: {{agent.label.team: ops, proxy.license: true, proxy.quota: {value}}},"
        " expect: {status: disabled_by_config, rule: no-quota}}\n"
        for name, value in (("with quotes", f"'{written}'"), ("without quotes", written))
    )
    (tmp_path / "callability_test.yaml").write_text(f"tests:\n{cases}")
    proved = declaring_policy(tmp_path, RULES.replace("out", written)).rule_sets["callability"]
    assert proved.rule_set.question.facts["proxy.quota"].values == ("ok", "low", written)
    given = proved.rule_set.question.complete(TEAM | LICENSED | {"proxy.quota": written})
    assert proved.diagram.verdict(given).rule == "no-quota"


def _opens(rule_set: RuleSet) -> bool:
    """Say, combination by combination, whether the default of an asserted fact is callable and another value is not."""
    space = diagram_of(rule_set).space
    asserted = [fact for fact in rule_set.declared_facts if fact.asserted and fact.name in space.facts]

    def callable_at(facts: Mapping[str, str]) -> bool:
        decision = decide(rule_set.conditions, facts)
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


EXPIRING = (
    RULES.replace("[true, false]", "[none, full, expired]")
    .replace("default: false", "default: none")
    .replace(
        "  - id: unlicensed\n    when: {proxy.license: false}",
        "  - {id: expired, when: {proxy.license: expired}, status: disabled_by_config, action: '{edit_policy}.'}\n"
        "  - id: unlicensed\n    when: {proxy.license: none}",
    )
)


def _two(directory: Path, old: str, new: str, rules: str = RULES) -> tuple[Policy, Policy]:
    """Return the policy of some rules, and that in which one text of them is another."""
    assert old in rules
    for name, text in (("old", rules), ("new", rules.replace(old, new))):
        (directory / name).mkdir()
        write_policy(directory / name, text)
    return load(directory / "old"), load(directory / "new")


def test_another_default_of_an_asserted_fact_changes_the_answer_where_it_is_not_sent(tmp_path: Path) -> None:
    """Both defaults lock, by different rules."""
    [change] = differences(*_two(tmp_path, "default: none", "default: expired", EXPIRING))
    assert (change.before.status, change.after.status) == ("pending_approval", "disabled_by_config")
    assert change.unknown
    assert change.example["proxy.license"] == "unknown"


def test_another_phrase_of_a_declared_action_is_another_answer(tmp_path: Path) -> None:
    """The agent reads it."""
    old, new = _two(tmp_path, "phrase: raise the quota", "phrase: buy more")
    [change] = differences(old, new)
    assert change.words_only
    assert [(reply.words or {})["{raise_quota}"] for reply in (change.before, change.after)] == [
        "raise the quota",
        "buy more",
    ]


def test_policies_whose_callers_send_a_fact_with_different_subjects_are_not_compared(tmp_path: Path) -> None:
    """To a caller of the old one, every tool that reaches the rule of the new one is undetermined."""
    old, new = _two(tmp_path, "of: server", "of: agent")
    with pytest.raises(
        NotComparable, match=r"`proxy\.quota` is of the server in the old one and of the agent in the new"
    ):
        differences(old, new)


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
