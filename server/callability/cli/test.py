"""`callability test`: run the tests of a policy, and report them and their coverage as text, JSON or JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import typer

from callability.cli.options import JsonOption, PolicyArgument, escape, leave, number_of
from callability.cli.policies import WatchOption, watch_policy
from callability.compiler.bundle_writing import compile_rule_set
from callability.compiler.policy import Check, ProvedRuleSet, check_source
from callability.compiler.proof import CaseResult, Coverage, Decided, Goal, Share, coverage
from callability.contract import finding
from callability.contract.finding import MAX_FINDINGS, Finding, Severity, as_code, finding_lines, line, witness_text
from callability.files.policy_origin import origin_at
from callability.files.policy_source import PolicySource
from callability.files.shipped_policy import shipped_policy
from callability.kernel.path import explain
from callability.kernel.rule_set import RuleSet
from callability.process.regular_file import OutputRefused, output_to

_INDENT = " " * 6


@dataclass(frozen=True)
class TestedRuleSet:
    """A rule set with the results of the selected tests, and their coverage."""

    name: str
    proved: ProvedRuleSet
    results: tuple[CaseResult, ...]
    coverage: Coverage

    @cached_property
    def compiled(self) -> RuleSet:
        """The rule set as it explains its verdicts."""
        return compile_rule_set(self.proved)

    @property
    def failed(self) -> tuple[CaseResult, ...]:
        """The tests that did not pass."""
        return tuple(result for result in self.results if result.finding)


@dataclass(frozen=True, slots=True)
class TestReport:
    """All rule sets that could be tested, the errors beside failed tests, warnings about rule sets without tests, and
    the coverage that is required.
    """

    directory: str
    rule_sets: tuple[TestedRuleSet, ...]
    errors: tuple[Finding, ...]
    untested: tuple[Finding, ...]
    wanted: float | None

    def count(self, *, failed: bool = False) -> int:
        """Return how many tests there are, or how many failed."""
        return sum(len(each.failed if failed else each.results) for each in self.rule_sets)

    @property
    def short(self) -> tuple[TestedRuleSet, ...]:
        """The rule sets with less coverage than required."""
        return tuple(each for each in self.rule_sets if self.wanted and each.coverage.percent < self.wanted)

    @property
    def passed(self) -> bool:
        """Whether there are no errors and no failures, and the coverage suffices."""
        return not (self.errors or self.count(failed=True) or self.short)


def as_text(tested: TestReport, *, verbose: bool) -> str:
    """Return the results as text with terminal colours; failures in full."""
    lines = [*finding_lines((*tested.errors, *tested.untested))]
    for rule_set in tested.rule_sets:
        lines += _rule_set(rule_set, verbose=verbose, wanted=tested.wanted)
    failed = tested.count(failed=True)
    counts = f"{tested.count() - failed} passed, {failed} failed"
    if tested.errors:
        counts += f", and {number_of(len(tested.errors), 'error')} beside"
    if tested.untested:
        counts += f", {number_of(len(tested.untested), 'rule set')} without tests"
    if tested.short:
        counts += f"; less is reached than {tested.wanted:g} %"
    lines.append(f"{escape(tested.directory)}: {typer.style(counts, fg='green' if tested.passed else 'red')}")
    return "\n".join(lines)


def _rule_set(tested: TestedRuleSet, *, verbose: bool, wanted: float | None) -> Iterator[str]:
    yield tested.name
    reached = tested.coverage
    yield f"  tests         {len(tested.results) - len(tested.failed)} of {len(tested.results)} passed"
    yield f"  rules         {_share(reached.rules)} decide in a test"
    yield f"  conditions    {_share(reached.conditions)} outcomes of their parts are seen"
    for result in tested.results:
        if result.finding:
            for text, colour in failure(result, tested):
                yield typer.style(text, fg=colour)
        elif verbose:
            yield f"{typer.style('pass', fg='green')}  {result.case.name}"
    if verbose or (wanted and reached.percent < wanted):
        yield from (_shortfall(goal) for goal in (*reached.rules.missed, *reached.conditions.missed))


def _share(share: Share) -> str:
    return f"{share.goals - len(share.missed)} of {share.goals}"


def _shortfall(goal: Goal) -> str:
    example = f"for example {witness_text(goal.witness)}"
    return f"{typer.style('miss', fg='yellow')}  {goal.place}: in no test {goal} ({example})"


def failure(result: CaseResult, tested: TestedRuleSet) -> Iterator[tuple[str, str | None]]:
    """Yield the lines of a failed test with their colours: the differences, and the rules that were tried."""
    yield f"FAIL  {result.case.name}", "red"
    yield f"{_INDENT}{result.case.place}", None
    facts = tested.proved.diagram.space.witness(result.case.facts)
    yield _with_label("facts", witness_text(facts)), None
    if result.finding and not result.verdict:
        yield _with_label("error", str(result.finding).removeprefix(f"{result.finding.place}: ")), None
        return
    for each in result.differences:
        wanted = f"… {each.expected} …" if each.part else each.expected
        yield _with_label(each.what, f"- {wanted}"), "red"
        yield _with_label("", f"+ {each.found or '(nothing is said)'}"), "green"
    for number, trial in enumerate(explain(tested.compiled, result.case.facts).trials):
        yield _with_label("" if number else "tried", f"{trial.rule.id} {trial.why}"), None


def _with_label(what: str, text: str) -> str:
    return f"{_INDENT}{what:<15}{text}"


def as_json(tested: TestReport) -> str:
    """Return the results as JSON."""
    answer = {
        "directory": tested.directory,
        "passed": tested.passed,
        "errors": [*map(finding.as_json, tested.errors)],
        "warnings": [*map(finding.as_json, tested.untested)],
        "rule_sets": [_json_of(each) for each in tested.rule_sets],
    }
    return json.dumps(answer, indent=2)


def _json_of(tested: TestedRuleSet) -> dict[str, Any]:
    coverage = tested.coverage
    return {
        "name": tested.name,
        "tests": [_json_of_result(result) for result in tested.results],
        "coverage": {"rules": _json_of_share(coverage.rules), "conditions": _json_of_share(coverage.conditions)},
    }


def _json_of_result(result: CaseResult) -> dict[str, Any]:
    return {
        "name": result.case.name,
        "file": result.case.place.file,
        "line": result.case.place.line,
        "passed": result.finding is None,
        "code": result.finding.code if result.finding else None,
        "facts": dict(result.case.facts),
        "differences": [
            {"what": each.what, "expected": each.expected, "found": each.found} for each in result.differences
        ],
    }


def _json_of_share(share: Share) -> dict[str, Any]:
    return {
        "percent": round(share.percent, 2),
        "goals": share.goals,
        "missed": [
            {
                "rule": goal.rule,
                "part": goal.part,
                "truth": goal.truth,
                "file": goal.place.file,
                "line": goal.place.line,
                "witness": dict(goal.witness),
            }
            for goal in share.missed
        ],
    }


def junit(tested: TestReport) -> bytes:
    """Return a suite for each rule set, and one for what refuses the policy beside its tests, where something does."""
    root = Element("testsuites", name="callability test")
    for rule_set in tested.rule_sets:
        _suite(root, rule_set, tested.wanted if rule_set in tested.short else None)
    if tested.untested:
        count = str(len(tested.untested))
        suite = SubElement(root, "testsuite", name="tests", tests=count, failures="0", errors="0", skipped=count)
        for finding in tested.untested:
            _add_skipped(suite, finding)
    if tested.errors:
        count = str(len(tested.errors))
        suite = SubElement(root, "testsuite", name="policy", tests=count, failures="0", errors=count)
        for finding in tested.errors[:MAX_FINDINGS]:
            _error(suite, finding)
    for kind in ("tests", "failures", "errors", "skipped"):
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in root)))
    indent(root)
    return bytes(tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(root: Element, tested: TestedRuleSet, missed: float | None) -> None:
    """Add the suite of a rule set; coverage that is `missed` is a test of its own that failed."""
    more = int(missed is not None)
    tests, failures = str(len(tested.results) + more), str(len(tested.failed) + more)
    suite = SubElement(root, "testsuite", name=tested.name, tests=tests, failures=failures, errors="0")
    for result in tested.results:
        place = result.case.place
        named = {"file": _file(place.file), "line": str(place.line)}
        case = SubElement(suite, "testcase", {"name": result.case.name, "classname": tested.name, **named})
        if result.finding:
            failed = SubElement(case, "failure", message=result.finding.sentence, type=result.finding.code)
            failed.text = "\n".join(text for text, _ in failure(result, tested))

    if missed is not None:
        message = f"the tests reach {tested.coverage.percent:.4g} %, and {missed:g} % is wanted"
        case = SubElement(suite, "testcase", {"name": "coverage", "classname": tested.name})
        goals = (*tested.coverage.rules.missed, *tested.coverage.conditions.missed)
        text = "\n".join(f"{goal.place}: in no test {goal}" for goal in goals)
        SubElement(case, "failure", message=message, type="coverage").text = text


def _add_skipped(suite: Element, finding: Finding) -> None:
    """Add a rule set without tests as a test that was skipped: a warning refuses nothing."""
    case = SubElement(
        suite, "testcase", {"name": finding.code, "classname": "tests", "file": _file(finding.place.file)}
    )
    SubElement(case, "skipped", message=line(finding))


def _error(suite: Element, finding: Finding) -> None:
    place = finding.place
    named = {"file": _file(place.file), "line": str(place.line)}
    case = SubElement(suite, "testcase", {"name": finding.code, "classname": "policy", **named})
    SubElement(case, "error", message=finding.sentence, type=finding.code).text = line(finding)


def _file(name: str) -> str:
    """Return the name of a file as XML can hold it."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in name)


