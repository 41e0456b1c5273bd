"""Analysing a draft: its findings, tables and verdicts, and what it changes in the saved policy."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from callability.files.policy_source import PolicySource
from callability.finding import Finding, Severity, in_order
from callability.kernel.explanation import explain
from callability.kernel.path import remaining_path, sentences
from callability.policy.deciding.engine_process import OnProgress
from callability.policy.deciding.evaluation import no_progress
from callability.policy.loading import ProvedRuleSet
from callability.policy.questions.callability import CALLABILITY
from callability.policy.questions.fact import Point
from callability.policy.questions.question import Question
from callability.policy.questions.questions import QUESTIONS
from callability.policy.reporting.difference import NotComparable, PolicyChange, by_impact, changes_of
from callability.policy.reporting.plain_data import Plain, of_change, of_count, of_path, of_row, of_trial, of_verdict
from callability.policy.reporting.rows import Row, rows_of
from callability.policy.rules.retry import retry_of
from callability.policy.rules.words import verdict_words
from callability.studio.draft import Draft, Drafts, written_of
from callability.studio.page_data import question_data, tests_data
from callability.studio.rejection import rejection_of
from callability.vocabulary import UNKNOWN

MAX_FINDINGS = 200
"""Findings that are returned for a file, errors first."""
MAX_ROWS = 1_000
"""Rows that are returned for a table."""
MAX_CHANGES = 200
"""Changes that are returned, in the order in which they matter."""
MAX_CONDITIONS = 50
"""Conditions that are returned for a change."""
MAX_LINES = 2_000
"""Lines that are returned for a difference of texts."""


class DraftAnalysis:
    """A draft, and the policy on disk to which it would be saved."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._drafts = Drafts()
        self._saved_texts: Mapping[str, str] = {}
        self._texts: Mapping[str, str] = {}
        self._saved_policy = PolicySource("", ())
        self._draft = Draft({}, (), None)
        self._rows: dict[str, tuple[ProvedRuleSet, tuple[Row, ...]]] = {}

    def check(self, saved: Mapping[str, str], texts: Mapping[str, str]) -> Plain:
        """Check a draft, and return its findings and proofs. Its decision diagrams are not confirmed yet."""
        self._saved_texts, self._texts = saved, texts
        self._saved_policy = written_of(saved, self._directory)
        draft = written_of(texts, self._directory)
        self._drafts.keep(self._saved_policy, draft)
        self._draft = self._drafts.prove(draft)
        return self._checked()

    def confirm(self, progress: OnProgress = no_progress) -> Plain:
        """Let the rules engine confirm the draft that was checked last, and return what `check` returns.

        Several threads call `progress`.
        """
        draft = written_of(self._texts, self._directory)
        self._draft = self._drafts.prove(draft, confirmed=True, progress=progress)
        return self._checked()

    def _checked(self) -> Plain:
        findings = self._draft.findings
        counts = Counter(finding.severity for finding in findings)
        return {
            "revision": self._draft.revision,
            "sound": self._draft.revision is not None,
            "counts": {severity: counts[severity] for severity in Severity},
            "findings": [_finding(finding) for finding in _worst(findings)],
            "proved": {name: _proof(proved) for name, proved in self._draft.proved.items()},
            "tests": [test for proved in self._draft.proved.values() for test in tests_data(proved)],
        }

    def table(self, question: str, facts: Mapping[str, str] | None = None) -> Plain:
        """Return a question and its decision table: the first row that holds is the answer.

        `row` is the number of the row that decides facts, if there are any.
        """
        of, proved = self._rule_set_for(question)
        result: Plain = {"of": of, "question": question_data(_question_of(question, proved))}
        if proved is None:
            return result
        rows = self._rows_of(question, proved)
        given = possible(proved.rule_set.question, facts, "") if facts else None
        return result | {
            "facts": proved.diagram.space.facts,
            "rows": list(map(of_row, rows[:MAX_ROWS])),
            "left_out": max(len(rows) - MAX_ROWS, 0),
            "row": self._row_of(question, proved, given) if given else None,
        }

    def decide(self, question: str, facts: Mapping[str, str], changed: str, *, row: bool = True) -> Plain:
        """Return the verdict for facts; those that contradict the one that was changed are adjusted.

        Without `row`, the row of the table is not looked for: in a large policy that takes longer than all the rest.
        """
        of, proved = self._rule_set_for(question)
        definition = _question_of(question, proved)
        read = readings_of(definition, facts)
        given = possible(definition, read, changed)
        moved = [fact for fact in facts if fact in read and given[fact] != read[fact]]
        result: Plain = {"of": of, "question": question_data(definition), "facts": given, "moved": moved}
        if proved is None:
            return result
        verdict = proved.diagram.verdict(given)
        unread = proved.diagram.unread(verdict, given)
        retry = retry_of(proved.rule_set, proved.diagram, verdict, given)
        said = verdict_words(proved.rule_set, verdict)
        explained = explain(proved.rule_set, proved.diagram, given)
        path = explained.path
        remaining = None if verdict.undetermined else remaining_path(proved.rule_set, proved.diagram, given)
        return result | {
            "read": proved.diagram.space.facts,
            "verdict": of_verdict(verdict, unread, retry, proved.rule_set),
            "words": said.texts if said else None,
            "rejection": rejection_of(verdict, unread, retry, proved.rule_set, remaining)
            if definition.name == CALLABILITY.name
            else None,
            "trials": list(map(of_trial, explained.trials)),
            "path": of_path(path) | {"sentences": sentences(path)} if path else None,
            "row": self._row_of(question, proved, given) if row else None,
            "line": proved.rule_set.rule(verdict.rule).place.line,
        }

    def difference(self) -> Plain:
        """Return what the draft changes: answers, where both can be proved, and lines."""
        saved = self._saved()
        both = [name for name in QUESTIONS if name in saved.proved and name in self._draft.proved]
        found: list[PolicyChange] = []
        too_much: list[str] = []
        for name in both:
            try:
                found.extend(changes_of(name, saved.proved[name], self._draft.proved[name]))
            except NotComparable as error:
                too_much.append(f"`{name}`: {error}")
        return {
            "compared": len(both) == len(QUESTIONS),
            "too_much": too_much,
            "answers": of_count(sum(change.combinations for change in found)),
            "changes": list(map(_change, by_impact(found)[:MAX_CHANGES])),
            "left_out": max(len(found) - MAX_CHANGES, 0),
            "lines": {name: list(self._lines(name)) for name in self._texts if self._is_edited(name)},
        }

    def _rule_set_for(self, question: str) -> tuple[str, ProvedRuleSet | None]:
        """Return a rule set and its source: the saved policy if the draft has none."""
        if question in self._draft.proved:
            return "draft", self._draft.proved[question]
        return "saved", self._saved().proved.get(question)

    def _saved(self) -> Draft:
        return self._drafts.prove(self._saved_policy)

    def _rows_of(self, question: str, proved: ProvedRuleSet) -> tuple[Row, ...]:
        """Return the rows of a table, computed once while it is shown."""
        kept = self._rows.get(question)
        if kept is None or kept[0] is not proved:
            kept = self._rows[question] = proved, rows_of(proved.rule_set, proved.diagram)
        return kept[1]

    def _row_of(self, question: str, proved: ProvedRuleSet, facts: Mapping[str, str]) -> int:
        known = proved.rule_set.question.facts
        read = {name: known[name].reading(facts[name]) for name in proved.diagram.space.facts}
        return next(number for number, row in enumerate(self._rows_of(question, proved)) if row.holds(read))

    def _is_edited(self, name: str) -> bool:
        return self._texts[name] != self._saved_texts.get(name)

    def _lines(self, name: str) -> Iterator[str]:
        """Yield the lines that are added and taken away, with those around them."""
        old, new = (texts.get(name, "").splitlines() for texts in (self._saved_texts, self._texts))
        compared = difflib.unified_diff(old, new, lineterm="", n=1)
        for number, line in enumerate(compared):
            if number == MAX_LINES:
                yield "…"
                return
            if number > 1:
                yield line


