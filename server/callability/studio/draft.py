"""A policy as it is typed: proved question by question, so that an edit of one file decides that one alone anew."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from callability.finding import Finding, Place, has_errors, in_order
from callability.policy.loading import ProvedRuleSet, check_files, revision_of
from callability.policy.questions import QUESTIONS
from callability.studio.files import NAMES

SECONDS = 30.0
"""What the rules engine may take for one rule set."""

_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """What was proved, by question, and all findings in order; the revision where nothing refuses it."""

    proved: Mapping[str, ProvedRuleSet]
    findings: tuple[Finding, ...]
    revision: str | None


@dataclass(frozen=True, slots=True)
class _Part:
    """What came of the files of one question."""

    proved: ProvedRuleSet | None
    findings: tuple[Finding, ...]


class Drafts:
    """Proves drafts, and remembers the parts of the last ones."""

    def __init__(self) -> None:
        self._parts: dict[_Key, _Part] = {}

    def prove(self, texts: Mapping[str, str], others: Iterable[Path]) -> Draft:
        """Prove the texts of files, with files that are taken from disk as they are."""
        others = tuple(others)
        groups = [_group(name, texts, others) for name in (*QUESTIONS, "")]
        with ThreadPoolExecutor(max_workers=len(groups)) as pool:
            parts = dict(zip((*QUESTIONS, ""), pool.map(self._part, groups), strict=True))
        findings = in_order(finding for part in parts.values() for finding in part.findings)
        proved = {name: part.proved for name, part in parts.items() if part.proved}
        revision = None if has_errors(findings) else _revision(texts)
        return Draft(proved, findings, revision)

    def keep(self, *kept: Mapping[str, str]) -> None:
        """Forget all parts but those of some texts."""
        keys = {_key(_group(name, texts, ())) for texts in kept for name in QUESTIONS}
        self._parts = {key: part for key, part in self._parts.items() if key in keys}

    def _part(self, group: _Group) -> _Part:
        if group.others:
            return _proved(group)
        key = _key(group)
        if key not in self._parts:
            self._parts[key] = _proved(group)
        return self._parts[key]


@dataclass(frozen=True, slots=True)
class _Group:
    """The files of one question, or, with an empty name, those of none."""

    question: str
    texts: Mapping[str, str]
    others: tuple[Path, ...]


def _group(question: str, texts: Mapping[str, str], others: Iterable[Path]) -> _Group:
    return _Group(
        question,
        {name: texts[name] for name in NAMES if name in texts and _question(Path(name)) == question},
        tuple(path for path in others if _question(path) == question),
    )


def _question(path: Path) -> str:
    name = path.stem.removesuffix("_test")
    return name if name in QUESTIONS else ""


def _key(group: _Group) -> _Key:
    return (group.question, *(each for file in sorted(group.texts.items()) for each in file))


def _proved(group: _Group) -> _Part:
    with TemporaryDirectory(prefix="callability-studio-") as temporary:
        directory = Path(temporary)
        for name, text in group.texts.items():
            (directory / name).write_bytes(text.encode())
        for path in group.others:
            os.symlink(path.resolve(), directory / path.name)
        paths = [directory / name for name in (*group.texts, *(path.name for path in group.others))]
        check = check_files(paths, directory, seconds=SECONDS)
    findings = tuple(
        _as_named(finding, directory) for finding in check.findings if _is_about(finding, group, directory)
    )
    return _Part(check.proved.get(group.question), findings)


def _is_about(finding: Finding, group: _Group, directory: Path) -> bool:
    """Say whether a finding is about a group: of each rule set that is not among its files it is told to be missing."""
    return finding.place.file != str(directory) or f"`{group.question}.yaml`" in finding.sentence


def _as_named(finding: Finding, directory: Path) -> Finding:
    """Return a finding with the name of its file, empty where it is about the policy as a whole."""
    file = "" if finding.place.file == str(directory) else Path(finding.place.file).name
    return replace(finding, place=Place(file, finding.place.line, finding.place.column))


def _revision(texts: Mapping[str, str]) -> str:
    return revision_of((name, text.encode()) for name, text in texts.items() if not name.endswith("_test.yaml"))