_OF_TESTS = ("test-failed", "unknown-rule", "impossible-facts")
"""Codes of findings that are reported with their test."""

FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter", metavar="TEXT", help="Run only tests whose names contain TEXT; with `*` or `?`, it is a glob."
    ),
]
CoverageOption = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        metavar="PERCENT",
        min=0,
        max=100,
        help="How much of the rules, and of the parts of their conditions, the tests of each file must reach.",
    ),
]


def test(
    directory: PolicyArgument = None,
    wanted: FilterOption = None,
    percent: CoverageOption = None,
    to: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the results as JUnit XML.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a rule set has no tests.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print each test, and what no test covers.")] = False,
    json: JsonOption = False,
    watch: WatchOption = False,
) -> None:
    """Run the tests beside the rule files of a policy, and print their coverage.

    A test covers the rule that decides it. A part of a condition is covered if it is true in one test and false in
    another, among the tests that reach its rule. With `--watch`, run the tests again after each edit. Exit code 0:
    every test passed. 1: a test failed, the policy is refused, the coverage is below PERCENT, FILE cannot be written,
    or with `--strict` a rule set has no tests. 2: usage error, or no test has such a name.
    """
    if wanted is not None and percent is not None:
        leave("`--coverage` needs all tests, and `--filter` runs some", 2)
    of = directory or shipped_policy()
    origin = origin_at(of)

    def passed(written: PolicySource) -> bool:
        tested = _run_tests(check_source(written, wants_tests=True), of, wanted, percent, strict)
        if wanted is not None and not tested.count() and not tested.errors and not watch:
            leave(f"no test has {as_code(wanted)} in its name", 2)
        if to:
            try:
                with output_to(to, origin.watched_paths()) as stream:
                    stream.write(junit(tested))
            except OutputRefused as error:
                leave(str(error), 1)
        typer.echo(as_json(tested) if json else as_text(tested, verbose=verbose))
        return tested.passed

    raise typer.Exit(0 if (watch_policy(origin, passed) if watch else passed(origin.source())) else 1)


def _run_tests(check: Check, directory: Path, wanted: str | None, percent: float | None, strict: bool) -> TestReport:
    errors = tuple(
        finding for finding in check.findings if finding.severity is Severity.ERROR and finding.code not in _OF_TESTS
    )
    untested = tuple(finding for finding in check.findings if finding.code == "no-tests")
    if strict:
        errors, untested = (*errors, *untested), ()
    rule_sets = tuple(_tested_rule_set(name, proved, wanted) for name, proved in check.proved.items())
    return TestReport(str(directory), rule_sets, errors, untested, percent)


def _tested_rule_set(name: str, proved: ProvedRuleSet, wanted: str | None) -> TestedRuleSet:
    results = tuple(result for result in proved.results if wanted is None or _is_wanted(result, wanted))
    ran = [result.case.facts for result in results if result.verdict]
    reached = coverage(proved.rule_set, Decided(proved.rule_set, proved.diagram), ran)
    return TestedRuleSet(name, proved, results, reached)


def _is_wanted(result: CaseResult, wanted: str) -> bool:
    name, wanted = result.case.name.lower(), wanted.lower()
    return fnmatchcase(name, wanted) if {*"*?"} & {*wanted} else wanted in name
