"""Findings: what is wrong in a file, where, and what to do about it, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_SHOWN = 128
"""Characters of a word that are shown."""
MAX_LISTED = 20
"""Names in one list; the rest is counted."""
MAX_FINDINGS = 1_000
"""Findings of a policy that are listed; the rest is counted."""
_NEAR = 60


class Severity(StrEnum):
    """Whether a finding refuses what it was found in: an error does, a warning where it is asked to, a note never."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a file; line and column count from 1, and are 0 where the finding is about the file as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        file = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in self.file)
        return f"{file}:{self.line}:{self.column}" if self.line else file


EMPTY = '""'
"""How a value is written that has no character."""

Witness = tuple[tuple[str, str], ...]
"""One concrete set of facts, by name and value; a fact that is not in it has its default."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to fix: a stable code, a sentence, a place and, where there is one, a hint and a witness."""

    place: Place
    code: str
    sentence: str
    hint: str = ""
    severity: Severity = Severity.ERROR
    witness: Witness | None = None

    @property
    def advice(self) -> str:
        """The hint and the witness in words; empty where there is neither."""
        example = f"for example {witness_text(self.witness)}" if self.witness is not None else ""
        return joined_hints(self.hint, example)

    def __str__(self) -> str:
        line = f"{self.place}: {self.sentence}"
        return f"{line} ({self.advice})" if self.advice else line


def joined_hints(*hints: str) -> str:
    """Join the hints that are not empty; a question ends by itself."""
    return "; ".join(filter(None, hints)).replace("?; ", "? ")


def witness_text(witness: Witness) -> str:
    """Write a set of facts, as far as they are not open."""
    return ", ".join(f"{fact} {value or EMPTY}" for fact, value in witness) or "every fact at its default"


def line(finding: Finding) -> str:
    """Write a finding in one line, with its code."""
    severity = "" if finding.severity is Severity.ERROR else f"{finding.severity}: "
    advice = f" ({finding.advice})" if finding.advice else ""
    return f"{finding.place}: {severity}{finding.sentence}{advice} [{finding.code}]"


def finding_lines(findings: Sequence[Finding], most: int = MAX_FINDINGS) -> Iterator[str]:
    """Yield the first findings in a line each, and how many more there are."""
    yield from map(line, findings[:most])
    if len(findings) > most:
        yield f"and {len(findings) - most:,} more"


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings sorted by place, each of them once."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: (finding.place, finding.code, finding.sentence)))


def count_of(severity: Severity, findings: Iterable[Finding]) -> int:
    """Return how many findings have a severity."""
    return sum(finding.severity is severity for finding in findings)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Say whether any of the findings refuses what it was found in."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def nearest(found: str, wanted: Iterable[str]) -> str:
    """Return the wanted name that is nearest; empty if none is near."""
    # What finds nothing need not wait for this import.
    from rapidfuzz import fuzz, process  # noqa: PLC0415

    near = process.extractOne(found, sorted(wanted), scorer=fuzz.ratio, score_cutoff=_NEAR)
    return near[0] if near else ""


def did_you_mean(found: str, wanted: Iterable[str]) -> str:
    """Return a hint that names the nearest wanted name, or all of them where none is near and they are few."""
    names = sorted(wanted)
    if near := nearest(found, names):
        return f"did you mean {as_code(near)}?"
    return f"one of {list_names(names)}" if 0 < len(names) <= 12 else ""


def no_such(sentence: str, name: str, names: Iterable[str]) -> str:
    """Return a sentence that ends with a name that nothing has, and the hint which of the names it might be."""
    hint = did_you_mean(name, names)
    return f"{sentence} {as_code(name)}" + (f" ({hint})" if hint else "")


def list_names(names: Iterable[str]) -> str:
    """Return names in backticks, joined by commas: the first 20, and how many more there are."""
    every = tuple(names)
    more = f" and {len(every) - MAX_LISTED:,} more" if len(every) > MAX_LISTED else ""
    return ", ".join(map(as_code, every[:MAX_LISTED])) + more


def as_code(word: str) -> str:
    """Return somebody's word in backticks, fit for one line: escaped, and cut at 128 characters."""
    escaped = "".join(
        character if character.isprintable() and character != "`" else f"\\u{ord(character):04x}" for character in word
    )
    return f"`{escaped}`" if len(escaped) <= MAX_SHOWN else f"`{escaped[: MAX_SHOWN - 1]}…`"


def findings_data(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the first findings for programs, and how many more there are."""
    return {
        "findings": list(map(as_json, findings[:MAX_FINDINGS])),
        "findings_more": max(0, len(findings) - MAX_FINDINGS),
    }


def as_json(finding: Finding) -> dict[str, Any]:
    """Return a finding for programs."""
    return {
        "severity": finding.severity,
        "code": finding.code,
        "file": finding.place.file,
        "line": finding.place.line,
        "column": finding.place.column,
        "sentence": finding.sentence,
        "hint": finding.advice,
        "witness": None if finding.witness is None else dict(finding.witness),
    }
