"""Writes the sections of `docs/findings.md` about a policy's files, from the meanings of the codes.

`make docs` runs it; what the page says before and after these sections is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from callability.compiler.finding_meanings import OF_FILES, OF_FORM, OF_PROOF, OF_RULES
from callability.contract.finding import Severity
from support.checkout import DOCS

PAGE = DOCS / "findings.md"
_TITLES = {
    "Of every file": OF_FILES,
    "Of the form of a policy": OF_FORM,
    "Of rules and words": OF_RULES,
    "Of what is proved, and of tests": OF_PROOF,
}
_BY_HAND = "## Of the gateway's files\n"
_KINDS = {Severity.ERROR: (), Severity.WARNING: ("A warning.",), Severity.NOTE: ("A note.",)}


def page() -> str:
    """Return the page, with these sections as they should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(f"## {next(iter(_TITLES))}\n")
    _, by_hand, after = rest.partition(_BY_HAND)
    return "\n".join((before.rstrip("\n"), "", *_lines(), by_hand + after))


def _lines() -> Iterator[str]:
    for title, meanings in _TITLES.items():
        yield from (f"## {title}", "")
        for code, meaning in meanings.items():
            sentences = (*_KINDS[meaning.severity], *_sentences(meaning.means), *_sentences(meaning.fix))
            yield from (f"### {code}", "", *sentences, "")


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=\.) (?=[A-Z`])", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
