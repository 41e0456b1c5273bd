"""The findings of faulty policies, and their places."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from callability.compiler.confirmation import Engine
from callability.compiler.finding_meanings import MEANINGS, OF_FORM, OF_PROOF
from callability.compiler.policy import PolicyRefused, check_files, load
from callability.contract.finding import Severity, line
from callability.files.policy_source import policy_files
from support.checkout import POLICY, TESTS, VECTORS
from support.policies import RULES, policy_text, write_policy

CASES: list[dict[str, Any]] = YAML(typ="safe", pure=True).load(VECTORS / "faulty_policies.yaml")
LARGE = {
    *("too-many-rules", "too-many-laws", "too-many-parts", "too-many-tests", "too-many-files", "text-too-long"),
    *("no-directory", "missing-rule-set", "unknown-question", "bad-ending", "duplicate-test"),
}
"""Of files as a whole, or too large to be listed."""


def write_case(case: dict[str, Any], directory: Path) -> Path:
    """Write the policy of a case, and return its directory."""
    write_policy(directory, policy_text(case))
    if "bytes" in case:
        (directory / "callability.yaml").write_bytes(case["bytes"])
    if "tests" in case:
        (directory / "callability_test.yaml").write_text(f"tests:\n{case['tests']}")
    return directory


def _found(directory: Path) -> list[str]:
    """Return the lines of all findings, after checking that errors, and nothing else, refuse the policy."""
    check = check_files(policy_files(directory), directory, engine=Engine.REFERENCE)
    findings = check.findings
    assert (check.policy is None) is any(finding.severity is Severity.ERROR for finding in findings)
    report = [finding for finding in findings if finding.code != "rule-not-tested"]
    return [line(finding).removeprefix(f"{directory}/callability.yaml:").strip() for finding in report]


def test_the_file_that_the_cases_change_is_sound(tmp_path: Path) -> None:
    """So each finding comes from the case."""
    write_policy(tmp_path, policy_text({}))
    assert _found(tmp_path) == []


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_exactly_what_is_wrong_is_found(case: dict[str, Any], tmp_path: Path) -> None:
    """Sentence, hint, place and code."""
    write_case(case, tmp_path)
    assert [finding.replace(f"{tmp_path}/", "") for finding in _found(tmp_path)] == case["findings"]


@pytest.mark.parametrize(("severity", "most"), [("error", 3), ("warning", 3)])
def test_a_policy_with_an_error_does_not_load_and_one_with_a_warning_does(
    severity: str, most: int, tmp_path: Path
) -> None:
    """Whole or not at all; a few of each, because every case is checked for it above."""
    cases = [case for case in CASES if all("warning: " in each for each in case["findings"]) is (severity == "warning")]
    for case in cases[:most]:
        (tmp_path / "callability_test.yaml").unlink(missing_ok=True)
        write_case(case, tmp_path)
        if severity == "error":
            with pytest.raises(PolicyRefused):
                load(tmp_path, engine=Engine.REFERENCE)
        else:
            warnings = load(tmp_path, engine=Engine.REFERENCE).warnings
            assert {finding.severity for finding in warnings} == {Severity.WARNING}


def test_files_that_answer_no_question_are_found(tmp_path: Path) -> None:
    """With the name that was probably meant."""
    shutil.copyfile(POLICY / "callability.yaml", tmp_path / "callabilty.yaml")
    shutil.copyfile(POLICY / "callability_test.yaml", tmp_path / "callability_test.yml")
    shipped = "`callability policy export DIR` writes the shipped one"
    assert [finding.replace(str(tmp_path), "DIR") for finding in _found(tmp_path)] == [
        f"DIR: has no rule set `callability.yaml` ({shipped}) [missing-rule-set]",
        f"DIR: has no rule set `enable_outcome.yaml` ({shipped}) [missing-rule-set]",
        f"DIR: has no rule set `load_outcome.yaml` ({shipped}) [missing-rule-set]",
        "DIR/callability_test.yml: the name of a policy file must end in `.yaml` [bad-ending]",
        "DIR/callabilty.yaml: `callabilty` is not a question (did you mean `callability`?) [unknown-question]",
    ]


def test_a_directory_that_is_not_there_is_no_policy(tmp_path: Path) -> None:
    """An error, and not an empty policy."""
    with pytest.raises(PolicyRefused, match="there is no such directory"):
        load(tmp_path / "nowhere")


def test_tests_of_a_policy_are_strict_and_refuse_it(tmp_path: Path) -> None:
    """Each wrong test at its place, with what was found instead."""
    write_policy(tmp_path, (POLICY / "callability.yaml").read_text())
    (tmp_path / "callability_test.yaml").write_text(
        """\
tests:
  - {name: right, facts: {server.enabled: unknown}, expect: {status: disabled_unknown, undetermined: true}}
  - {name: wrong, facts: {server.enabled: false}, expect: {status: callable, withhold_text: true}}
  - {name: of no rule, expect: {status: callable, rule: opn}}
  - {name: impossible, facts: {approval.disabled: true, approval.status: none}, expect: {status: callable}}
