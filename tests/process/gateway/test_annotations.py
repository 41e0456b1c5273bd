"""MCP annotations: three of them depend on each other, and no rule sees them contradict each other (spec A.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.compiler.bundle_writing import compile_rule_set
from callability.compiler.combination_sets import Space, space_of
from callability.compiler.confirmation import Engine
from callability.compiler.difference import changes_of, compared_space
from callability.compiler.policy import ProvedRuleSet, check_files
from callability.compiler.questions import CALLABILITY, LOAD_OUTCOME
from callability.compiler.rule_set import RuleSet, Text
from callability.compiler.table import rows_of
from callability.contract.finding import line
from callability.contract.vocabulary import UNKNOWN
from callability.files.policy_source import policy_files
from callability.kernel.conditions import SEMANTICS, AllOf, AnyOf, Condition, Is, Not, decide, facts_read
from callability.kernel.facts import FactReader
from callability.studio.drafts import possible
from callability.v1 import facts_pb2
from callability.v1.policy_service_pb2 import GetPolicyRequest
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.commands import callability
from support.drawing import drawing
from support.drawn_policies import NOWHERE, diagram_of, rule_set_of
from support.gateway_in_process import client_of
from support.gateways import call, retrieve, shelf, text_of, write_config
from support.policies import write_policy

READ_ONLY, DESTRUCTIVE, IDEMPOTENT = THREE = tuple(
    f"annotations.{hint}" for hint in ("read_only", "destructive", "idempotent")
)
DEFAULTS = {READ_ONLY: False, DESTRUCTIVE: True, IDEMPOTENT: False}
"""As MCP has them."""
STATES = {
    ("true", "false", "true"),
    *product(("false",), ("true", "false"), ("true", "false")),
    (UNKNOWN, UNKNOWN, UNKNOWN),
}
SAID = (True, False, None)
"""The value of a hint from an upstream; None: the hint is omitted."""
Said = tuple[bool | None, bool | None, bool | None]
NO_TEXT = Text("Wait.", NOWHERE)
EVERY: tuple[Said, ...] = tuple(product(SAID, SAID, SAID))

POLICY_OF_STATES = """\
rules:
  - id: lock
    when: {any: [{server.quarantined: true}, {approval.status: [pending, changed]}]}
    status: disabled_unknown
  - id: reads
    when: {annotations.read_only: true}
    status: disabled_by_config
    action: 'It reads. Please {edit_policy}.'
  - id: destroys-once
    when: {annotations.destructive: true, annotations.idempotent: true}
    status: disabled_by_config
    action: 'It destroys once. Please {edit_policy}.'
  - id: destroys
    when: {annotations.destructive: true}
    status: disabled_by_config
    action: 'It destroys. Please {edit_policy}.'
  - id: changes-once
    when: {annotations.idempotent: true}
    status: disabled_by_config
    action: 'It changes once. Please {edit_policy}.'
  - {id: open, status: callable}
words:
  disabled_by_config: {remediation: Ask., rejection: Ask.}
  disabled_unknown: {remediation: 'Please {check_logs}.', rejection: 'Please {check_logs}.'}
