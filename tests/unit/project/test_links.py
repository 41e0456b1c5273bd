"""Relative links in documents lead to a file and, with an anchor, to a heading of it. Nothing is fetched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from support.checkout import ROOT

ELSEWHERE = {".venv", ".git", "build", "dist", "node_modules", ".pytest_cache"}


def _documents() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    # What is not ours is not looked through either: an environment has tens of thousands of files.
    for directory in (path for path in ROOT.iterdir() if path.is_dir() and path.name not in ELSEWHERE):
        found = directory.rglob("*.md")
        yield from (path for path in found if not ELSEWHERE.intersection(path.relative_to(ROOT).parts))


DOCUMENTS = sorted(_documents())


@cache
def _parsed(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text)


def _tokens(text: str) -> Iterator[Token]:
    for token in _parsed(text):
        yield token
        yield from token.children or ()


def _links(text: str) -> Iterator[str]:
    """Yield the targets of links and pictures, those in HTML included; what is quoted as code is no link."""
    for token in _tokens(text):
        if token.type in {"link_open", "image"}:
            yield str(token.attrs.get("href") or token.attrs.get("src"))
        elif token.type in {"html_inline", "html_block"}:
            yield from re.findall(r"""\b(?:href|src|srcset)=["']([^"']+)["']""", token.content)


@cache
def _anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub and GitLab make them, and those that HTML names."""
    tokens = list(_tokens(text))
    found = {
        name
        for token in tokens
        if token.type in {"html_inline", "html_block"}
        for name in re.findall(r"""\b(?:id|name)=["']([^"']+)["']""", token.content)
    }
    seen: Counter[str] = Counter()
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            words = "".join(each.content for each in inline.children or () if each.type in {"text", "code_inline"})
            slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def _broken(document: Path, text: str) -> list[str]:
    """Return the relative links of a document that lead nowhere."""
    broken = []
    for link in _links(text):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = document.parent / unquote(parts.path) if parts.path else document
        if not target.resolve().is_relative_to(ROOT) or not target.exists():
            broken.append(f"{link}: no such file")
        elif parts.fragment and target.suffix == ".md":
            content = text if target == document else target.read_text(encoding="utf-8")
            if unquote(parts.fragment) not in _anchors(content):
                broken.append(f"{link}: no such heading")
    return broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    """In every document of the repository."""
    assert _broken(document, document.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_noticed() -> None:
    """A file that is not there, a heading that is not there, and a file outside the repository."""
    text = (
        "# One `two`, three\n\n# One two three\n\n"
        "[a](absent.md) [b](#one-two-three) [c](#one-two-three-1) [d](#one) [e](docs/policy.md#no-such)\n\n"
        "![f](absent.png)\n\n"
        '[g](../../outside.md) <img src="gone.svg"> `[h](not-a-link)` [i](pages://host/path)\n'
    )
    assert _broken(ROOT / "README.md", text) == [
        "absent.md: no such file",
        "#one: no such heading",
        "docs/policy.md#no-such: no such heading",
        "absent.png: no such file",
        "../../outside.md: no such file",
        "gone.svg: no such file",
    ]


def test_the_documents_are_found() -> None:
    """The README and those of docs/ among them."""
    assert {ROOT / "README.md", ROOT / "docs/policy.md", ROOT / "docs/decisions/README.md"} <= {*DOCUMENTS}
