"""The service with empty handlers: the same program, server, options and edge, but nothing is read or decided."""

from __future__ import annotations

from callability.cli import main
from callability.service import calls
from callability.service.calls import CallabilityCalls

_REPLIES: dict[int, bytes] = {}
"""The constant replies, by the length of the request; that to `CheckTool` by 0."""


class EmptyCalls(CallabilityCalls):
    """Answers `CheckTool` by the reply to the first call, and `CheckTools` by that to the first of their length."""

    async def answer(self, method: str, data: bytes) -> bytes:
        """Answer as the first time: `CheckTool` whatever is asked, `CheckTools` for a request of the same length."""
        if method not in {"CheckTool", "CheckTools"}:
            return await super().answer(method, data)
        kind = 0 if method == "CheckTool" else len(data)
        return _REPLIES.get(kind) or _REPLIES.setdefault(kind, await super().answer(method, data))


if __name__ == "__main__":
    vars(calls)["CallabilityCalls"] = EmptyCalls
    main()
