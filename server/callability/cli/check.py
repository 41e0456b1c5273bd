"""`callability check`: prove a policy, and report its findings as text, as JSON or as SARIF 2.1.0."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from callability import __version__
from callability.cli.options import JsonOption, PolicyArgument, condition_text, leave, number_of, outcome_line
from callability.cli.policies import WatchOption, progress_bar, watch_policy
from callability.compiler.bundle_writing import with_size
from callability.compiler.confirmation import Confirmation, Engine
from callability.compiler.difference import Effect, Overlap, effects, notes, overlaps
from callability.compiler.finding_meanings import MEANINGS, Meaning
from callability.compiler.policy import Check, ProvedRuleSet, check_source
from callability.compiler.proof import Decided
from callability.compiler.questions import QUESTIONS
from callability.compiler.table import of_count
from callability.contract.finding import (
    MAX_FINDINGS,
    Finding,
    Place,
    Severity,
    finding_lines,
    findings_data,
    in_order,
    witness_text,
)
from callability.files.policy_origin import origin_at
from callability.files.policy_source import PolicySource
from callability.files.shipped_policy import shipped_policy
from callability.kernel.conditions import SEMANTICS


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of checking a policy; `strict`: warnings refuse it too."""

    directory: Path
    check: Check
    strict: bool

    @property
    def sound(self) -> bool:
        """Whether nothing refuses it."""
        return self.check.policy is not None and not (self.strict and self.check.findings)

    def notes(self) -> tuple[Finding, ...]:
        """Return notes: what may be intended, and refuses nothing."""
        decided = ((each.rule_set, Decided(each.rule_set, each.diagram)) for each in self.check.proved.values())
        return in_order(chain.from_iterable(notes(rule_set, where) for rule_set, where in decided))


def as_text(checked: CheckReport, *, verbose: bool) -> str:
    """Return the findings and the proofs as text; `verbose`: with notes, and with each rule."""
    check = checked.check
    findings = in_order((*check.findings, *(checked.notes() if verbose else ())))
    lines = [*finding_lines(findings)]
    refused = _count_unproved(check)
    for name in QUESTIONS:
        if name in refused:
            lines += [name, f"  refused       {number_of(refused[name], 'error')} (see above), nothing is proved"]
        proved = check.proved.get(name)
        if proved is None:
            continue
        lines += _proof_lines(
            name, proved, [each.code for each in check.findings if Path(each.place.file).stem == name]
        )
        if verbose:
            lines += _rules(proved)
    lines.append(f"{outcome_line(checked.directory, check.findings, accepted=checked.sound)}{_tests(check)}")
    if check.policy and checked.sound:
        lines.append(f"revision {check.policy.revision}")
    return "\n".join(lines)


def _count_unproved(check: Check) -> dict[str, int]:
    """Return the rule sets that could not be proved because of errors in their files, with the number of these."""
    errors = Counter(Path(each.place.file).stem for each in check.findings if each.severity is Severity.ERROR)
    return {name: errors[name] for name in QUESTIONS if name not in check.proved and errors[name]}


def _proof_lines(name: str, proved: ProvedRuleSet, codes: list[str]) -> list[str]:
    diagram, laws = proved.diagram, len(proved.rule_set.laws)
    dead = "with dead rules (see above)" if "never-decides" in codes else "no dead rule"
    return [
        f"{name}",
        f"  facts         {', '.join(diagram.space.facts)}",
        f"  combinations  {diagram.space.size:,}, in {number_of(diagram.regions, 'region')}",
        f"  confirmed     {_confirmation_text(proved.confirmation)}",
        f"  rules         {len(proved.rule_set.rules)}",
        f"  proved        it always answers, {dead}",
        f"  laws          {laws - codes.count('law-broken')} of {laws} hold",
        f"  tests         {_outcome(proved.tests, len(proved.results))}",
    ]


def _outcome(passed: int, tests: int) -> str:
    return f"{passed} passed" if passed == tests else f"{passed} passed, {tests - passed} failed"


def _tests(check: Check) -> str:
    """Return how many tests were run and how many failed; empty if every rule set with tests was refused before."""
    tests = sum(len(proved.results) for proved in check.proved.values())
    failed = tests - sum(proved.tests for proved in check.proved.values())
    if not tests:
        return ""
    return f", {failed} of {number_of(tests, 'test')} failed" if failed else f", {number_of(tests, 'test')} passed"


def _confirmation_text(confirmation: Confirmation | None) -> str:
    """Say what decided witnesses of a diagram as it does, and how many."""
    if confirmation is None:
        return "not by an engine"
    regions = number_of(confirmation.of_regions, "region")
    if confirmation.regions < confirmation.of_regions:
        regions = f"{confirmation.regions:,} of {regions}"
    witnesses = "1 witness" if confirmation.witnesses == 1 else f"{confirmation.witnesses:,} witnesses"
    return f"by {confirmation.engine}, in {witnesses} of {regions}"


def _rules(proved: ProvedRuleSet) -> Iterator[str]:
    decided = Decided(proved.rule_set, proved.diagram)
    order = overlaps(proved.rule_set, decided)
    for effect in effects(proved.rule_set, decided):
        rule = effect.rule
        yield f"  rule `{rule.id}` gives `{rule.status}` in {number_of(effect.combinations, 'combination')}"
        for where in effect.where:
            yield f"    where       {condition_text(where)}"
        if not effect.whole:
            yield "    where       and more"
        if effect.undetermined:
            count = number_of(effect.undetermined, "combination")
            yield f"    unknown     it is reached and cannot be read in {count}"
        for overlap in order:
            if overlap.upper is rule:
                count = number_of(overlap.answers, "answer")
                yield (
                    f"    order       swapping it with `{overlap.lower.id}` changes {count},"
                    f" for example {witness_text(overlap.witness)}"
                )


