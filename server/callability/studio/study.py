"""What can be asked of a draft: its findings, its tables, its answers, and what it changes in the saved policy."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from callability.finding import Finding
from callability.policy.difference import changes_of
from callability.policy.explanation import explain
from callability.policy.fact import Point
from callability.policy.loading import ProvedRuleSet
from callability.policy.path import sentences
from callability.policy.plain import Plain, of_change, of_path, of_row, of_trial, of_verdict
from callability.policy.question import Question
from callability.policy.questions import QUESTIONS
from callability.policy.rows import Row, rows_of
from callability.policy.words import spoken_of
from callability.studio.draft import Draft, Drafts, written_of
from callability.studio.files import other_files

MAX_ROWS = 1_000
"""Rows of a table that are told."""
MAX_LINES = 2_000
"""Lines of a difference of texts that are told."""


class Study:
    """A draft, and the policy on disk that it would become part of."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._drafts = Drafts()
        self._saved_texts: Mapping[str, str] = {}
        self._texts: Mapping[str, str] = {}
        self._saved_policy = written_of({}, ())
        self._draft = Draft({}, (), None)
        self._rows: dict[str, tuple[ProvedRuleSet, tuple[Row, ...]]] = {}

    def check(self, saved: Mapping[str, str], texts: Mapping[str, str]) -> Plain:
        """Take a draft to look at, and return what is wrong with it."""
        self._saved_texts, self._texts = saved, texts
        self._saved_policy = written_of(saved, other_files(self._directory, saved))
        draft = written_of(texts, other_files(self._directory, texts))
        self._drafts.keep(self._saved_policy, draft)
        self._draft = self._drafts.prove(draft)
        return {
            "revision": self._draft.revision,
            "sound": self._draft.revision is not None,
            "findings": list(map(_finding, self._draft.findings)),
            "proved": {name: _proof(proved) for name, proved in self._draft.proved.items()},
        }

    def table(self, question: str) -> Plain:
        """Return the decision table of a question: the first row that holds is the answer."""
        of, proved = self._asked(question)
        if proved is None:
            return {"of": of}
        rows = self._rows_of(question, proved)
        return {
            "of": of,
            "facts": proved.table.space.facts,
            "rows": list(map(of_row, rows[:MAX_ROWS])),
            "left_out": max(len(rows) - MAX_ROWS, 0),
        }

    def decide(self, question: str, facts: Mapping[str, str], changed: str) -> Plain:
        """Return the answer for facts, moved where they cannot occur together, but for the one that was changed."""
        of, proved = self._asked(question)
        asked = QUESTIONS[question]
        given = possible(asked, asked.open_facts | dict(facts), changed)
        moved = [fact for fact, value in facts.items() if given[fact] != value]
        told: Plain = {"of": of, "facts": given, "moved": moved}
        if proved is None:
            return told
        verdict = proved.table.verdict(given)
        said = spoken_of(proved.rule_set, verdict)
        explained = explain(proved.rule_set, given)
        path = explained.path
        return told | {
            "verdict": of_verdict(verdict, proved.rule_set),
            "words": said.texts if said else None,
            "words_of": said.rule if said else "",
            "trials": list(map(of_trial, explained.trials)),
            "path": of_path(path) | {"sentences": sentences(path)} if path else None,
            "row": next(number for number, row in enumerate(self._rows_of(question, proved)) if _holds(row, given)),
            "line": proved.rule_set.rule(verdict.rule).place.line,
        }

    def difference(self) -> Plain:
        """Return what the draft changes: answers, where both can be proved, and lines."""
        saved = self._saved()
        both = [name for name in QUESTIONS if name in saved.proved and name in self._draft.proved]
        found = [change for name in both for change in changes_of(name, saved.proved[name], self._draft.proved[name])]
        found.sort(key=lambda change: (both.index(change.question), change.words_only, -change.combinations))
        return {
            "compared": both,
            "changes": [of_change(change) | {"words_only": change.words_only} for change in found],
            "lines": {name: list(self._lines(name)) for name in self._texts if self._is_edited(name)},
        }

    def _asked(self, question: str) -> tuple[str, ProvedRuleSet | None]:
        """Return what is looked at, and whose it is: that of the saved policy where the draft has none."""
        if question in self._draft.proved:
            return "draft", self._draft.proved[question]
        return "saved", self._saved().proved.get(question)

    def _saved(self) -> Draft:
        return self._drafts.prove(self._saved_policy)

    def _rows_of(self, question: str, proved: ProvedRuleSet) -> tuple[Row, ...]:
        """Return the rows of a table, made once for as long as it is looked at."""
        kept = self._rows.get(question)
        if kept is None or kept[0] is not proved:
            kept = self._rows[question] = proved, rows_of(proved.rule_set, proved.table)
        return kept[1]

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


def possible(question: Question, facts: Mapping[str, str], changed: str) -> dict[str, str]:
    """Return facts that can occur together: as few as can be moved, and not the one that was changed."""
    found = dict(facts)
    for axis in question.axes:

        def likeness(point: Point, names: tuple[str, ...] = axis.facts) -> tuple[bool, int]:
            same = [name for name, value in zip(names, point.values, strict=True) if facts[name] == value]
            return changed in same, len(same)

        best = max(axis.points, key=likeness)
        found |= dict(zip(axis.facts, best.values, strict=True))
    return found


def _holds(row: Row, facts: Mapping[str, str]) -> bool:
    return all(facts[fact] in values for fact, values in row.facts.items())


def _proof(proved: ProvedRuleSet) -> Plain:
    return {
        "rules": len(proved.rule_set.rules),
        "combinations": proved.table.space.size,
        "engine": proved.table.engine,
        "laws": [law.name for law in proved.rule_set.laws],
        "tests_passed": proved.tests,
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
