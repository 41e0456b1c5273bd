"""Analysing a draft: its findings, tables and verdicts, and what it changes in the saved policy.

As a program, it is the child process that analyses a draft; it can be killed at any time. It is given the directory of
the policy, reads tasks from standard input and writes answers to standard output, each one line of JSON, and ends with
its input. Before an answer it may write lines about its progress.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path, PurePath
from threading import Lock
from typing import Any

from callability.adapter import NEUTRAL, rejection
from callability.compiler.bundle_writing import compile_rule_set, with_size
from callability.compiler.confirmation import Engine, OnProgress, no_progress
from callability.compiler.difference import NotComparable, PolicyChange, by_impact, changes_of
from callability.compiler.policy import Check, Policy, ProvedRuleSet, check_source
from callability.compiler.proof import MAX_LISTED
from callability.compiler.question import Fact, Point, Question
from callability.compiler.questions import CALLABILITY, QUESTIONS
from callability.compiler.rule_set import RuleSet, Templates, Verdict, declared_phrases, verdict_words
from callability.compiler.table import Plain, Row, of_change, of_count, of_path, of_row, of_trial, of_verdict, rows_of
from callability.contract.enum_words import RETRY, TOOL_STATUS
from callability.contract.finding import Finding, Place, Severity, as_json, has_errors, in_order
from callability.contract.vocabulary import UNKNOWN, Retry
from callability.files import document
from callability.files.policy_source import PolicyFile, PolicySource
from callability.kernel.path import Path as PathToCallable
from callability.kernel.path import explain, remaining_path, retry_of, sentences
from callability.kernel.results import path_message
from callability.kernel.rule_set import RuleSet as CompiledRuleSet
from callability.process.limits import limit_this_process
from callability.studio.policy_files import SavedFile, other_files
from callability.v1.callability_service_pb2 import CheckToolResponse
from callability.v1.verdict_pb2 import ToolStatus, ToolVerdict, ToolWords

SECONDS = 30.0
"""What the rules engine may take for one rule set."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What was proved, by question, and all findings in order; the revision where nothing refuses it."""

    proved: Mapping[str, ProvedRuleSet]
    findings: tuple[Finding, ...]
    revision: str | None


@dataclass(frozen=True, slots=True)
class _Part:
    """The result for the files of one question."""

    proved: ProvedRuleSet | None
    findings: tuple[Finding, ...]


class Drafts:
    """Proves drafts, and remembers the parts of those that are looked at."""

    def __init__(self) -> None:
        self._parts: dict[PolicySource, _Part] = {}
        self._confirmed: dict[PolicySource, _Part] = {}

    def prove(self, written: PolicySource, *, confirmed: bool = False, progress: OnProgress = no_progress) -> Draft:
        """Prove a policy as it is written; `confirmed`: let the rules engine decide witnesses too, which takes longer.

        What was confirmed once stays so. Several threads call `progress` as the engine decides witnesses. A policy that
        no bundle can hold is refused once it is confirmed: nothing would serve it.
        """
        groups = _groups(written)
        with ThreadPoolExecutor(max_workers=len(groups)) as pool:
            each = pool.map(partial(self._part, confirmed=confirmed, progress=progress), groups.values())
            parts = dict(zip(groups, each, strict=True))
        findings = in_order((*written.findings, *(finding for part in parts.values() for finding in part.findings)))
        proved = {name: part.proved for name, part in parts.items() if part.proved}
        if confirmed and not has_errors(findings):
            policy = Policy(written.revision, proved, findings)
            findings = with_size(Check(proved, findings, policy), written.shown).findings
        return Draft(proved, findings, None if has_errors(findings) else written.revision)

    def keep(self, *kept: PolicySource) -> None:
        """Forget all parts but those of some policies."""
        groups = {group for written in kept for group in _groups(written).values()}
        self._parts = {group: part for group, part in self._parts.items() if group in groups}
        self._confirmed = {group: part for group, part in self._confirmed.items() if group in groups}

    def _part(self, group: PolicySource, *, confirmed: bool, progress: OnProgress) -> _Part:
        if group in self._confirmed:
            return self._confirmed[group]
        kept = self._confirmed if confirmed else self._parts
        if group not in kept:
            check = check_source(group, engine=Engine.AUTO if confirmed else None, seconds=SECONDS, progress=progress)
            # No group is about more than one question.
            kept[group] = _Part(next(iter(check.proved.values()), None), check.findings)
        return kept[group]


