"""Tools that no request can hold: each is an error of its own, so that the others of its inventory are decided."""

from __future__ import annotations

from callability.adapter import JudgedTool
from callability.tool_name import MAX_BYTES, byte_length
from callability.v1.callability_service_pb2 import Tool
from callability.v1.facts_pb2 import ToolFacts

FACTS_BYTES = 65_536
"""The most bytes that the facts of a tool may have in a request."""


class StandIns:
    """Names for the tools that are too large to be asked about. A service answers each by an error of its item."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}

    def requested(self, tool: str, facts: ToolFacts) -> Tool:
        """Return what a request holds about a tool: the tool, or a name that is too long, in place of one too large."""
        # Four bytes are the most that a character has.
        short = len(tool) <= MAX_BYTES // 4 or byte_length(tool) <= MAX_BYTES
        if short and facts.ByteSize() <= FACTS_BYTES:
            return Tool(name=tool, facts=facts)
        name = f"{len(self._tools):0{MAX_BYTES + 1}}"
        self._tools[name] = tool
        return Tool(name=name)

    def judged(self, judged: JudgedTool) -> JudgedTool:
        """Return a judged tool under the name that it has."""
        return judged._replace(tool=self._tools[judged.tool]) if judged.tool in self._tools else judged
