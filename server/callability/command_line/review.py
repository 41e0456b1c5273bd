"""A tool's definition for review before approval, and what changed since the last approval."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from callability.command_line.terminal import escaped
from callability.gateway.config import ApprovalRecord
from callability.gateway.config.approved_definitions import Definitions
from callability.gateway.config.fingerprint import approved_part, sort_sets
from callability.gateway.upstream.tool import UpstreamTool

_FIRST = ("name", "title", "description")


def reviewed(tool: UpstreamTool, record: ApprovalRecord | None, definitions: Definitions) -> Iterator[str]:
    """Yield the lines of a tool's definition or, where another was approved, of the difference.

    Nothing in them plays with a terminal: each character that is not seen is escaped, and no line of a text can be
    taken for one of ours.
    """
    if record is None or not record.is_pinned or tool.fingerprint.matches(record.sha256):
        yield from _lines(definition_of(tool))
        return
    before = definitions.kept(record.sha256)
    if before is None:
        since = last_seen(record)
        yield f"it changed after {since}, and the text of that form, {record.sha256}, is not kept; as it is now:"
        yield from _lines(definition_of(tool))
        return
    sort_sets(before)
    changes = tuple(_difference(before, f"approved {record.sha256}", tool, "now      "))
    if changes:
        yield f"it changed after {last_seen(record)}:"
    yield from changes or (f"it differs from what was recorded, {record.sha256}, only in the order of sets",)


def last_seen(record: ApprovalRecord | None) -> str:
    """Return when the recorded form of a tool was seen: under `trust: first_use`, nobody approved it."""
    return "its approval" if record is None or record.has_status else "it was recorded"


def difference(one: UpstreamTool, other: UpstreamTool) -> Iterator[str]:
    """Yield the lines of the difference between two forms of a tool, which two processes of its server list."""
    return _difference(definition_of(one), f"first  {one.fingerprint.current}", other, "second ")


def definition_of(tool: UpstreamTool) -> dict[str, Any]:
    """Return what is approved of a tool; it is there wherever a person looks at the tool."""
    assert tool.definition is not None
    return approved_part(tool.definition)


def _difference(before: dict[str, Any], label: str, tool: UpstreamTool, now: str) -> Iterator[str]:
    lines = tuple(_lines(before)), tuple(_lines(definition_of(tool)))
    return difflib.unified_diff(*lines, label, f"{now}{tool.fingerprint.current}", lineterm="")


def _lines(definition: Mapping[str, Any]) -> Iterator[str]:
    rest = sorted(definition.keys() - {*_FIRST})
    for key in (*(key for key in _FIRST if key in definition), *rest):
        match definition[key]:
            case str(text) if key == "name":
                yield f"name: {_text(text)}"
            case str(text):
                yield f"{key}:"
                yield from (f"  | {_text(line)}" for line in text.split("\n"))
            case value:
                yield f"{key}:"
                written = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
                yield from (f"  {escaped(line)}" for line in written.split("\n"))


def _text(text: str) -> str:
    """Escape a text so that escapes differ from text that was written like one."""
    return escaped(text.replace("\\", "\\\\"))