def written_of(texts: Mapping[str, str], directory: Path) -> PolicySource:
    """Return texts by the names of their files as one policy without a name, with the other files of a directory."""
    files = [PolicyFile(PurePath(name), name, text.encode()) for name, text in texts.items()]
    others = other_files(directory, texts)
    names = {Path(name).stem for name in (*texts, *(path.name for path in others))}
    findings: list[Finding] = []
    for path in others:
        try:
            files.append(PolicyFile(path, path.name, document.read_bytes(path, path.name)))
        except document.Refused as error:
            findings.extend(error.findings)
    if not directory.is_dir():
        findings.append(Finding(Place(""), "no-directory", "its directory cannot be read: it may have been moved away"))
        names |= {*QUESTIONS}
    return PolicySource("", tuple(files), tuple(findings), frozenset(names))


def _groups(written: PolicySource) -> dict[str, PolicySource]:
    """Return the files of each question as a policy of which nothing else is missing, and the files of no question."""
    groups = {}
    for name in (*QUESTIONS, ""):
        files = tuple(file for file in written.files if name == (file.question if file.question in QUESTIONS else ""))
        groups[name] = PolicySource("", files, (), written.names | {*QUESTIONS} - {name})
    return groups


MAX_TESTS = 500
"""Tests of a rule set that are returned, failed ones first."""


def question_data(question: Question) -> Plain:
    """Return a question with the facts that vary; labels of the rule set are among them."""
    varying = {name for axis in question.axes for name in axis.facts}
    return {
        "name": question.name,
        "facts": [_fact(fact) for name, fact in question.facts.items() if name in varying],
        "actions": {action.name: {"owner": action.owner, "phrase": action.phrase} for action in question.actions},
    }


def tests_data(proved: ProvedRuleSet) -> list[Plain]:
    """Return the tests of a rule set, failed ones first, each with its facts and what failed."""
    results = sorted(proved.results, key=lambda result: result.finding is None)
    return [
        {
            "name": result.case.name,
            "file": result.case.place.file,
            "line": result.case.place.line,
            "facts": dict(result.case.facts),
            "expected": result.case.status,
            "failed": result.finding.sentence if result.finding else "",
            "differences": [str(difference) for difference in result.differences[:MAX_LISTED]],
        }
        for result in results[:MAX_TESTS]
    ]


def saved_data(file: SavedFile) -> Plain:
    """Return the current state of a file on disk."""
    return {"name": file.name, "text": file.text, "digest": file.digest, "problem": file.problem}


def _fact(fact: Fact) -> Plain:
    readings = [{"value": value, "text": ", ".join(fact.describe((value,)))} for value in fact.readings]
    return {"name": fact.name, "readings": readings}


SERVER, TOOL = "server", "tool"
"""The names that stand in an answer in place of those that the agent named."""


def rejection_of(
    verdict: Verdict, unread: Sequence[str], retry: Retry, rule_set: RuleSet, remaining: PathToCallable | None
) -> Plain | None:
    """Return the MCP tool result of a call, with the neutral phrases of the actions; None if the tool is called."""
    question = rule_set.question
    said = verdict_words(rule_set, verdict)
    number = TOOL_STATUS.numbers[verdict.status]
    response = CheckToolResponse(
        verdict=ToolVerdict(
            status=number,
            rule=verdict.rule,
            undetermined=verdict.undetermined,
            retry=RETRY.numbers[retry],
            unread=unread,
        ),
        words=_words(number, said.texts, rule_set) if said else None,
        remaining=path_message(remaining, question.actions, TOOL_STATUS.numbers) if remaining else None,
    )
    return rejection(response, SERVER, TOOL, phrases=NEUTRAL)


