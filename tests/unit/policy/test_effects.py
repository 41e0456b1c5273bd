"""The report of `check` on each rule: where it decides, what its place in the order does, which parts do nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from hypothesis import given

from callability.compiler.combination_sets import Space
from callability.compiler.difference import effects, overlaps
from callability.compiler.finding_meanings import MEANINGS
from callability.compiler.proof import Decided, check_parts, needless_parts
from callability.compiler.rule_set import Rule, RuleSet
from callability.kernel.conditions import AllOf, AnyOf, Condition, Is, Not, atoms, decide
from support.checkout import POLICY
from support.commands import callability
from support.drawing import drawing
from support.drawn_policies import diagram_of, rule_sets
from support.policies import write_policy

NOTHING, EVERYTHING = AnyOf(()), AllOf(())


def _answers(rules: tuple[Rule, ...], facts: Mapping[str, str]) -> str:
    decision = decide([rule.when for rule in rules], facts)
    return "undetermined" if decision.undetermined else rules[decision.rule].status


@drawing(40)
@given(drawn=rule_sets(most=6))
def test_where_a_rule_decides_is_said_of_each_combination_and_of_no_other(drawn: RuleSet) -> None:
    """By conditions that hold by themselves, without those of the rules above."""
    table = diagram_of(drawn)
    for effect in effects(drawn, Decided(drawn, table)):
        found = {facts for facts, _ in table if any(_holds(where, table.space.named(facts)) for where in effect.where)}
        certain = [facts for facts, verdict in table if (verdict.rule, verdict.undetermined) == (effect.rule.id, False)]
        assert effect.whole
        assert (found, effect.combinations) == (set(certain), len(certain))


def _holds(where: Mapping[str, tuple[str, ...]], facts: Mapping[str, str]) -> bool:
    return all(facts[fact] in values for fact, values in where.items())


@drawing(40)
@given(drawn=rule_sets(most=5))
def test_swapping_two_rules_changes_as_many_answers_as_it_says(drawn: RuleSet) -> None:
    """As deciding every combination by the rules in the other order says."""
    table = diagram_of(drawn)
    for overlap in overlaps(drawn, Decided(drawn, table)):
        places = [drawn.rules.index(rule) for rule in (overlap.upper, overlap.lower)]
        swapped = list(drawn.rules)
        swapped[places[0]], swapped[places[1]] = overlap.lower, overlap.upper
        changed = [
            table.space.witness(facts)
            for facts in (table.space.named(each) for each, _ in table)
            if _answers(drawn.rules, facts) != _answers(tuple(swapped), facts)
        ]
        assert len(changed) == overlap.answers
        assert overlap.witness in changed


@drawing(60)
@given(drawn=rule_sets(most=4))
def test_a_part_is_idle_where_no_combination_is_decided_otherwise_without_it(drawn: RuleSet) -> None:
    """Each part of each rule that decides is tried as false and as true, by the reference."""
    table = diagram_of(drawn)
    decided = Decided(drawn, table)
    idle = [finding for finding in check_parts(drawn.rules, decided) if finding.sentence.startswith("part ")]
    needless = list(needless_parts(drawn.rules, decided))
    never, always = 0, 0
    for number, rule in enumerate(drawn.rules):
        if rule.when is None or not decided.certain(rule.id):
            continue
        for part in range(len([*atoms(rule.when)])):
            as_false, as_true = (
                not _changes(drawn, number, _replaced(rule.when, part, truth)[0], table.space)
                for truth in (NOTHING, EVERYTHING)
            )
            never += as_false
            always += as_true and not as_false
    assert (len(idle), len(needless)) == (never, always)


def _replaced(condition: Condition, part: int, by: Condition) -> tuple[Condition, int]:
    """Return a condition with the part of a number replaced, and the next number."""
    match condition:
        case Is():
            return (by if part == 0 else condition), part - 1
        case Not(part=inner):
            changed, part = _replaced(inner, part, by)
            return Not(changed), part
        case AllOf(parts=inner_parts) | AnyOf(parts=inner_parts):
            each = []
            for inner in inner_parts:
                changed, part = _replaced(inner, part, by)
                each.append(changed)
            return type(condition)(tuple(each)), part


def _changes(drawn: RuleSet, number: int, when: Condition, space: Space) -> bool:
    changed = (*drawn.conditions[:number], when, *drawn.conditions[number + 1 :])
    return any(
        decide(changed, facts) != decide(drawn.conditions, facts) for facts in map(space.named, space.combinations())
    )


def test_the_shipped_policy_is_sound_under_strict_and_has_three_notes() -> None:
    """Each repeats what the rules above leave, so that the rule can be read alone."""
    done = callability("check", "--strict", "--verbose")
    assert done.returncode == 0, done.stdout
    report = [each for each in done.stdout.splitlines() if "note: " in each]
    assert [each.rpartition(" [")[2] for each in report] == ["part-always-true]"] * 3
    assert "    where       server.enabled: true, tool.config_denied: true\n" in done.stdout
    assert (
        "    order       swapping it with `user-off` changes 26 answers,"
        " for example server.quarantined true, approval.disabled true\n"
    ) in done.stdout
    assert "note" not in callability("check").stdout


def test_json_has_everything() -> None:
    """Effects, order, and witnesses as facts by name."""
    report = json.loads(callability("check", "--json").stdout)
    [tools] = [each for each in report["rule_sets"] if each["name"] == "callability"]
    assert tools["rules"][1] == {
        "id": "operator-denied",
        "status": "disabled_by_config",
        "line": 9,
        "combinations": 84,
        "undetermined": 84,
        "where": [{"server.enabled": ["true"], "tool.config_denied": ["true"]}],
        "whole": True,
        "witness": {"tool.config_denied": "true"},
    }
    assert {"upper": "server-off", "lower": "operator-denied", "answers": 252}.items() <= tools["order"][0].items()
    assert len(tools["laws"]) == 9
    assert report["findings"] == []
    assert [note["code"] for note in report["notes"]] == ["part-always-true"] * 3
    assert report["notes"][1]["witness"]["load.timeout_signature"] == "true"


def test_findings_are_written_as_sarif(tmp_path: Path) -> None:
    """With the meaning of each code, its place in the file, and the witness."""
    text = (POLICY / "callability.yaml").read_text()
    write_policy(tmp_path, text.replace("{server.enabled: false},  ", "{server.enabled: false, caller.refuses: true},"))
    done = callability("check", ".", "--format", "sarif", cwd=tmp_path)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    [run] = report["runs"]
    assert report["version"] == "2.1.0"
    rules = run["tool"]["driver"]["rules"]
    assert [rule["shortDescription"]["text"] for rule in rules] == [MEANINGS[rule["id"]].means for rule in rules]
    [law] = [each for each in run["results"] if "a tool that may be locked" in each["message"]["text"]]
    assert rules[law["ruleIndex"]]["id"] == law["ruleId"] == "law-broken"
    assert (law["level"], law["properties"]) == ("error", {"witness": {"server.enabled": "false"}})
    place = law["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "callability.yaml"}
    assert place["region"]["startColumn"] == 5
    assert {each["level"] for each in run["results"]} <= {"error", "warning", "note"}


def test_every_finding_that_is_about_combinations_has_a_witness(tmp_path: Path) -> None:
    """In its line too."""
    write_policy(
        tmp_path,
        """\
rules:
- {id: off, when: {server.enabled: false}, status: server_disabled, action: Wait.}
- {id: gone, when: {server.enabled: false, tool.config_denied: true}, status: server_disabled, action: Wait.}
- {id: open, status: callable}
words:
  server_disabled: {remediation: Wait., rejection: Wait.}
  disabled_unknown: {remediation: Wait., rejection: Wait.}
laws:
- {name: never, never: callable}
""",
    )
    done = callability("check", ".", "--json", cwd=tmp_path)
    found = {finding["code"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert found.pop("no-tests")["witness"] is None
    assert {code: finding["witness"] for code, finding in found.items()} == {
        "never-decides": {"server.enabled": "false", "tool.config_denied": "true"},
        "callable-withheld": {"approval.status": "pending"},
        "law-broken": {},
    }
    assert "for example every fact at its default" in callability("check", ".", cwd=tmp_path).stdout