"""


def _meant(said: Said) -> tuple[str, ...]:
    """Return the meaning of the hints by MCP: the other two count only if the tool is not read-only."""
    read_only, destructive, idempotent = (
        default if hint is None else hint for hint, default in zip(said, DEFAULTS.values(), strict=True)
    )
    meant = (True, False, True) if read_only else (False, destructive, idempotent)
    return tuple(str(each).lower() for each in meant)


def _reason(said: Said) -> str | None:
    """Return the status that `POLICY_OF_STATES` gives a tool; None: callable."""
    read_only, destructive, idempotent = (each == "true" for each in _meant(said))
    if read_only:
        return "It reads."
    if destructive:
        return "It destroys once." if idempotent else "It destroys."
    return "It changes once." if idempotent else None


def _tool(name: str, said: Said) -> dict[str, object]:
    hints = dict(zip(("readOnlyHint", "destructiveHint", "idempotentHint"), said, strict=True))
    return {
        "name": name,
        "description": f"Tool {name}.",
        "annotations": {key: value for key, value in hints.items() if value is not None},
    }


@pytest.mark.anyio
async def test_each_combination_of_annotations_means_over_mcp_what_mcp_says(tmp_path: Path) -> None:
    """All 27, each by a tool of a real server behind a gateway, in discovery and when it is called."""
    policy = tmp_path / "policy"
    policy.mkdir()
    write_policy(policy, POLICY_OF_STATES)
    names = {f"tool{number}": said for number, said in enumerate(EVERY)}
    config = write_config(tmp_path, {"one": shelf(tmp_path, "one", *(_tool(*each) for each in names.items()))})
    async with client_of(config, "--policy", str(policy)) as client:
        found = await retrieve(client, "tool", limit=100, include_disabled=True)
        results = {name: await call(client, f"one:{name}") for name in names}
    expected = {name: _reason(said) for name, said in names.items()}
    assert {each["name"] for each in found["tools"]} == {f"one:{name}" for name, why in expected.items() if why is None}
    for name, why in expected.items():
        text = text_of(results[name])
        assert text == f"{name} was called" if why is None else why in text, (name, names[name], text)
    assert {why for why in expected.values() if why} == {
        "It reads.",
        "It destroys.",
        "It destroys once.",
        "It changes once.",
    }


_is = st.sampled_from((*THREE, "annotations.open_world")).flatmap(
    lambda fact: st.builds(Is, st.just(fact), st.sampled_from([frozenset({"true"}), frozenset({"false"})]))
)
_conditions: st.SearchStrategy[Condition] = st.recursive(
    _is,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)
_drawn = st.lists(st.tuples(_conditions, st.sampled_from(CALLABILITY.statuses)), min_size=1, max_size=4)


def _states_in(space: Space) -> set[tuple[str, ...]]:
    """Return the states of the three in a space, as far as they vary in it."""
    places = [space.facts.index(fact) for fact in THREE if fact in space.facts]
    return {tuple(each[place] for place in places) for each in space.combinations()}


@drawing(40)
@given(drawn=_drawn)
def test_a_rule_set_is_decided_for_the_states_that_it_can_read_and_for_each_once(
    drawn: Sequence[tuple[Condition, str]],
) -> None:
    """So it never has more combinations than if each annotation varied by itself."""
    rule_set = rule_set_of(drawn)
    space = space_of(rule_set)
    read = [place for place, fact in enumerate(THREE) if fact in rule_set.reads]
    assert _states_in(space) == {tuple(state[place] for place in read) for state in STATES}
    of_three, others = (
        [len(axis.points) for axis in space.axes if set(axis.facts).isdisjoint(THREE) is other]
        for other in (False, True)
    )
    assert prod(of_three) == (len(_states_in(space)) if read else 1) <= 3 ** len(read)
    assert space.size == prod(of_three) * prod(others)


@drawing(40)
@given(drawn=_drawn)
def test_the_wire_a_test_and_the_reference_agree_on_what_an_upstream_says(
    drawn: Sequence[tuple[Condition, str]],
) -> None:
    """For each way to say it, and for annotations that are not known."""
    rule_set = rule_set_of(drawn)
    table = diagram_of(rule_set)
    reader = FactReader(compile_rule_set(ProvedRuleSet(rule_set, table, 0)))
    server = reader.of_server(facts_pb2.ServerFacts(enabled=True, quarantined=False), "s")
    for said in (*EVERY, None):
        wire = facts_pb2.ToolFacts(config_denied=False, approval=facts_pb2.Approval())
        if said is not None:
            hints = {fact.removeprefix("annotations."): hint for fact, hint in zip(THREE, said, strict=True)}
            wire.annotations.CopyFrom(facts_pb2.Annotations(open_world=True, **hints))
        meant = (UNKNOWN,) * 3 if said is None else _meant(said)
        open_world = UNKNOWN if said is None else "true"
        reference = CALLABILITY.open_facts | dict(zip(THREE, meant, strict=True)) | {"approval.status": "none"}
        decision = decide(rule_set.conditions, reference | {"annotations.open_world": open_world})
        written = {"approval.status": "none", "annotations.open_world": open_world}
        for fact, hint in zip(THREE, said or (UNKNOWN,) * 3, strict=True):
            written |= {} if hint is None else {fact: str(hint).lower()}
        for facts in ((server | reader.of_tool(wire, "t")).values, CALLABILITY.complete(written)):
            verdict = table.verdict(facts)
            assert (verdict.rule, verdict.undetermined) == (rule_set.rules[decision.rule].id, decision.undetermined)


@drawing(40)
@given(one=_drawn, other=_drawn)
def test_two_policies_that_read_different_annotations_are_compared_over_what_can_occur(
    one: Sequence[tuple[Condition, str]], other: Sequence[tuple[Condition, str]]
) -> None:
    """Over the states that either reads, and over no other; the changes are those that the reference finds."""
    old, new = (ProvedRuleSet(each, diagram_of(each), 0) for each in (rule_set_of(one), rule_set_of(other)))
    space = compared_space(old, new)
    read = [place for place, fact in enumerate(THREE) if fact in old.rule_set.reads or fact in new.rule_set.reads]
    assert _states_in(space) == {tuple(state[place] for place in read) for state in STATES}
    expected = 0
    for combination in space.combinations():
        facts = space.named(combination)
        assert tuple(facts[fact] for fact in THREE) in STATES
        statuses = []
        for each in (old, new):
            decision = decide(each.rule_set.conditions, facts)
            verdict = each.diagram.verdict(facts)
            assert verdict.rule == each.rule_set.rules[decision.rule].id
            statuses.append(verdict.status)
        expected += statuses[0] != statuses[1]
    with_words = {status: {"remediation": NO_TEXT, "rejection": NO_TEXT} for status in map(str, CALLABILITY.statuses)}
    spoken = (RuleSet(CALLABILITY, each.rule_set.rules, with_words) for each in (old, new))
    before, after = (ProvedRuleSet(each, diagram_of(each), 0) for each in spoken)
    changes = [change for change in changes_of("callability", before, after) if not change.words_only]
    assert sum(change.combinations for change in changes) == expected
    for change in changes:
        assert tuple(change.example[fact] for fact in THREE) in STATES


@drawing(40)
@given(drawn=_drawn)
def test_a_witness_that_is_put_into_a_test_is_the_same_facts(drawn: Sequence[tuple[Condition, str]]) -> None:
    """Facts at their default are left out of it, and are restored when it is read."""
    space = space_of(rule_set_of(drawn))
    for combination in space.combinations():
        completed = CALLABILITY.complete(dict(space.witness(space.named(combination))))
        assert tuple(completed[fact] for fact in space.facts) == combination
        assert CALLABILITY.contradiction(completed) is None


@drawing(30)
@given(drawn=_drawn)
def test_the_rows_of_a_table_hold_every_state_and_the_first_is_the_answer(
    drawn: Sequence[tuple[Condition, str]],
) -> None:
    """Also where a row names one of two annotations that depend on each other."""
    rule_set = rule_set_of(drawn)
    table = diagram_of(rule_set)
    rows = rows_of(rule_set, table)
    for combination, verdict in table:
        first = next(row for row in rows if row.holds(dict(zip(table.space.facts, combination, strict=True))))
        assert (first.rule, first.undetermined) == (verdict.rule, verdict.undetermined)


def test_an_axis_of_a_load_is_projected_too() -> None:
    """If a file reads only the failure, each failure is decided once."""
    failure = Is("load.failure", frozenset({"tls"}), NOWHERE)
    rules = RuleSet(LOAD_OUTCOME, rule_set_of([(failure, "permanent")]).rules, {})
    space = space_of(rules)
    assert space.facts == facts_read(failure)
    assert space.size == len(LOAD_OUTCOME.facts["load.failure"].readings)


@pytest.mark.parametrize(
    ("given_facts", "expected"),
    [
        ({READ_ONLY: "true"}, ("true", "false", "true")),
        ({READ_ONLY: "true", DESTRUCTIVE: "true", IDEMPOTENT: "false"}, ("true", "false", "true")),
        ({READ_ONLY: "true", DESTRUCTIVE: UNKNOWN}, ("true", "false", "true")),
        ({DESTRUCTIVE: "true"}, ("false", "true", "false")),
        ({DESTRUCTIVE: "false"}, ("false", "false", "false")),
        ({IDEMPOTENT: "true"}, ("false", "true", "true")),
        ({DESTRUCTIVE: UNKNOWN}, (UNKNOWN, UNKNOWN, UNKNOWN)),
        ({}, ("false", "true", "false")),
    ],
)
def test_what_is_left_out_fits_what_is_written(given_facts: Mapping[str, str], expected: tuple[str, ...]) -> None:
    """In tests, in `explain`, and in the studio."""
    completed = CALLABILITY.complete(given_facts)
    assert tuple(completed[fact] for fact in THREE) == expected
    looked_at = possible(CALLABILITY, given_facts, "")
    assert tuple(looked_at[fact] for fact in THREE) == expected


def test_the_studio_moves_the_others_to_the_annotation_that_was_changed() -> None:
    """A read-only tool that is set to be destructive is no longer read-only."""
    reads = CALLABILITY.complete({READ_ONLY: "true"})
    moved = possible(CALLABILITY, reads | {DESTRUCTIVE: "true"}, DESTRUCTIVE)
    assert tuple(moved[fact] for fact in THREE) == ("false", "true", "true")


def test_explain_takes_the_words_of_the_upstream(tmp_path: Path) -> None:
    """A read-only tool destroys nothing, whatever its other annotations say; one annotation alone cannot be unknown."""
    policy = write_policy(tmp_path, POLICY_OF_STATES)

    def results(*facts: str) -> dict[str, str]:
        done = callability("explain", "--json", "--policy", str(policy), *facts)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert answer["semantics"] == SEMANTICS
        return {fact: answer["facts"][fact] for fact in THREE} | {"rule": answer["verdict"]["rule"]}

    reads = {**dict(zip(THREE, ("true", "false", "true"), strict=True)), "rule": "reads"}
    assert results(f"{READ_ONLY}=true", f"{DESTRUCTIVE}=true") == reads
    assert results(f"{IDEMPOTENT}=unknown") == {**dict.fromkeys(THREE, UNKNOWN), "rule": "reads"}
    refused = callability("explain", "--policy", str(policy), f"{READ_ONLY}=false", f"{DESTRUCTIVE}=unknown")
    assert (refused.returncode, refused.stderr) == (
        2,
        "callability: these facts cannot occur together: a read-only tool is not destructive and is idempotent, and the"
        " three annotations are known or unknown together\n",
    )


def test_a_rule_about_contradictory_annotations_is_dead_and_the_finding_says_why(tmp_path: Path) -> None:
    """And a test in which one of the three alone is unknown cannot be run."""
    rule = "  - {id: both, when: {annotations.read_only: true, annotations.destructive: true}, status: callable}\n"
    write_policy(tmp_path, POLICY_OF_STATES.replace("  - {id: open", f"{rule}  - {{id: open"))
    facts = "{annotations.read_only: false, annotations.idempotent: unknown}"
    test = f"tests:\n- {{name: odd, facts: {facts}, expect: {{status: callable}}}}\n"
    (tmp_path / "callability_test.yaml").write_text(test)
    found = [line(each) for each in check_files(policy_files(tmp_path), tmp_path, engine=Engine.REFERENCE).findings]
    why = (
        "(a read-only tool is not destructive and is idempotent, and the three annotations are known or unknown"
        " together)"
    )
    dead = f"rule `both` never decides: its condition never holds {why} [never-decides]"
    assert any(each.endswith(dead) for each in found), found
    assert any(
        each.endswith(f"test `odd` has facts that cannot occur together {why} [impossible-facts]") for each in found
    )


def test_check_and_get_policy_have_the_version_of_the_semantics(channel: grpc.Channel) -> None:
    """The revision covers the files alone."""
    assert json.loads(callability("check", "--json").stdout)["semantics"] == SEMANTICS == 2
    assert PolicyServiceStub(channel).GetPolicy(GetPolicyRequest()).semantics == SEMANTICS
