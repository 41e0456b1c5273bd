"""`callability test`: run the tests of a policy, and report their coverage."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.junit import junit
from callability.command_line.options import JsonOption, PolicyArgument, leave
from callability.command_line.test_report import TestedRuleSet, TestReport, as_json, as_text
from callability.command_line.watch import WatchOption, watched
from callability.files.bundle_origin import origin_at
from callability.files.policy_source import PolicySource
from callability.files.shipped_policy import shipped_policy
from callability.finding import Severity, shown
from callability.output_file import OutputRefused, output_to
from callability.policy.loading import Check, ProvedRuleSet, check_source
from callability.policy.proving.case_result import CaseResult
from callability.policy.proving.coverage import coverage
from callability.policy.proving.decided import Decided

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
        tested = _tested(check_source(written, wants_tests=True), of, wanted, percent, strict)
        if wanted is not None and not tested.count() and not tested.errors and not watch:
            leave(f"no test has {shown(wanted)} in its name", 2)
        if to:
            try:
                with output_to(to, origin.followed()) as stream:
                    stream.write(junit(tested))
            except OutputRefused as error:
                leave(str(error), 1)
        typer.echo(as_json(tested) if json else as_text(tested, verbose=verbose))
        return tested.passed

    raise typer.Exit(0 if (watched(origin, passed) if watch else passed(origin.source())) else 1)


def _tested(check: Check, directory: Path, wanted: str | None, percent: float | None, strict: bool) -> TestReport:
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
