"""Results of a policy's tests: whether each verdict is as expected, and how it differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from callability.finding import Finding, did_you_mean, shown
from callability.policy.deciding.diagram import DecisionDiagram
from callability.policy.reading.case_file import Case
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import verdict_words

MAX_LISTED = 10
"""Differences that one line lists."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something about a verdict that is not as expected; `part`: what is expected must only stand in what is found."""

    what: str
    expected: str
    found: str
    part: bool = False

    def __str__(self) -> str:
        if self.part:
            return f"{self.what} lacks {shown(self.expected)}"
        return f"{self.what} `{self.found}` where `{self.expected}` is expected"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case and its result; no finding: it passed. Without a verdict it could not be run."""

    case: Case
    verdict: Verdict | None
    differences: tuple[Difference, ...]
    finding: Finding | None


def run_case(case: Case, rule_set: RuleSet, diagram: DecisionDiagram) -> CaseResult:
    """Run a case, and compare what it expects with what the policy does."""
    ids = [rule.id for rule in rule_set.rules]
    if case.rule is not None and case.rule not in ids:
        sentence = f"test {shown(case.name)} expects unknown rule {shown(case.rule)}"
        hint = did_you_mean(case.rule, ids)
        return CaseResult(case, None, (), Finding(case.place, "unknown-rule", sentence, hint))
    contradicted = rule_set.question.contradicted(case.facts)
    if contradicted:
        sentence = f"test {shown(case.name)} has facts that cannot occur together"
        return CaseResult(case, None, (), Finding(case.place, "impossible-facts", sentence, contradicted.impossible))
    verdict = diagram.verdict(case.facts)
    differences = (*_of_verdict(case, verdict), *_of_words(case, verdict, rule_set))
    if not differences:
        return CaseResult(case, verdict, (), None)
    more = f"; and {len(differences) - MAX_LISTED:,} more" if len(differences) > MAX_LISTED else ""
    sentence = f"test {shown(case.name)} fails: {'; '.join(map(str, differences[:MAX_LISTED]))}{more}"
    return CaseResult(case, verdict, differences, Finding(case.place, "test-failed", sentence))


def _of_verdict(case: Case, verdict: Verdict) -> Iterator[Difference]:
    for what in ("status", "rule", "undetermined", "withhold_text"):
        expected, found = getattr(case, what), getattr(verdict, what)
        if expected is not None and found != expected:
            yield Difference(what, _written(expected), _written(found))


def _of_words(case: Case, verdict: Verdict, rule_set: RuleSet) -> Iterator[Difference]:
    said = verdict_words(rule_set, verdict)
    for name, parts in case.words.items():
        text = said.texts[name] if said else ""
        yield from (Difference(name, part, text, part=True) for part in parts if part not in text)


def _written(value: str | bool | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
