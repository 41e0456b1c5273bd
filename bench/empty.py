"""The service with empty handlers: the same program, server, options and edge, but nothing is read or decided."""

from __future__ import annotations

from callability.command_line import main
from callability.policy.loading import Policy
from callability.service import served
from callability.service.calls import Calls


class EmptyCalls(Calls):
    """Answers `CheckTool` by the reply to the first that came, `CheckTools` by that to the first of the same length."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._constant_replies: dict[int, bytes] = {}

    async def check_tool(self, data: bytes) -> bytes:
        """Answer as the first time, whatever is asked."""
        return self._constant_replies.get(0) or self._constant_replies.setdefault(0, await super().check_tool(data))

    async def check_tools(self, data: bytes) -> bytes:
        """Answer as the first time that a request had this length."""
        return self._constant_replies.get(len(data)) or self._constant_replies.setdefault(
            len(data), await super().check_tools(data)
        )


if __name__ == "__main__":
    vars(served)["Calls"] = EmptyCalls
    main()
