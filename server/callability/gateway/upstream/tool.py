"""A tool as its upstream lists it, with its fingerprint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mcp_types import Tool

from callability.gateway.config.fingerprint import Fingerprint, fingerprint


@dataclass(frozen=True, slots=True)
class UpstreamTool:
    """A tool of an upstream; of a server in quarantine only the name and the fingerprint are kept (A.4)."""

    name: str
    fingerprint: Fingerprint
    definition: Tool | None = field(repr=False)

    def without_text(self) -> UpstreamTool:
        """Return what may be kept of the tool while its server is in quarantine."""
        return UpstreamTool(self.name, self.fingerprint, None)


Witness = Callable[[str, tuple[UpstreamTool, ...]], Awaitable[None]]
"""Is awaited with the name of a server and each list that it gives, before the list counts."""


async def unwitnessed(server: str, tools: tuple[UpstreamTool, ...]) -> None:
    """Witness nothing."""


def upstream_tool(tool: Tool) -> UpstreamTool:
    """Return a tool with its fingerprint."""
    return UpstreamTool(tool.name, fingerprint(tool), tool)