def as_json(checked: CheckReport) -> str:
    """Return the whole report as one JSON object."""
    check = checked.check
    answer = {
        "directory": str(checked.directory),
        "sound": checked.sound,
        "revision": check.policy.revision if check.policy else None,
        "semantics": SEMANTICS,
        "rule_sets": [_json_of(name, proved) for name, proved in check.proved.items()],
        "refused_rule_sets": list(_count_unproved(check)),
        **findings_data(check.findings),
        "notes": findings_data(checked.notes())["findings"],
    }
    return json.dumps(answer, indent=2)


def _json_of(name: str, proved: ProvedRuleSet) -> dict[str, Any]:
    decided = Decided(proved.rule_set, proved.diagram)
    return {
        "name": name,
        "facts": proved.diagram.space.facts,
        "combinations": of_count(proved.diagram.space.size),
        "engine": proved.engine,
        "rules": [_json_of_effect(effect) for effect in effects(proved.rule_set, decided)],
        "order": [_json_of_overlap(overlap) for overlap in overlaps(proved.rule_set, decided)],
        "laws": [law.name for law in proved.rule_set.laws],
        "tests_passed": proved.tests,
    }


def _json_of_effect(effect: Effect) -> dict[str, Any]:
    return {
        "id": effect.rule.id,
        "status": effect.rule.status,
        "line": effect.rule.place.line,
        "combinations": of_count(effect.combinations),
        "undetermined": of_count(effect.undetermined),
        "where": effect.where,
        "whole": effect.whole,
        "witness": None if effect.witness is None else dict(effect.witness),
    }


def _json_of_overlap(overlap: Overlap) -> dict[str, Any]:
    return {
        "upper": overlap.upper.id,
        "lower": overlap.lower.id,
        "answers": of_count(overlap.answers),
        "witness": None if overlap.witness is None else dict(overlap.witness),
    }


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def as_sarif(checked: CheckReport) -> str:
    """Write one run with the codes that occur as its rules, and a result for each finding, notes among them."""
    every = in_order((*checked.check.findings, *checked.notes()))
    findings = every[:MAX_FINDINGS]
    codes = sorted({finding.code for finding in findings})
    driver = {
        "name": "callability",
        "version": __version__,
        "rules": [_rule(code, MEANINGS[code]) for code in codes],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in findings],
        "properties": {"sound": checked.sound, "findingsMore": len(every) - len(findings)},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(code: str, meaning: Meaning) -> dict[str, Any]:
    return {
        "id": code,
        "shortDescription": {"text": meaning.means},
        "help": {
            "text": f"{meaning.means} {meaning.fix}",
            "markdown": f"{meaning.means} {meaning.fix} (docs/findings.md#{code})",
        },
        "defaultConfiguration": {"level": meaning.severity},
    }


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    text = f"{finding.sentence} ({finding.advice})" if finding.advice else finding.sentence
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": text},
        "locations": [{"physicalLocation": _location(finding.place)}],
    }
    if finding.witness is not None:
        result["properties"] = {"witness": dict(finding.witness)}
    return result


def _location(place: Place) -> dict[str, Any]:
    path = Path(place.file)
    location: dict[str, Any] = {
        "artifactLocation": {"uri": path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))}
    }
    if place.line:
        location["region"] = {"startLine": place.line, "startColumn": place.column}
    return location


class CheckFormat(StrEnum):
    """The output format of the findings."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def check(
    directory: PolicyArgument = None,
    engine: Annotated[
        Engine, typer.Option(help="What confirms the policy. `both` compares durable-rules with the reference.")
    ] = Engine.AUTO,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the policy for warnings too.")] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Print for each rule where it decides, and where its position matters."),
    ] = False,
    form: Annotated[
        CheckFormat, typer.Option("--format", help="Output format: JSON has everything, SARIF the findings.")
    ] = CheckFormat.TEXT,
    json: JsonOption = False,
    watch: WatchOption = False,
) -> None:
    """Prove a policy: decide every combination of facts, prove its laws, run its tests and print all findings.

    With `--watch`, check again after each edit. Exit code 0: the policy is accepted. 1: it is refused. 2: usage error.
    """
    if json and form is CheckFormat.SARIF:
        leave("`--json` and `--format sarif` exclude each other", 2)
    of = directory or shipped_policy()
    origin = origin_at(of)

    def sound(written: PolicySource) -> bool:
        with progress_bar() as progress:
            result = with_size(check_source(written, engine=engine, progress=progress, wants_tests=True), written.shown)
        checked = CheckReport(of, result, strict=strict)
        typer.echo(_report(checked, CheckFormat.JSON if json else form, verbose=verbose))
        return checked.sound

    raise typer.Exit(0 if (watch_policy(origin, sound) if watch else sound(origin.source())) else 1)


def _report(checked: CheckReport, form: CheckFormat, *, verbose: bool) -> str:
    match form:
        case CheckFormat.TEXT:
            return as_text(checked, verbose=verbose)
        case CheckFormat.JSON:
            return as_json(checked)
        case CheckFormat.SARIF:
            return as_sarif(checked)
