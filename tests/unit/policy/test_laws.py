"""Laws: their meaning, their proof over every combination, and those of the shipped policy."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from callability.compiler.combination_sets import CombinationSets, space_of
from callability.compiler.confirmation import Engine
from callability.compiler.policy import PolicyRefused, check_files, load
from callability.compiler.proof import Decided, prove
from callability.compiler.rule_set import Law, RuleSet
from callability.contract.finding import line
from callability.files.policy_source import policy_files
from callability.kernel.conditions import Condition, Is
from support.checkout import POLICY
from support.drawing import drawing
from support.drawn_policies import NOWHERE, conditions, diagram_of, laws, rule_set_of, rule_sets
from support.policies import write_policy

SOUND = (POLICY / "callability.yaml").read_text()


def _found(directory: Path, text: str) -> list[str]:
    write_policy(directory, text)
    check = check_files(policy_files(directory), directory, engine=Engine.REFERENCE)
    return [line(finding).removeprefix(f"{directory}/callability.yaml:") for finding in check.findings]


def _with_laws(laws: str) -> str:
    rules, _, rest = SOUND.partition("laws:\n")
    return f"{rules}laws:\n{laws}words:\n{rest.partition('words:')[2]}"


@drawing(60)
@given(condition=conditions)
def test_a_region_is_where_the_condition_is_true_or_may_be(condition: Condition) -> None:
    """The set algebra of conditions agrees with their three-valued logic, in every combination."""
    space = space_of(rule_set_of([(condition, "callable")]))
    sets = CombinationSets(space)
    truths = sets.truths(condition)
    for facts in map(space.named, space.combinations()):
        truth = condition.truth(facts)
        held = sets.holds(truths.certain, facts), sets.holds(truths.possible, facts)
        assert held == (truth is True, truth is not False)


@drawing(60)
@given(drawn=rule_sets(), law=laws)
def test_a_law_is_broken_where_one_combination_breaks_it(drawn: RuleSet, law: Law) -> None:
    """Compared with a look at each combination; and the witness breaks the law."""
    rule_set = replace(drawn, laws=(law,))
    table = diagram_of(rule_set)
    breaking = []
    for combination, verdict in table:
        truth = law.when.truth(table.space.named(combination)) if law.when else True
        about = truth is True if law.always else truth is not False
        if about and (verdict.status in law.statuses) is not law.always:
            breaking.append(table.space.witness(table.space.named(combination)))
    found = [finding for finding in prove(rule_set, Decided(rule_set, table)) if finding.code == "law-broken"]
    assert [finding.witness in breaking for finding in found] == [True] * bool(breaking)
    assert not found or f"in {len(breaking):,} combination" in found[0].sentence


def test_a_fact_that_only_a_law_reads_is_looked_at_in_each_of_its_values() -> None:
    """Otherwise a law about it would hold because nothing was checked."""
    law = Law("x", Is("tool.config_denied", frozenset({"true"})), ("callable",), NOWHERE, always=False)
    drawn = rule_set_of([(Is("server.enabled", frozenset({"false"})), "server_disabled")])
    rule_set = replace(drawn, laws=(law,))
    table = diagram_of(rule_set)
    assert "tool.config_denied" in table.space.facts
    [found] = [finding for finding in prove(rule_set, Decided(rule_set, table)) if finding.code == "law-broken"]
    assert dict(found.witness or ())["tool.config_denied"] == "true"


def test_an_unknown_fact_may_break_a_law_of_what_must_never_be_and_none_of_what_must_always_be(tmp_path: Path) -> None:
    """`never` is about what may hold, `always` about what is certain."""
    never, always = (
        f"- {{name: one, when: {{server.enabled: true, tool.config_denied: true}}, {kind}}}\n"
        for kind in ("never: disabled_unknown", "always: [disabled_by_config]")
    )
    assert _found(tmp_path, _with_laws(always)) == []
    assert _found(tmp_path, _with_laws(never)) == [
        "28:3: law `one` does not hold in 252 combinations: rule `operator-denied` is undetermined and gives"
        " `disabled_unknown`, which the law forbids (for example tool.config_denied unknown) [law-broken]"
    ]


def test_a_law_that_does_not_hold_refuses_the_policy_with_a_counter_example(tmp_path: Path) -> None:
    """The deciding rule, its status, how often, and one set of facts, after the user's switch was moved to the top."""
    lines = SOUND.splitlines(keepends=True)
    user = next(number for number, each in enumerate(lines) if "id: user-off" in each)
    denied = next(number for number, each in enumerate(lines) if "id: operator-denied" in each)
    lines.insert(denied, lines.pop(user))
    found = _found(tmp_path, "".join(lines))
    assert [each.partition(": ")[2] for each in found] == [
        "law `the operator's config overrides whatever the user set` does not hold in 54 combinations:"
        " rule `user-off` gives `disabled_by_user`, but the law requires `disabled_by_config` (for example"
        " tool.config_denied true, approval.disabled true) [law-broken]",
        "law `a tool that the config may deny is never described by a switch of the user (SC-003)` does not hold"
        " in 48 combinations: rule `user-off` gives `disabled_by_user`, which the law forbids (for example"
        " tool.config_denied true, approval.disabled true) [law-broken]",
        "law `a server that may be in quarantine is never described by a switch of one tool` does not hold"
        " in 48 combinations: rule `user-off` gives `disabled_by_user`, which the law forbids (for example"
        " server.quarantined true, approval.disabled true) [law-broken]",
    ]
    with pytest.raises(PolicyRefused, match="does not hold"):
        load(tmp_path, engine=Engine.REFERENCE)


