"""The service with empty handlers: the same program, server, options and edge, but nothing is read or decided."""

from __future__ import annotations

from callability.cli import main
from callability.service import calls
from callability.service.calls import CallabilityCalls

_REPLIES: dict[int, bytes] = {}
"""The constant replies, by the length of the request; that to `CheckTool` by 0."""


class EmptyCalls(CallabilityCalls):
    """Answers `CheckTool` by the reply to the first call, and `CheckTools` by that to the first of their length."""

    async def check_tool(self, data: bytes) -> bytes:
        """Answer as the first time, whatever is asked."""
        return _REPLIES.get(0) or _REPLIES.setdefault(0, await super().check_tool(data))

    async def check_tools(self, data: bytes) -> bytes:
        """Answer as the first time that a request had this length."""
        return _REPLIES.get(len(data)) or _REPLIES.setdefault(len(data), await super().check_tools(data))


if __name__ == "__main__":
    vars(calls)["CallabilityCalls"] = EmptyCalls
    main()