def readings_of(question: Question, facts: Mapping[str, str]) -> dict[str, str]:
    """Return the reading of each fact that a question has: of a name the one that stands for its class.

    What is no reading, such as a label's value that is not declared any more, is left out.
    """
    read: dict[str, str] = {}
    for name in chain.from_iterable(axis.facts for axis in question.axes):
        fact, value = question.facts[name], facts.get(name)
        reading = None if value is None else fact.reading(value)
        if reading in fact.readings and (reading != UNKNOWN or value == UNKNOWN):
            read[name] = reading
    return read


def possible(question: Question, facts: Mapping[str, str], changed: str) -> dict[str, str]:
    """Return facts that can occur together: as few as can be moved, and not the one that was changed.

    Those that are not given are open. Facts are normalized first, except those that vary with the one that was
    changed: these are adjusted to it.
    """
    given = readings_of(question, facts)
    with_changed = next((axis.facts for axis in question.axes if changed in axis.facts), ())
    completed = question.completed(given)
    kept = {name: given[name] for name in with_changed if name in given}
    facts = completed | readings_of(question, completed) | kept
    found = dict(facts)
    for axis in question.axes:

        def likeness(point: Point, names: tuple[str, ...] = axis.facts) -> tuple[bool, int]:
            same = [name for name, value in zip(names, point.values, strict=True) if facts[name] == value]
            return changed in same, len(same)

        best = max(axis.points, key=likeness)
        found |= dict(zip(axis.facts, best.values, strict=True))
    return found


def _question_of(name: str, proved: ProvedRuleSet | None) -> Question:
    """Return the question of a rule set, which may have more facts than the one of that name that any begins with."""
    return proved.rule_set.question if proved else QUESTIONS[name]


def _worst(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings to show, in order."""
    by_file: dict[str, list[Finding]] = {}
    for finding in sorted(findings, key=lambda each: each.severity is not Severity.ERROR):
        by_file.setdefault(finding.place.file, []).append(finding)
    return in_order(finding for found in by_file.values() for finding in found[:MAX_FINDINGS])


def _proof(proved: ProvedRuleSet) -> Plain:
    return {
        "combinations": of_count(proved.diagram.space.size),
        "engine": proved.engine,
        "laws": [law.name for law in proved.rule_set.laws],
        "tests_passed": proved.tests,
    }


def _change(change: PolicyChange) -> Plain:
    result = of_change(change)
    return result | {
        "where": result["where"][:MAX_CONDITIONS],
        "conditions": len(result["where"]),
        "words_only": change.words_only,
    }


def _finding(finding: Finding) -> Plain:
    witness = finding.witness
    return {
        "severity": finding.severity,
        "code": finding.code,
        "file": finding.place.file,
        "line": finding.place.line,
        "column": finding.place.column,
        "sentence": finding.sentence,
        "advice": finding.advice,
        "witness": None if witness is None else dict(witness),
    }