def test_a_law_about_nothing_is_a_warning(tmp_path: Path) -> None:
    """It would hold whatever the rules are."""
    stated = "- {name: one, when: {server.enabled: true, not: {server.enabled: true}}, always: callable}\n"
    assert _found(tmp_path, _with_laws(stated)) == [
        "28:3: warning: law `one` is about no combination of facts (its condition never holds) [law-of-nothing]"
    ]


def test_laws_belong_to_the_revision(tmp_path: Path) -> None:
    """They are in the file."""
    with_laws = load(write_policy(tmp_path, SOUND), engine=Engine.REFERENCE).revision
    without = load(write_policy(tmp_path, _with_laws("- {name: one, never: callable, when: {caller.refuses: true}}\n")))
    assert with_laws != without.revision


EDITS = [
    ("callability", "server-off", "{server.enabled: false}", "{server.enabled: false, caller.refuses: false}"),
    ("callability", "operator-denied", "denied: true", "denied: true, approval.disabled: false"),
    ("callability", "under-quarantine", "quarantined: true", "quarantined: true, approval.disabled: false"),
    ("callability", "awaiting-review", "pending}", "[approved, pending]}"),
    ("callability", "changed-since-approval", "changed}", "[approved, changed]}"),
    ("callability", "refused-elsewhere", "caller.refuses: true", "caller.refuses: false"),
    ("load_outcome", "access-denied", "[401, 403]", "401"),
    ("load_outcome", "loaded", "none", "[none, other]"),
    ("load_outcome", "timed-out", "timeout", "[timeout, not_mcp]"),
    ("enable_outcome", "connected", "connected", "[connected, cancelled]"),
    ("enable_outcome", "user-declined", "declined}", "[declined, unanswered]}"),
    ("enable_outcome", "unset", "missing", "missing, enable.ended: failed"),
]


@pytest.mark.parametrize(("question", "rule", "sound", "wrong"), EDITS)
def test_the_laws_of_the_shipped_policy_catch_a_wrong_edit(
    question: str, rule: str, sound: str, wrong: str, tmp_path: Path
) -> None:
    """Each edit of a condition breaks at least one of them."""
    for path in POLICY.glob("*.yaml"):
        if not path.stem.endswith("_test"):
            (tmp_path / path.name).write_text(path.read_text())
    before, begins, after = re.split(rf"(id: {rule}[,\n])", (POLICY / f"{question}.yaml").read_text(), maxsplit=1)
    line, _, rest = after.partition("\n  - ")
    head, _, tail = line.rpartition("status:")
    assert head.count(sound) == 1
    edited = f"{head.replace(sound, wrong)}status:{tail}"
    (tmp_path / f"{question}.yaml").write_text(f"{before}{begins}{edited}\n  - {rest}")
    check = check_files(policy_files(tmp_path), tmp_path, engine=Engine.REFERENCE)
    assert "law-broken" in {finding.code for finding in check.findings}
    assert check.policy is None