def _words(status: ToolStatus.ValueType, said: Templates, rule_set: RuleSet) -> ToolWords:
    """Return the words as the service sends them, with the phrases of declared actions."""
    phrases = declared_phrases(said, rule_set.question)
    return ToolWords(status=status, rejection=said["rejection"], phrases=phrases)


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
        self._compiled: dict[str, tuple[ProvedRuleSet, CompiledRuleSet]] = {}

    def check(self, saved: Mapping[str, str], texts: Mapping[str, str]) -> Plain:
        """Check a draft, and return its findings and proofs. Its decision diagrams are not confirmed yet."""
        self._saved_texts, self._texts = saved, texts
        self._saved_policy = written_of(saved, self._directory)
        draft = written_of(texts, self._directory)
        self._drafts.keep(self._saved_policy, draft)
        self._draft = self._drafts.prove(draft)
        return self._check()

    def confirm(self, progress: OnProgress = no_progress) -> Plain:
        """Let the rules engine confirm the draft that was checked last, and return what `check` returns.

        Several threads call `progress`.
        """
        draft = written_of(self._texts, self._directory)
        self._draft = self._drafts.prove(draft, confirmed=True, progress=progress)
        return self._check()

    def _check(self) -> Plain:
        findings = self._draft.findings
        counts = Counter(finding.severity for finding in findings)
        return {
            "revision": self._draft.revision,
            "sound": self._draft.revision is not None,
            "counts": {severity: counts[severity] for severity in Severity},
            "findings": [as_json(finding) for finding in _worst(findings)],
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
        rules = self._compile(question, proved)
        retry = retry_of(rules, rules.decide(rules.points_of(given)), given)
        said = verdict_words(proved.rule_set, verdict)
        explained = explain(rules, given)
        path = explained.path
        remaining = None if verdict.undetermined else remaining_path(rules, given)
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
        saved = self._saved_draft()
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
        return "saved", self._saved_draft().proved.get(question)

    def _saved_draft(self) -> Draft:
        return self._drafts.prove(self._saved_policy)

    def _rows_of(self, question: str, proved: ProvedRuleSet) -> tuple[Row, ...]:
        """Return the rows of a table, computed once while it is shown."""
        kept = self._rows.get(question)
        if kept is None or kept[0] is not proved:
            kept = self._rows[question] = proved, rows_of(proved.rule_set, proved.diagram)
        return kept[1]

    def _compile(self, question: str, proved: ProvedRuleSet) -> CompiledRuleSet:
        """Return a rule set as it explains verdicts, compiled once while it is shown."""
        kept = self._compiled.get(question)
        if kept is None or kept[0] is not proved:
            kept = self._compiled[question] = proved, compile_rule_set(proved)
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
    completed = question.complete(given)
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


def main() -> None:
    """Answer tasks until there are no more."""
    limit_this_process()
    analysis = DraftAnalysis(Path(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(_answer(analysis, json.loads(line))), flush=True)


class Progress:
    """Writes how many of how many witnesses the rules engine has decided, as lines before the answer."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._decided = self._of = 0

    def __call__(self, decided: int, of: int) -> None:
        """Add what was decided, and what there is to decide. Threads may call it at a time."""
        with self._lock:
            self._decided += decided
            self._of += of
            print(json.dumps({"progress": [self._decided, self._of]}), flush=True)


def _answer(analysis: DraftAnalysis, task: dict[str, Any]) -> dict[str, Any]:
    match task:
        case {"do": "check", "saved": saved, "texts": texts}:
            return analysis.check(saved, texts)
        case {"do": "confirm"}:
            return analysis.confirm(Progress())
        case {"do": "table", "question": question, "facts": facts}:
            return analysis.table(question, facts)
        case {"do": "decide", "question": question, "facts": facts, "changed": changed, "row": row}:
            return analysis.decide(question, facts, changed, row=row)
        case {"do": "difference"}:
            return analysis.difference()
    raise ValueError(f"no task: {task}")


if __name__ == "__main__":
    main()
