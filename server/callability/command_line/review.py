"""A tool's definition for review before approval, and what changed since the last approval."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from callability.command_line.terminal import escaped
from callability.gateway.config import ApprovalRecord
from callability.gateway.config.approved_definitions import Definitions
from callability.gateway.config.fingerprint import approved_part
from callability.gateway.upstream.tool import UpstreamTool

_FIRST = ("name", "title", "description")


def reviewed(tool: UpstreamTool, record: ApprovalRecord | None, definitions: Definitions) -> Iterator[str]:
    """Yield the lines of a tool's definition or, where another was approved, of the difference.

    Nothing in them plays with a terminal: each character that is not seen is escaped, and no line of a text can be
    taken for one of ours.
    """
    now = tuple(_lines(definition_of(tool)))
    pinned = record.sha256 if record else ""
    if pinned in {"", tool.sha256}:
        yield from now
        return
    before = definitions.kept(pinned)
    if before is None:
        yield f"it was approved in another form, {pinned}, whose text is not kept; as it is now:"
        yield from now
        return
    yield from difflib.unified_diff(
        tuple(_lines(before)), now, f"approved {pinned}", f"now      {tool.sha256}", lineterm=""
    )


def definition_of(tool: UpstreamTool) -> dict[str, Any]:
    """Return what is approved of a tool; it is there wherever a person looks at the tool."""
    assert tool.definition is not None
    return approved_part(tool.definition)


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
