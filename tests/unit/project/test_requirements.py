"""`docs/requirements.md`: each requirement has its tests, and each test that claims one stands beside it.

What claims one is collected: a function of a test file itself, outside of `norecursedirs`, whose name no other one has.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from support.checkout import ROOT
from support.requirements import required_tests

TESTS = ROOT / "tests"
REQUIRED = (
    *(f"FR-{number:03}" for number in range(1, 15)),
    *(f"SC-{number:03}" for number in range(1, 7)),
    *(f"L-{number}" for number in range(1, 10)),
    *(f"E-{number}" for number in range(1, 11)),
    *(f"fault {number}" for number in range(1, 14)),
)
_ID = r"\b(?:FR|SC)-\d{3}\b|\b[EL]-\d+\b|\b[Ff]ault \d+\b"


def _claims() -> Iterator[tuple[str, str]]:
    """Yield each requirement that the docstring of a test names, with the test."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        # Most files name none, and to parse them all takes seconds.
        if "engines" in path.parts or not re.search(_ID, text):
            continue
        functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert len({node.name for node in functions}) == len(functions), path
        for node in functions:
            if node.name.startswith("test_"):
                for found in re.findall(_ID, ast.get_docstring(node) or ""):
                    yield found.replace("Fault", "fault"), f"{path.name}::{node.name}"


def test_every_requirement_is_in_the_table_with_a_test() -> None:
    """In order, and nothing else is."""
    rows = required_tests()
    assert tuple(rows) == REQUIRED
    assert [name for name, tests in rows.items() if not tests] == []


def test_the_table_has_what_the_tests_claim_and_the_tests_claim_what_it_has() -> None:
    """A claim is an id in the docstring of a test."""
    claims = set(_claims())
    assert len(claims) > 70
    assert {(name, test) for name, tests in required_tests().items() for test in tests} == claims
