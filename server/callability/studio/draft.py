"""Drafts of a policy: proved question by question, so that an edit of one file decides only that file again."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from callability import document
from callability.bundling.writing import with_size
from callability.files.policy_source import PolicyFile, PolicySource
from callability.finding import Finding, Place, has_errors, in_order
from callability.policy.deciding.engine_process import OnProgress
from callability.policy.deciding.evaluation import Engine, no_progress
from callability.policy.loading import Check, Policy, ProvedRuleSet, check_source
from callability.policy.questions.questions import QUESTIONS
from callability.studio.policy_files import other_files

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
