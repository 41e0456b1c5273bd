"""`callability test`: the report of a policy's tests, and of their coverage."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.compiler.proof import Decided, coverage
from callability.compiler.rule_set import RuleSet
from callability.kernel.conditions import Is, decide
from support.checkout import POLICY
from support.commands import callability
from support.drawing import drawing
from support.drawn_policies import diagram_of, rule_set_of, rule_sets
from support.policies import write_policy

RULES = """\
rules:
- {id: off, when: {any: [{server.enabled: false}, {tool.config_denied: true}]}, status: server_disabled, action: x}
- {id: gate, when: {not: {all: [{server.quarantined: false}, {approval.status: [none, approved]}]}}, status: server_disabled, action: x}
- {id: open, status: callable}
words:
  server_disabled: {remediation: It is off., rejection: "It is off: {tool}."}
  disabled_unknown: {remediation: Unknown., rejection: Unknown.}
"""  # noqa: E501
TESTS = """\
tests:
- name: a tool that nothing stands against is callable
  expect: {status: callable, rule: open}
- name: a server that is off says so
  facts: {server.enabled: false}
  expect:
    status: server_disabled
    words: {remediation: x, rejection: [x]}
"""


def _policy(directory: Path, tests: str) -> Path:
    write_policy(directory, RULES)
    (directory / "callability_test.yaml").write_text(tests)
    return directory


def _test(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return callability("test", ".", *arguments, cwd=cwd)


def test_the_shipped_tests_pass_and_reach_every_rule_and_every_part_of_its_condition() -> None:
    """All of both, in each rule set."""
    done = callability("test", "--coverage", "100")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("passed, 0 failed\n")
    assert "miss" not in done.stdout


def test_what_no_test_reaches_is_named_with_facts_by_which_one_would(tmp_path: Path) -> None:
    """If the coverage is below the threshold, with exit code 1."""
    done = _test("--coverage", "80", cwd=_policy(tmp_path, TESTS))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        *(
            f"{name}.yaml: warning: has no tests (write `{name}_test.yaml` beside it, or restore it) [no-tests]"
            for name in ("enable_outcome", "load_outcome")
        ),
        "callability",
        "  tests         2 of 2 passed",
        "  rules         2 of 3 decide in a test",
        "  conditions    5 of 8 outcomes of their parts are seen",
        "miss  callability.yaml:3:3: in no test rule `gate` decides (for example approval.status pending)",
        "miss  callability.yaml:2:72: in no test `tool.config_denied: true` is true in rule `off`"
        " (for example tool.config_denied true)",
        "miss  callability.yaml:3:54: in no test `server.quarantined: false` is false in rule `gate`"
        " (for example server.quarantined true)",
        "miss  callability.yaml:3:80: in no test `approval.status: [none, approved]` is false in rule `gate`"
        " (for example approval.status pending)",
        "load_outcome",
        "  tests         0 of 0 passed",
        "  rules         0 of 1 decide in a test",
        "  conditions    0 of 0 outcomes of their parts are seen",
        "miss  load_outcome.yaml:1:9: in no test rule `all` decides (for example every fact at its default)",
        "enable_outcome",
        "  tests         0 of 0 passed",
        "  rules         0 of 1 decide in a test",
        "  conditions    0 of 0 outcomes of their parts are seen",
        "miss  enable_outcome.yaml:1:9: in no test rule `all` decides (for example every fact at its default)",
        ".: 2 passed, 0 failed, 2 rule sets without tests; less is reached than 80 %",
    ]


@drawing(60)
@given(drawn=rule_sets(most=5), data=st.data())
def test_what_is_missed_can_be_reached_and_its_witness_reaches_it(drawn: RuleSet, data: st.DataObject) -> None:
    """A test with the facts of each witness leaves nothing that is missed."""
    table = diagram_of(drawn)
    decided = Decided(drawn, table)
    some = data.draw(st.lists(st.sampled_from([*table.space.combinations()]), max_size=4))
    tested = [table.space.named(each) for each in some]
    before = coverage(drawn, decided, tested)
    missed = (*before.rules.missed, *before.conditions.missed)
    opened = drawn.question.open_facts
    after = coverage(drawn, decided, [*tested, *(opened | dict(goal.witness) for goal in missed)])
    assert (after.percent, after.rules.goals) == (100, before.rules.goals)
    reached = {drawn.rules[decide(drawn.conditions, facts).rule].id for facts in tested}
    assert {goal.rule for goal in before.rules.missed}.isdisjoint(
        rule for rule in reached if any(table.verdict(facts).rule == rule for facts in tested if _certain(drawn, facts))
    )


def _certain(drawn: RuleSet, facts: dict[str, str]) -> bool:
    return not decide(drawn.conditions, facts).undetermined


def test_a_failure_says_what_differs_and_how_the_verdict_came_about(tmp_path: Path) -> None:
    """Expected and found below each other, with the words and the rules that were tried."""
    wrong = TESTS.replace("status: callable, rule: open", "status: callable, rule: gate, undetermined: true")
    done = _test(cwd=_policy(tmp_path, wrong.replace("rejection: [x]", "rejection: [x, '{tool}']")))
    assert done.returncode == 1
    assert done.stdout.splitlines()[6:21] == [
        "FAIL  a tool that nothing stands against is callable",
        "      callability_test.yaml:2:3",
        "      facts          every fact at its default",
        "      rule           - gate",
        "                     + open",
        "      undetermined   - true",
        "                     + false",
        "      tried          off does not hold, since `server.enabled` is true and `tool.config_denied` is false",
        "                     gate does not hold, since `server.quarantined` is false and `approval.status` is"
        " approved",
        "                     open has no condition: gives `callable`",
        "FAIL  a server that is off says so",
        "      callability_test.yaml:4:3",
        "      facts          server.enabled false",
        "      rejection      - … {tool} …",
        "                     + x",
    ]
    assert done.stdout.splitlines()[-1] == ".: 0 passed, 2 failed, 2 rule sets without tests"


@pytest.mark.parametrize(
    ("wanted", "names"),
    [("server", ["a server that is off says so"]), ("A TOOL*", ["a tool that nothing stands against is callable"])],
)
def test_tests_are_filtered_by_a_part_of_their_name_or_a_glob(wanted: str, names: list[str], tmp_path: Path) -> None:
    """Without regard to upper and lower case."""
    report = json.loads(_test("--filter", wanted, "--json", cwd=_policy(tmp_path, TESTS)).stdout)
    assert [test["name"] for rule_set in report["rule_sets"] for test in rule_set["tests"]] == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--filter", "no such"], "no test has `no such` in its name"),
        (["--filter", "x", "--coverage", "1"], "`--coverage` needs all tests, and `--filter` runs some"),
    ],
)
def test_a_wrong_call_is_reported(arguments: list[str], message: str, tmp_path: Path) -> None:
    """With exit code 2."""
    done = _test(*arguments, cwd=_policy(tmp_path, TESTS))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"callability: {message}\n")


def test_results_that_cannot_be_written_are_reported(tmp_path: Path) -> None:
    """With exit code 1: the call is right, but the file cannot be written."""
    done = _test("--junit", "nowhere/x.xml", cwd=_policy(tmp_path, TESTS))
    message = "callability: `nowhere/x.xml` cannot be written: no such file or directory\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_results_are_written_as_junit(tmp_path: Path) -> None:
    """One suite for each rule set, with each failure in full; other findings that refuse the policy are errors."""
    _policy(tmp_path, TESTS.replace("server_disabled\n", "callable\n") + "- {nam: x}\n")
    (tmp_path / "load_outcome_test.yaml").write_text("tests: [{name: x}]\n")
    assert _test("--junit", "results.xml", cwd=tmp_path).returncode == 1
    root = ElementTree.parse(tmp_path / "results.xml").getroot()
    assert {key: root.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "6",
        "failures": "1",
        "errors": "3",
    }
    [failure] = root.findall("testsuite/testcase/failure")
    assert "- callable\n                     + server_disabled" in (failure.text or "")
    assert [error.get("type") for error in root.iter("error")] == [
        "missing-key",
        "unknown-key",
        "missing-key",
    ]


def test_a_policy_whose_rules_are_refused_has_not_passed(tmp_path: Path) -> None:
    """Its errors are reported, and the tests of the other rule sets are run."""
    shutil.copytree(POLICY, tmp_path, dirs_exist_ok=True)
    (tmp_path / "callability.yaml").write_text("rules: 1\nwords: {}\n")
    done = callability("test", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{tmp_path}/callability.yaml:1:8: `rules` is the number `1`")
    assert done.stdout.rstrip().endswith("56 passed, 0 failed, and 1 error beside")


def test_expected_words_are_as_strict_as_the_rest(tmp_path: Path) -> None:
    """An unknown text, an empty list, and words of a status that has none."""
    _policy(
        tmp_path,
        """\
