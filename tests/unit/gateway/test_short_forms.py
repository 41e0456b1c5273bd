"""How much of each tool an answer of `retrieve_tools` has (A.4)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.stand_ins import Shelf, scene

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "head": {"type": "integer"}},
    "required": ["path"],
}
TOOLS = tuple(
    {
        "name": f"read_{number}",
        "description": f"Reads file {number}. Only within allowed directories.",
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True},
    }
    for number in range(5)
)
SHORT = {"name": "files:read_4", "description": "Reads file 4.", "parameters": "path, head?"}


def _found(directory: Path, *tools: dict[str, Any], query: str = "read file", **arguments: Any) -> dict[str, Any]:
    shelf = Shelf(tools or TOOLS)
    question = ("retrieve_tools", {"query": query, **arguments})
    [answer] = asyncio.run(scene(directory, {"files": {}}, {"files": shelf}).answers([question]))
    result = json.loads(answer)
    [block] = result["content"]
    assert result["structured_content"] is None
    found: dict[str, Any] = json.loads(block["text"]) if not result["is_error"] else {"error": block["text"]}
    return found


@pytest.mark.parametrize(("schemas", "whole"), [(None, 3), ("first", 3), ("full", 5), ("none", 0)])
def test_the_first_tools_come_whole_and_the_others_in_short(schemas: str | None, whole: int, tmp_path: Path) -> None:
    """Whole as ever; in short by name, first sentence and parameters. `total` counts both."""
    found = _found(tmp_path, **({} if schemas is None else {"schemas": schemas}))
    assert found["total"] == 5
    forms = [sorted(tool) for tool in found["tools"]]
    assert forms[:whole] == [["annotations", "description", "inputSchema", "name", "server"]] * whole
    assert forms[whole:] == [["description", "name", "parameters"]] * (5 - whole)
    if whole < 5:
        assert found["tools"][4] == SHORT


def test_the_name_of_a_short_tool_finds_its_schema(tmp_path: Path) -> None:
    """Of the tools with similar names it comes first, and whole."""
    first = _found(tmp_path, query="files:read_4")["tools"][0]
    assert (first["name"], first["inputSchema"]) == ("files:read_4", SCHEMA)


def test_a_short_form_has_what_its_tool_has(tmp_path: Path) -> None:
    """A long sentence is cut, and a tool without description or parameters has neither."""
    long = {"name": "read_a", "description": "Reads " + "many files and " * 20}
    first_line = {"name": "read_b", "description": "  Reads b\nwith care", "inputSchema": {"type": "object"}}
    found = _found(tmp_path, long, first_line, {"name": "read_c"}, query="read", schemas="none")
    by_name = {tool["name"]: tool for tool in found["tools"]}
    assert by_name["files:read_c"] == {"name": "files:read_c"}
    assert by_name["files:read_b"] == {"name": "files:read_b", "description": "Reads b"}
    cut = by_name["files:read_a"]["description"]
    assert cut.startswith("Reads many files")
    assert (cut[-1], len(cut) <= 120) == ("…", True)


@pytest.mark.parametrize(("given", "said"), [("some", "`some`"), (3, "no text"), ("", "``")])
def test_other_values_are_refused(given: object, said: str, tmp_path: Path) -> None:
    """The error names the values that there are."""
    error = _found(tmp_path, schemas=given)["error"]
    assert error == f"Not done: `schemas` must be `full`, `first` or `none`, and is {said}."
