"""The words of the documents: each term is defined once, and no page uses a word that the style sheet replaces."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from support.checkout import DOCS, ROOT

REPLACED = {
    "tell": r"\b(?:telling|told|tells)\b|\btell(?!(?: the| its| your| a)? users?\b)",
    "mend": r"\bmend(?:s|ed|ing)?\b",
    "anew": r"\banew\b",
    "take over": r"\b(?:takes?|taken|took|taking) over\b",
    "tell apart": r"\bapart\b",
    "came of": r"\b(?:came|comes?) of\b",
    "at the most": r"\bat the most\b",
    "open value": r"\bopen values?\b",
    "private names": r"\b(?:keeper|fleet|twin|aside|begun|untold)\b",
}
"""What the style sheet replaces by a word of the field, as patterns."""
PAGES = (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")))


def _prose(page: Path) -> str:
    """Return a page without code, quoted words of a program, headings that are names, and targets of links."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^### \w+$|(?<=\])\([^)]*\)", "", text, flags=re.MULTILINE)
    return re.sub(r"``.+?``|`[^`\n]+`", "`", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_uses_a_word_that_the_style_sheet_replaces(page: Path) -> None:
    """Outside of code; "tell the user" is fine."""
    prose = _prose(page)
    lines = prose.splitlines()
    patterns = {name: re.compile(words, re.IGNORECASE) for name, words in REPLACED.items()}
    found = {name: [line for line in lines if pattern.search(line)] for name, pattern in patterns.items()}
    assert {name: there for name, there in found.items() if there} == {}


def test_the_glossary_defines_each_term_once_and_briefly() -> None:
    """In one or two sentences."""
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", text, re.MULTILINE)
    defined = {term: meaning for term, meaning in rows if term not in {"term", "---"}}
    assert len(defined) >= 50
    terms = Counter(name.strip("` ") for term, _ in rows for name in term.split(", ") if term not in {"term", "---"})
    assert [term for term, times in terms.items() if times > 1] == []
    for term, meaning in defined.items():
        assert 1 <= len(re.findall(r"[.!?](?= |$)", meaning)) <= 2, term
