"""The rules engine in its process: it decides like the reference, and its failure is a finding."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.compiler.combination_sets import space_of
from callability.compiler.confirmation import Engine, no_progress, run
from callability.compiler.diagram import NotDecided, build
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_file import MAX_RULES
from callability.kernel.conditions import AllOf, AnyOf, Condition, Decision, Is, Not, decide
from support.drawing import drawing
from support.drawn_policies import CORE, CORE_SPACE, NOWHERE, conditions, evaluated, rule_set_of
from support.policies import needs_engine

_rules = st.lists(st.tuples(conditions, st.sampled_from(CALLABILITY.statuses)), max_size=12)


@needs_engine
@drawing(60)
@given(drawn=_rules)
def test_engine_diagram_and_reference_agree_on_every_combination(drawn: list[tuple[Condition, str]]) -> None:
    """Over random rule sets, all combinations, unknown facts among them."""
    rule_set, space = rule_set_of(drawn), CORE_SPACE
    evaluation = evaluated(rule_set, space, by=Engine.DURABLE_RULES)
    diagram = build(rule_set, space)
    assert evaluation.engine.startswith("durable-rules")
    for combination in space.combinations():
        facts = space.named(combination)
        decision = decide(rule_set.conditions, facts)
        assert evaluation.decisions[combination] == decision
        verdict = diagram.verdict(facts)
        status = CALLABILITY.undetermined if decision.undetermined else rule_set.rules[decision.rule].status
        assert (verdict.status, verdict.rule) == (status, rule_set.rules[decision.rule].id)


def _drawn_condition(chance: Random, depth: int = 0) -> Condition:
    kind = chance.choice(["is", "is", "not", "all", "any"]) if depth < 3 else "is"
    if kind == "is":
        fact = chance.choice(CORE)
        return Is(fact.name, frozenset(chance.sample(fact.values, chance.randint(1, len(fact.values)))))
    if kind == "not":
        return Not(_drawn_condition(chance, depth + 1))
    parts = tuple(_drawn_condition(chance, depth + 1) for _ in range(chance.randint(1, 3)))
    return AllOf(parts) if kind == "all" else AnyOf(parts)


@needs_engine
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_engine_takes_as_many_rules_as_a_file_may_have(seed: int) -> None:
    """In blocks, since the engine has limits of its own."""
    chance = Random(seed)
    drawn = [(_drawn_condition(chance), chance.choice(CALLABILITY.statuses)) for _ in range(MAX_RULES - 1)]
    rule_set, space = rule_set_of(drawn), CORE_SPACE
    by_engine = evaluated(rule_set, space, by=Engine.DURABLE_RULES)
    assert by_engine.decisions == evaluated(rule_set, space, by=Engine.REFERENCE).decisions


@needs_engine
def test_comparing_finds_an_engine_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--engine both` is a comparison: a reference that decides differently is noticed."""
    rule_set = rule_set_of([(Is("server.enabled", frozenset({"false"})), "server_disabled")])
    monkeypatch.setattr(
        "callability.compiler.confirmation.decide",
        lambda rules, facts: Decision(len(rules) - 1, undetermined=False),
    )
    with pytest.raises(NotDecided, match=r"durable-rules .* reaches `r0`, the reference reaches `last`") as caught:
        evaluated(rule_set, space_of(rule_set), by=Engine.BOTH)
    assert caught.value.finding.code == "engines-differ"


@needs_engine
def test_an_engine_that_takes_too_long_is_ended() -> None:
    """The child process has a time limit, and a rule set that exceeds it is refused."""
    rule_set = rule_set_of([(Is("server.enabled", frozenset({"false"})), "server_disabled")])
    with pytest.raises(NotDecided, match=r"did not decide within 0\.001 seconds") as caught:
        evaluated(rule_set, space_of(rule_set), by=Engine.DURABLE_RULES, seconds=0.001)
    assert caught.value.finding.code == "engine-timeout"


@needs_engine
def test_an_engine_that_fails_is_reported_with_its_last_message() -> None:
    """A malformed task ends its process."""
    with pytest.raises(NotDecided, match="the rules engine failed: KeyError: 'blocks'") as caught:
        run("{}", NOWHERE, 60, no_progress)
    assert caught.value.finding.code == "engine-failed"


def test_an_engine_that_is_requested_and_missing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference replaces it, unless it is requested by name."""
    (tmp_path / "durable").mkdir()
    (tmp_path / "durable/__init__.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rule_set = rule_set_of([(Is("server.enabled", frozenset({"false"})), "server_disabled")])
    with pytest.raises(NotDecided) as caught:
        evaluated(rule_set, space_of(rule_set), by=Engine.DURABLE_RULES)
    assert caught.value.finding.code == "engine-unavailable"
    assert evaluated(rule_set, space_of(rule_set), by=Engine.AUTO).engine == "reference"
