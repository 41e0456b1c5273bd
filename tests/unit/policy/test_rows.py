"""The decision table in few rows, and changes in few conditions: short, and not one combination more or less."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from callability.compiler.combination_sets import Combination, CombinationSet, CombinationSets, Space
from callability.compiler.confirmation import Engine
from callability.compiler.difference import (
    Impact,
    PolicyChange,
    boxes,
    combinations_in,
    compared_space,
    differences,
    needed_boxes,
)
from callability.compiler.policy import Policy, ProvedRuleSet, load
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_set import RuleSet, Text
from callability.compiler.table import Plain, Row, of_count, of_diagram, rows_of
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import decide
from support.checkout import POLICY
from support.drawing import drawing
from support.drawn_policies import CORE_SPACE, NOWHERE, diagram_of, rule_sets

WORDS = {str(status): {"remediation": Text(f"Say {status}.", NOWHERE)} for status in CALLABILITY.statuses}


def _holds(facts: Mapping[str, tuple[str, ...]], given_facts: Mapping[str, str]) -> bool:
    return all(given_facts[fact] in values for fact, values in facts.items())


_THREE = Space(CALLABILITY, CORE_SPACE.axes[1:4])
_combinations = st.frozensets(st.sampled_from(list(dict.fromkeys(_THREE.combinations()))))


@given(wanted=_combinations, others=_combinations)
def test_boxes_hold_all_that_is_wanted_and_nothing_that_is_not_allowed(
    wanted: frozenset[Combination], others: frozenset[Combination]
) -> None:
    """Without those that are not needed too; and none of these can be spared."""
    sets = CombinationSets(_THREE)
    inside, allowed = (_set_of(each, sets) for each in (wanted, wanted | others))
    found = tuple(boxes(inside, allowed, sets))
    kept = needed_boxes(found, inside, sets)
    for some in (found, kept):
        held = sets.none
        for box in some:
            held |= combinations_in(box, sets)
        assert not inside - held
        assert not held - allowed
    for spared in range(len(kept)):
        others_held = sets.none
        for number, box in enumerate(kept):
            if number != spared:
                others_held |= combinations_in(box, sets)
        assert inside - others_held


def _set_of(combinations: Iterable[Combination], sets: CombinationSets) -> CombinationSet:
    found = sets.none
    for each in combinations:
        found |= combinations_in({fact: (value,) for fact, value in zip(_THREE.facts, each, strict=True)}, sets)
    return found


@drawing(60)
@given(drawn=rule_sets())
def test_the_first_row_that_holds_is_the_answer(drawn: RuleSet) -> None:
    """Of every combination, whatever the rules; a row that never decides is not there."""
    table = diagram_of(drawn)
    rows = rows_of(drawn, table)
    seen: set[Row] = set()
    for combination, verdict in table:
        facts = table.space.named(combination)
        row = next(row for row in rows if _holds(row.facts, facts))
        assert (row.status, row.rule, row.undetermined) == (verdict.status, verdict.rule, verdict.undetermined)
        seen.add(id(row))  # type: ignore[arg-type]
    assert len(seen) == len(rows)


def test_the_table_of_the_shipped_policy_reads_like_its_rules() -> None:
    """For each rule its own condition, and then where that is undetermined."""
    proved = _shipped().rule_sets["callability"]
    shown_rows = [(dict(row.facts), row.status) for row in rows_of(proved.rule_set, proved.diagram)]
    assert shown_rows == [
        ({"server.enabled": ("false",)}, "server_disabled"),
        ({"server.enabled": ("unknown",)}, "disabled_unknown"),
        ({"tool.config_denied": ("true",)}, "disabled_by_config"),
        ({"tool.config_denied": ("unknown",)}, "disabled_unknown"),
        ({"server.quarantined": ("true",)}, "server_quarantined"),
        ({"server.quarantined": ("unknown",)}, "disabled_unknown"),
        ({"approval.disabled": ("true",)}, "disabled_by_user"),
        ({"approval.disabled": ("unknown",)}, "disabled_unknown"),
        ({"approval.status": ("pending",)}, "pending_approval"),
        ({"approval.status": ("unknown",)}, "disabled_unknown"),
        ({"approval.status": ("changed",)}, "pending_approval"),
        ({"caller.refuses": ("true",)}, "disabled_unknown"),
        ({}, "callable"),
    ]


@cache
def _shipped() -> Policy:
    return load(POLICY, engine=Engine.REFERENCE)


def _policy(drawn: RuleSet) -> Policy:
    """Return a policy of which one rule set is drawn; the others are the shipped ones."""
    spoken = RuleSet(drawn.question, drawn.rules, WORDS)
    return Policy("", {**_shipped().rule_sets, "callability": ProvedRuleSet(spoken, diagram_of(drawn), 0)}, ())


@drawing(20)
@given(old=rule_sets(most=6), new=rule_sets(most=6))
def test_a_change_names_every_combination_that_is_answered_otherwise_and_no_other(old: RuleSet, new: RuleSet) -> None:
    """Over the facts that either of the two reads."""
    changes: tuple[PolicyChange, ...] = differences(_policy(old), _policy(new))
    assert {change.question for change in changes} <= {"callability"}
    for combination in CORE_SPACE.combinations():
        facts = CORE_SPACE.named(combination)
        before, after = (_status(each, facts) for each in (old, new))
        shown_rows = {
            (each.before.status, each.after.status) for each in changes if any(_holds(w, facts) for w in each.where)
        }
        assert shown_rows == ({(before, after)} if before != after else set())
        holding = [each for each in changes if any(_holds(where, facts) for where in each.where)]
        assert len(holding) == (before != after), "in exactly one group"
        assert UNKNOWN in facts.values() or not any(each.unknown for each in holding)


@drawing(20)
@given(old=rule_sets(most=6), new=rule_sets(most=6))
def test_the_counts_of_changes_add_up_and_those_about_known_facts_come_first(old: RuleSet, new: RuleSet) -> None:
    """To the combinations of the facts that either policy reads which are answered otherwise."""
    both = _policy(old), _policy(new)
    changes = differences(*both)
    space = compared_space(*(policy.rule_sets["callability"] for policy in both))
    combinations = (space.named(combination) for combination in space.combinations())
    assert sum(change.combinations for change in changes) == sum(
        _status(old, facts) != _status(new, facts) for facts in combinations
    )
    order = [(change.unknown, change.impact) for change in changes]
    assert order == sorted(order)
    for change in changes:
        assert change.impact == (
            Impact.LOCKED
            if change.before.status == "callable"
            else Impact.UNLOCKED
            if change.after.status == "callable"
            else Impact.OTHER_STATUS
        )


@drawing(20)
@given(drawn=rule_sets())
def test_a_policy_does_not_differ_from_itself(drawn: RuleSet) -> None:
    """Whatever its rules."""
    assert differences(_policy(drawn), _policy(drawn)) == ()


@drawing(30)
@given(drawn=rule_sets())
def test_the_counts_of_rows_add_up_to_the_space(drawn: RuleSet) -> None:
    """Each row counts what no row above it decides."""
    diagram = diagram_of(drawn)
    assert sum(row.combinations for row in rows_of(drawn, diagram)) == diagram.space.size


@given(wanted=_combinations)
def test_the_simplest_combination_of_a_set_has_as_many_facts_at_their_default_as_the_first_allow(
    wanted: frozenset[Combination],
) -> None:
    """A fact before decides for those after it; what cannot be at its default is known if it can be."""
    sets = CombinationSets(_THREE)
    inside = _set_of(wanted, sets)
    if not inside:
        return
    left = [dict(zip(_THREE.facts, each, strict=True)) for each in wanted]
    for fact in _THREE.facts:
        definition = CALLABILITY.facts[fact]
        for values in ((definition.open_value,), definition.values):
            if narrower := [facts for facts in left if facts[fact] in values]:
                left = narrower
                break
    found = sets.facts(inside)
    assert {fact: found[fact] for fact in _THREE.facts} in left


def _status(drawn: RuleSet, facts: Mapping[str, str]) -> str:
    decision = decide(drawn.conditions, facts)
    return "disabled_unknown" if decision.undetermined else drawn.rules[decision.rule].status


@drawing(30)
@given(drawn=rule_sets())
def test_a_diagram_for_programs_gives_each_verdict_and_its_unread_facts(drawn: RuleSet) -> None:
    """By the numbers alone, as a program would follow them."""
    diagram = diagram_of(drawn)
    plain = json.loads(json.dumps(of_diagram(diagram)))
    assert plain["combinations"] == diagram.space.size
    for combination, verdict in diagram:
        facts = dict(zip(diagram.space.facts, combination, strict=True))
        found = plain["verdicts"][_followed(plain, facts, plain["root"], plain["nodes"], len(plain["verdicts"]))]
        assert (found["status"], found["rule"], found["undetermined"]) == (
            verdict.status,
            verdict.rule,
            verdict.undetermined,
        )
        unread = plain["unread"]
        firsts = unread["rules"][verdict.rule].items() if verdict.undetermined else ()
        names = tuple(fact for fact, first in firsts if _followed(plain, facts, first, unread["nodes"], 2))
        assert names == diagram.unread(verdict, facts)


def _followed(plain: Plain, facts: Mapping[str, str], number: int, nodes: list[Plain], results: int) -> int:
    while number >= results:
        node = nodes[number - results]
        axis = plain["axes"][node["axis"]]
        number = node["children"][axis["points"].index([facts[fact] for fact in axis["facts"]])]
    return number


def test_counts_that_readers_of_json_would_round_are_strings() -> None:
    """Those that they keep are numbers."""
    assert [of_count(count) for count in (0, 2**53, 2**53 + 1, 10**30)] == [
        0,
        9007199254740992,
        "9007199254740993",
        "1000000000000000000000000000000",
    ]
