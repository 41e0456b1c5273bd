"""The report of `callability test`, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from callability.command_line.terminal import escaped, number_of
from callability.finding import Finding, finding_lines, witness_text
from callability.kernel.explanation import explain
from callability.policy.loading import ProvedRuleSet
from callability.policy.proving.case_result import CaseResult
from callability.policy.proving.coverage import Coverage, Goal, Share

_INDENT = " " * 6


@dataclass(frozen=True, slots=True)
class TestedRuleSet:
    """A rule set with the results of the selected tests, and their coverage."""

    name: str
    proved: ProvedRuleSet
    results: tuple[CaseResult, ...]
    coverage: Coverage

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
    lines.append(f"{escaped(tested.directory)}: {typer.style(counts, fg='green' if tested.passed else 'red')}")
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
        yield from (_missed(goal) for goal in (*reached.rules.missed, *reached.conditions.missed))


def _share(share: Share) -> str:
    return f"{share.goals - len(share.missed)} of {share.goals}"


def _missed(goal: Goal) -> str:
    example = f"for example {witness_text(goal.witness)}"
    return f"{typer.style('miss', fg='yellow')}  {goal.place}: in no test {goal} ({example})"


def failure(result: CaseResult, tested: TestedRuleSet) -> Iterator[tuple[str, str | None]]:
    """Yield the lines of a failed test with their colours: the differences, and the rules that were tried."""
    yield f"FAIL  {result.case.name}", "red"
    yield f"{_INDENT}{result.case.place}", None
    facts = tested.proved.diagram.space.witness(result.case.facts)
    yield _labelled("facts", witness_text(facts)), None
    if result.finding and not result.verdict:
        yield _labelled("error", str(result.finding).removeprefix(f"{result.finding.place}: ")), None
        return
    for each in result.differences:
        wanted = f"… {each.expected} …" if each.part else each.expected
        yield _labelled(each.what, f"- {wanted}"), "red"
        yield _labelled("", f"+ {each.found or '(nothing is said)'}"), "green"
    for number, trial in enumerate(explain(tested.proved.rule_set, tested.proved.diagram, result.case.facts).trials):
        yield _labelled("" if number else "tried", f"{trial.rule.id} {trial.why}"), None


def _labelled(what: str, text: str) -> str:
    return f"{_INDENT}{what:<15}{text}"


def as_json(tested: TestReport) -> str:
    """Return the results as JSON."""
    answer = {
        "directory": tested.directory,
        "passed": tested.passed,
        "errors": [*finding_lines(tested.errors)],
        "warnings": [*finding_lines(tested.untested)],
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
