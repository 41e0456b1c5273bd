"""The decision table in few rows, and changes in few conditions: short, and not one combination more or less."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from callability.policy.deciding.tabulation import Engine
from callability.policy.loading import Policy, ProvedRuleSet, load
from callability.policy.questions.callability import CALLABILITY
from callability.policy.reporting.difference import PolicyChange, differences
from callability.policy.reporting.region import Region, described
from callability.policy.reporting.rows import Row, rows_of
from callability.policy.rules.rule_set import RuleSet, Text
from callability.policy.rules.semantics import decide
from support.checkout import POLICY
from support.drawn_policies import CORE_SPACE, NOWHERE, rule_sets, tabled

FACTS = ("a", "b", "c")
DOMAINS = (("0", "1"), ("0", "1", "2"), ("0", "1", "2", "3"))
_combinations = st.tuples(*map(st.sampled_from, DOMAINS))
WORDS = {str(status): {"remediation": Text(f"Say {status}.", NOWHERE)} for status in CALLABILITY.statuses}


def _holds(facts: Mapping[str, tuple[str, ...]], given_facts: Mapping[str, str]) -> bool:
    return all(given_facts[fact] in values for fact, values in facts.items())


@settings(deadline=None)
@given(
    wanted=st.frozensets(_combinations, min_size=1),
    others=st.frozensets(_combinations),
    rest=st.frozensets(_combinations),
)
def test_boxes_hold_all_that_is_wanted_and_nothing_that_is_not_allowed(
    wanted: frozenset[tuple[str, ...]], others: frozenset[tuple[str, ...]], rest: frozenset[tuple[str, ...]]
) -> None:
    """What cannot occur may be in them or not."""
    allowed = wanted | others
    possible = allowed | rest
    boxes = described(Region.of(wanted), Region.of(allowed), Region.of(possible), DOMAINS)
    held = {
        each for each in possible if any(all(v in part for v, part in zip(each, box, strict=True)) for box in boxes)
    }
    assert wanted <= held <= allowed


@settings(deadline=None)
@given(combinations=st.frozensets(_combinations))
def test_a_region_has_each_combination_once(combinations: frozenset[tuple[str, ...]]) -> None:
    """However its boxes are joined."""
    region = Region.of([*combinations, *combinations])
    assert len(region) == len(combinations)
    everything = tuple(map(frozenset, DOMAINS))
    assert region.inside(everything) == len(combinations)


@settings(max_examples=60, deadline=None)
@given(drawn=rule_sets())
def test_the_first_row_that_holds_is_the_answer(drawn: RuleSet) -> None:
    """Of every combination, whatever the rules; a row that never decides is not there."""
    table = tabled(drawn)
    rows = rows_of(drawn, table)
    seen: set[Row] = set()
    for combination, verdict in table:
        facts = table.space.named(combination)
        row = next(row for row in rows if _holds(row.facts, facts))
        assert (row.status, row.rule, row.undetermined) == (verdict.status, verdict.rule, verdict.undetermined)
        seen.add(id(row))  # type: ignore[arg-type]
    assert len(seen) == len(rows)


def test_the_table_of_the_shipped_policy_reads_like_its_rules() -> None:
    """For each rule its own condition, and then where that cannot be read."""
    proved = _shipped().rule_sets["callability"]
    shown_rows = [(dict(row.facts), row.status) for row in rows_of(proved.rule_set, proved.table)]
    assert shown_rows == [
        ({"server.enabled": ("false",)}, "server_disabled"),
        ({"server.enabled": ("unknown",)}, "disabled_unknown"),
        ({"tool.config_denied": ("true",)}, "disabled_by_config"),
        ({"tool.config_denied": ("unknown",)}, "disabled_unknown"),
        ({"server.quarantined": ("true",)}, "server_quarantined"),
        ({"server.quarantined": ("unknown",)}, "disabled_unknown"),
        ({"approval.disabled": ("true",)}, "disabled_by_user"),
        ({"approval.disabled": ("unknown",)}, "disabled_unknown"),
        ({"approval.status": ("pending", "changed")}, "pending_approval"),
        ({"approval.status": ("unknown",)}, "disabled_unknown"),
        ({"caller.refuses": ("true",)}, "disabled_unknown"),
        ({}, "callable"),
    ]


@cache
def _shipped() -> Policy:
    return load(POLICY, engine=Engine.REFERENCE)


def _policy(drawn: RuleSet) -> Policy:
    """Return a policy of which one rule set is drawn; the others are the shipped ones."""
    spoken = RuleSet(drawn.question, drawn.rules, WORDS)
    return Policy("", {**_shipped().rule_sets, "callability": ProvedRuleSet(spoken, tabled(drawn), 0)}, ())


@settings(max_examples=20, deadline=None)
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


def _status(drawn: RuleSet, facts: Mapping[str, str]) -> str:
    decision = decide(drawn.rules, facts)
    return "disabled_unknown" if decision.undetermined else drawn.rules[decision.rule].status
