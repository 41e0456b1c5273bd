"""Mutants are places in code that keep their name when the code is moved."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mutation.mutants import KINDS, Functions, LostPlace, tree_hash

SOURCE = '''"""A module."""


def _holds(values: list[int], limit: int = 3) -> bool:
    """Say whether it holds."""
    if not values:
        raise ValueError(f"{limit == 3}")
    return values[0] < limit and values[-1] != 7
'''
MOVED = '''class Values:
    """Something else."""

    def hold(self: list[int], most: int = 3) -> bool:
        if not self:
            raise TypeError(f"{most == 3}")

        return self[0] < most and self[-1] != 7  # as before
'''


def _functions(directory: Path, name: str, source: str) -> Functions:
    (directory / name).write_text(source, encoding="utf-8")
    return Functions([directory / name])


def test_every_place_of_a_function_has_a_mutant_that_differs_there_alone(tmp_path: Path) -> None:
    """Neither the default nor the annotation, nor what a formatted string has."""
    functions = _functions(tmp_path, "one.py", SOURCE)
    mutants = {
        (place.kind, place.number): functions.mutate(place).source for place in functions.draw([tmp_path], 100, 1)
    }
    old = SOURCE.splitlines()
    changed = {
        kind: next(line.strip() for number, line in enumerate(source.splitlines()) if line != old[number])
        for kind, source in mutants.items()
    }
    assert changed == {
        ("comparison", 0): "return (values[0] >= limit) and values[-1] != 7",
        ("comparison", 1): "return values[0] < limit and (values[-1] == 7)",
        ("constant", 0): "return values[1] < limit and values[-1] != 7",
        ("constant", 1): "return values[0] < limit and values[-2] != 7",
        ("constant", 2): "return values[0] < limit and values[-1] != 8",
        ("junction", 0): "return (values[0] < limit or values[-1] != 7)",
        ("return", 0): "return (not (values[0] < limit and values[-1] != 7))",
        ("statement", 0): "pass",
        ("statement", 1): "pass",
    }
    for source in mutants.values():
        ast.parse(source)


def test_a_place_is_found_where_its_function_was_moved_and_renamed(tmp_path: Path) -> None:
    """As a method, under other names, without the docstring."""
    places = _functions(tmp_path, "one.py", SOURCE).draw([tmp_path], 100, 1)
    (place,) = (place for place in places if place.kind == "comparison" and place.number == 1)
    mutant = _functions(tmp_path, "two.py", MOVED).mutate(place)
    assert (mutant.path.name, mutant.lines, mutant.statement) == ("two.py", range(8, 9), 8)
    assert "return self[0] < most and (self[-1] == 7)  # as before" in mutant.source


def test_a_place_is_lost_if_its_function_was_changed(tmp_path: Path) -> None:
    """Or if another looks alike."""
    (place,) = _functions(tmp_path, "one.py", SOURCE).draw([tmp_path], 1, 1)
    for source in (SOURCE.replace("7", "8"), SOURCE.replace("<", "<="), SOURCE + SOURCE):
        with pytest.raises(LostPlace, match="`_holds`"):
            _functions(tmp_path, "two.py", source).mutate(place)


def test_the_same_places_are_drawn_each_time_by_turns_of_each_kind(tmp_path: Path) -> None:
    """Another seed draws others."""
    functions = _functions(tmp_path, "one.py", SOURCE)
    five = functions.draw([tmp_path], 5, 1)
    assert [place.kind for place in five] == sorted(KINDS)
    assert functions.draw([tmp_path], 5, 1) == five
    assert len({tuple(functions.draw([tmp_path], 5, seed)) for seed in range(20)}) > 1
    assert functions.draw([tmp_path / "elsewhere"], 5, 1) == []


def test_equal_functions_differ_in_their_hash_only_by_what_they_do() -> None:
    """An import, a name and a docstring are no part of it; which name is used again is."""
    same, other = "def f(a, b):\n    'x'\n    import os\n    return a(b)", "def f(a, b):\n    return b(a)"
    functions = [ast.parse(text).body[0] for text in (same, same.replace("os", "re").replace("a", "c"), other)]
    hashes = [tree_hash(each) for each in functions if isinstance(each, ast.FunctionDef)]
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]