"""
    )
    assert [finding.replace(f"{tmp_path}/", "") for finding in _found(tmp_path)] == [
        "callability_test.yaml:3:5: test `wrong` fails: status `server_disabled` where `callable` is expected; "
        "withhold_text `false` where `true` is expected [test-failed]",
        "callability_test.yaml:4:5: test `of no rule` expects unknown rule `opn` (did you mean `open`?) [unknown-rule]",
        "callability_test.yaml:5:5: test `impossible` has facts that cannot occur together "
        "(a tool without a record is not disabled by one) [impossible-facts]",
    ]
    (tmp_path / "callability_test.yaml").write_text("tests:\n  - {name: x, fact: {}, expect: {status: callabl}}\n")
    assert [finding.replace(f"{tmp_path}/", "") for finding in _found(tmp_path)] == [
        "callability_test.yaml:2:15: unknown key `fact` in a test (did you mean `facts`?) [unknown-key]",
        "callability_test.yaml:2:42: unknown status `callabl` in test `x` (did you mean `callable`?) [unknown-status]",
    ]


def test_a_rule_that_decides_in_no_test_is_reported_with_facts_for_one(tmp_path: Path) -> None:
    """If there are tests: a policy without any needs none."""
    write_policy(tmp_path, policy_text({}))
    (tmp_path / "callability_test.yaml").write_text(
        "tests:\n- {name: x, facts: {server.enabled: false}, expect: {status: server_disabled}}\n"
        "- {name: y, facts: {approval.status: unknown}, expect: {status: disabled_unknown, rule: gate}}\n"
    )
    check = check_files(policy_files(tmp_path), tmp_path, engine=Engine.REFERENCE)
    assert [line(finding).removeprefix(f"{tmp_path}/") for finding in check.findings] == [
        "callability.yaml:3:3: warning: rule `gate` decides in no test (add one; for example approval.status pending)"
        " [rule-not-tested]",
        "callability.yaml:4:3: warning: rule `open` decides in no test (add one; for example every fact at its"
        " default) [rule-not-tested]",
    ]


def test_there_are_twenty_faults_with_a_file_each_and_a_file_with_all_of_them() -> None:
    """Each fault of form is shown alone, without other findings, and again among the others."""
    [together] = [case for case in CASES if case["name"] == "every fault of form in one file"]
    alone = {_code(case["findings"][0]) for case in CASES if len(case["findings"]) == 1}
    assert len(together["findings"]) >= 20
    assert {_code(finding) for finding in together["findings"]} == (OF_FORM.keys() & alone) - LARGE
    assert len(alone) >= 30


def test_the_faults_of_proof_are_shown_together_too() -> None:
    """Findings of form hide them: a malformed rule cannot be decided."""
    [together] = [case for case in CASES if case["name"] == "every fault of proof in one file"]
    assert {_code(finding) for finding in together["findings"]} == OF_PROOF.keys() - {
        "no-tests",
        "nothing-callable",
        "part-always-true",
        "rule-not-tested",
        "unsafe-default",
    }


def test_every_code_is_reached_by_a_test() -> None:
    """In quotes, or in the brackets at the end of a finding."""
    here = [*TESTS.rglob("test_*.py"), VECTORS / "faulty_policies.yaml"]
    text = "\n".join(path.read_text() for path in here)
    assert [code for code in MEANINGS if f"[{code}]" not in text and f'"{code}"' not in text] == []


def _code(finding: str) -> str:
    return finding.rpartition(" [")[2].rstrip("]")


def test_every_error_of_every_file_is_shown_at_once(tmp_path: Path) -> None:
    """Sorted by file and place; tests of a refused rule file are not run, but their form is checked."""
    write_policy(tmp_path, "rules: 1\nwords: 2\n")
    (tmp_path / "callability_test.yaml").write_text("tests: [{name: x}]\n")
    (tmp_path / "other.yaml").write_text("")
    assert [finding.replace(f"{tmp_path}/", "") for finding in _found(tmp_path)] == [
        "1:8: `rules` is the number `1`, but must be a list [wrong-type]",
        "2:8: `words` is the number `2`, but must be a mapping (`key: value`) [wrong-type]",
        "callability_test.yaml:1:9: a test has no `expect` [missing-key]",
        "other.yaml: `other` is not a question (one of `callability`, `enable_outcome`, `load_outcome`)"
        " [unknown-question]",
    ]


def test_a_test_that_expects_false_can_fail(tmp_path: Path) -> None:
    """False is an expectation, and not a missing one."""
    write_policy(tmp_path, (POLICY / "callability.yaml").read_text())
    (tmp_path / "callability_test.yaml").write_text(
        "tests:\n- name: x\n  facts: {server.enabled: unknown, server.quarantined: true}\n"
        "  expect: {status: disabled_unknown, undetermined: false, withhold_text: false}\n"
    )
    [found] = _found(tmp_path)
    assert "undetermined `true` where `false` is expected; withhold_text `true` where `false` is expected" in found


def test_what_is_named_like_a_policy_file_and_is_none_is_reported(tmp_path: Path) -> None:
    """A policy with missing tests is not accepted."""
    write_policy(tmp_path, (POLICY / "callability.yaml").read_text())
    (tmp_path / "callability_test.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "more.YAML").mkdir()
    assert [finding.replace(f"{tmp_path}/", "") for finding in _found(tmp_path)] == [
        "callability_test.yaml: cannot be read: no such file or directory [unreadable-file]",
        "more.YAML: cannot be read: is a directory [unreadable-file]",
    ]


def test_a_condition_whose_groups_multiply_is_refused_soon(tmp_path: Path) -> None:
    """The disjunctive form has its own limit, even if few of many terms remain."""
    values = ("none", "approved", "pending", "changed")
    group = ", ".join(
        f"{{approval.status: [{one}, {other}], {fact}: {truth}}}"
        for one in values
        for other in values
        if one != other
        for fact in ("server.enabled", "tool.config_denied", "server.quarantined", "approval.disabled")
        for truth in ("true", "false")
    )
    blocks = ", ".join(f"{{any: [{group}]}}" for _ in range(6))
    rule = f"- {{id: many, when: {{all: [{blocks}]}}, status: server_disabled}}\n"
    write_policy(tmp_path, policy_text({"rules": rule + RULES}))
    check = check_files(policy_files(tmp_path), tmp_path)
    assert [finding.code for finding in check.findings] == ["condition-too-large"]
