"""A tool whose answer differs between two policies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool, by `server:tool`, and its status before and after."""

    tool: str
    before: str
    after: str