tests:
- {name: one, expect: {status: callable, words: {rejecton: x}}}
- {name: two, expect: {status: callable, words: {rejection: []}}}
- {name: three, expect: {status: callable, words: {rejection: "Call it."}}}
""",
    )
    done = callability("check", ".", cwd=tmp_path)
    found = [each for each in done.stdout.splitlines() if each.startswith("callability_test.yaml:")]
    assert found == [
        "callability_test.yaml:2:50: unknown key `rejecton` in `words` of test `one` (did you mean `rejection`?)"
        " [unknown-key]",
        "callability_test.yaml:3:61: `rejection` of test `two` is an empty list [empty-list]",
        "callability_test.yaml:4:3: test `three` fails: rejection lacks `Call it.` [test-failed]",
    ]


def test_a_part_that_nothing_can_reach_is_no_goal() -> None:
    """If the rule above takes every disabled server, none is left for the rule below."""
    off, on = (Is("server.enabled", frozenset({value})) for value in ("false", "true"))
    rule_set = rule_set_of([(off, "server_disabled"), (on, "callable")])
    reached = coverage(rule_set, Decided(rule_set, diagram_of(rule_set)), [])
    assert [str(goal) for goal in (*reached.rules.missed, *reached.conditions.missed)] == [
        "rule `r0` decides",
        "rule `r1` decides",
        "`server.enabled: false` is true in rule `r0`",
        "`server.enabled: false` is false in rule `r0`",
        "`server.enabled: true` is true in rule `r1`",
    ]


def test_a_rule_set_that_lost_its_tests_is_a_warning_everywhere(tmp_path: Path) -> None:
    """In `check`, `test` and JUnit; `--strict` refuses the policy. A file without tests in it is an error."""
    shutil.copytree(POLICY, tmp_path, dirs_exist_ok=True)
    (tmp_path / "callability_test.yaml").unlink()
    warning = (
        "callability.yaml: warning: has no tests (write `callability_test.yaml` beside it, or restore it) [no-tests]"
    )
    checked, strict = (callability("check", ".", *options, cwd=tmp_path) for options in ((), ("--strict",)))
    assert (checked.returncode, strict.returncode) == (0, 1)
    assert checked.stdout.startswith(f"{warning}\n")
    assert "0 errors, 1 warning" in checked.stdout
    done = _test("--junit", "results.xml", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith(f"{warning}\n")
    assert done.stdout.endswith("56 passed, 0 failed, 1 rule set without tests\n")
    root = ElementTree.parse(tmp_path / "results.xml").getroot()
    assert (root.get("skipped"), root.get("failures"), root.get("errors")) == ("1", "0", "0")
    assert [skipped.get("message") for skipped in root.iter("skipped")] == [warning]
    [found] = json.loads(_test("--json", cwd=tmp_path).stdout)["warnings"]
    assert (found["file"], found["severity"], found["code"]) == ("callability.yaml", "warning", "no-tests")
    assert _test("--strict", "--junit", "results.xml", cwd=tmp_path).returncode == 1
    root = ElementTree.parse(tmp_path / "results.xml").getroot()
    assert [error.get("type") for error in root.iter("error")] == ["no-tests"]


def test_coverage_that_is_too_low_is_a_failure_in_junit(tmp_path: Path) -> None:
    """With what no test reaches."""
    shutil.copytree(POLICY, tmp_path, dirs_exist_ok=True)
    (tmp_path / "callability_test.yaml").write_text(TESTS.split("- name: a server", maxsplit=1)[0])
    assert _test("--coverage", "90", "--junit", "results.xml", cwd=tmp_path).returncode == 1
    root = ElementTree.parse(tmp_path / "results.xml").getroot()
    assert root.get("failures") == "1"
    [failure] = root.findall("testsuite[@name='callability']/testcase[@name='coverage']/failure")
    assert failure.get("type") == "coverage"
    assert (failure.get("message") or "").endswith("%, and 90 % is wanted")
    assert "in no test rule `server-off` decides" in (failure.text or "")
    assert _test("--coverage", "1", "--junit", "results.xml", cwd=tmp_path).returncode == 0
    assert "coverage" not in (tmp_path / "results.xml").read_text()
