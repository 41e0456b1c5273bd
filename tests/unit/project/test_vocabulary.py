"""One vocabulary: no identifier has a word that the field has another word for; `test_prose.py` reads the documents."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.checkout import ROOT

RETIRED = {
    "anew": "again",
    "aside": "the field's word for what is meant",
    "asked": "request, query or the name of what was requested",
    "asking": "request, query or the name of what is requested",
    "begun": "started",
    "desk": "session",
    "fleet": "pool",
    "keeper": "supervisor",
    "keepers": "supervisors",
    "live": "running, runtime",
    "mend": "recover, retry, fix",
    "mended": "recovered, fixed",
    "mends": "recovers",
    "ruling": "classifier",
    "standing": "status, state",
    "switching": "enable, disable",
    "tell": "report, notify, return, print",
    "telling": "reporting",
    "tells": "reports",
    "told": "reported, listed, messages",
    "trouble": "error",
    "troubles": "errors",
    "twin": "what it duplicates",
    "twins": "what they duplicate",
    "untold": "unreported",
}
"""Words that no identifier contains, with what to write instead."""

ALLOWED = {
    ("server/callability/adapter", "Asked"): "an exported name that proxies may import; `DiscoveryArguments` today",
    ("tests/unit/adapter/test_adapter.py", "Asked"): "the test of the alias",
    ("server/callability/cli/gateway_process.py", "Live"): "a class of rich",
    ("server/callability/cli/gateway_process.py", "live"): "a module of rich",
}
"""Names that may stay in a file or a directory, each with its reason."""

_TOPS = ("server", "tests", "bench", "examples")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def _sources() -> Iterator[Path]:
    for top in _TOPS:
        yield from (path for path in sorted((ROOT / top).rglob("*.py")) if "_pb2" not in path.stem)


def _names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every identifier that a module writes, with its line."""
    for node in ast.walk(tree):
        names: tuple[str | None, ...] = ()
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                names = (name,)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names = (name,)
            case ast.arg(arg=name) | ast.keyword(arg=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
                names = (name,)
            case ast.MatchMapping(rest=name) | ast.ExceptHandler(name=name):
                names = (name,)
            case ast.MatchClass(kwd_attrs=attributes):
                names = (*attributes,)
            case ast.Global(names=declared) | ast.Nonlocal(names=declared):
                names = (*declared,)
            case ast.alias(name=name, asname=other):
                names = (*name.split("."), other)
            case ast.ImportFrom(module=str(module)):
                names = (*module.split("."),)
        yield from ((each, getattr(node, "lineno", 1)) for each in names if each)


@cache
def _named(path: Path) -> tuple[tuple[str, int], ...]:
    """Return what `_names` yields of a file; nothing if no retired word is anywhere in its text."""
    text = path.read_text(encoding="utf-8")
    return tuple(_names(ast.parse(text))) if retired_words(text) else ()


def retired_words(name: str) -> set[str]:
    """Return the retired words in an identifier, by its parts, or in a text."""
    return {word.lower() for word in _WORD.findall(name)} & RETIRED.keys()


def _is_allowed(path: str, name: str) -> bool:
    return any(name == allowed and (path == place or path.startswith(f"{place}/")) for place, allowed in ALLOWED)


def _violations() -> Iterator[str]:
    for path in _sources():
        shown = str(path.relative_to(ROOT))
        named = [(part.removesuffix(".py"), 1) for part in Path(shown).parts]
        for name, line in (*named, *_named(path)):
            for word in sorted(retired_words(name)):
                if not _is_allowed(shown, name):
                    yield f"{shown}:{line}: `{name}` has the retired word `{word}`: write {RETIRED[word]}"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("standing_for", {"standing"}),
        ("MAX_TOLD", {"told"}),
        ("SwitchingServers", {"switching"}),
        ("_asked", {"asked"}),
        ("toldHTTP2", {"told"}),
        ("alive", set()),
        ("outstanding", set()),
        ("retell", set()),
    ],
)
def test_a_retired_word_is_found_as_a_part_of_a_name(name: str, words: set[str]) -> None:
    """And not within a longer word."""
    assert retired_words(name) == words


def test_every_kind_of_name_is_read() -> None:
    """Wherever Python lets one be written."""
    source = """
import a.b as c
from d.e import f
class G(h=1):
    async def i(j, *k, **l): global m
match n:
    case O(p=q) | {"s": 1, **t} | [*u]: pass
try: v.w
except X as y: z(aa=1)
"""
    found = {name for name, _ in _names(ast.parse(source))}
    assert found == {*"abcdefGhijklmnOpqtuvwXyz", "aa"}


def test_no_identifier_has_a_retired_word() -> None:
    """One name for one thing: a reader need not learn words that the field has others for."""
    assert [*_violations()] == []


def test_an_exception_is_there_for_a_name_that_exists() -> None:
    """So that none outlives its reason."""
    used = {
        (place, name)
        for path in _sources()
        for name, _ in _named(path)
        for place, allowed in ALLOWED
        if name == allowed and str(path.relative_to(ROOT)).startswith(place)
    }
    assert used == ALLOWED.keys()
