"""Decisions about tools at the speed of dictionary look-ups. Others use `ToolCalls` and `PolicyResults`.

A batch costs what its objects cost. So requests are read into lazy messages, whose parts stay bytes: the facts of a
tool, or a server with all its tools, are a key to a result that is already encoded, and a reply joins such bytes.
"""

from callability.service.fast_path.policy_results import PolicyResults
from callability.service.fast_path.tool_calls import ToolCalls

__all__ = ["PolicyResults", "ToolCalls"]
