"""The threat model: each threat names what prevents it, and tests that exist."""

from __future__ import annotations

import re

from support.checkout import DOCS, TESTS

PAGE = (DOCS / "threats.md").read_text(encoding="utf-8")
_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
PARTIES = ["Agent", "Upstream server", "Policy author", "Operator", "Network", "Other local user"]


def _rows() -> list[list[str]]:
    """Return the cells of each threat."""
    tables = re.findall(r"^\| threat \| .*\n\| --- .*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for table in tables for row in table.splitlines()]


def _tests() -> set[str]:
    """Return the names of the tests of this checkout."""
    found = (re.findall(_TEST, path.read_text(encoding="utf-8")) for path in TESTS.rglob("test_*.py"))
    return {name for names in found for name in names}


def test_each_threat_is_held_by_a_test_that_exists() -> None:
    """A test that is renamed is renamed on the page too."""
    rows = _rows()
    known = _tests()
    assert len(rows) > 25
    for threat, prevented, tests in rows:
        assert [cell for cell in (threat, prevented) if not cell.endswith(".")] == []
        named = re.findall(r"`(test_\w+)`", tests)
        assert named, threat
        assert [each for each in named if each not in known] == [], threat


def test_each_party_has_threats() -> None:
    """Those of the figure, and no other."""
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == PARTIES
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        assert part.count("`test_") > 2, part.splitlines()[0]
