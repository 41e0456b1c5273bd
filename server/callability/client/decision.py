"""What becomes of a call that an agent makes by a qualified name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from callability.tool_name import MAX_BYTES, byte_length
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, verdict_pb2

LIKELY_TOOL = facts_pb2.ToolFacts(
    config_denied=False,
    approval=facts_pb2.Approval(),
    annotations=facts_pb2.Annotations(read_only=True),
    labels=facts_pb2.Labels(),
)
"""The facts of a tool that only its server or the agent can lock. They must not be changed."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a call: the agent reads `rejection`; if there is none, `tool` of `server` is called.

    `response` is the policy's answer about the tool; None if the name means no tool, or if there is no answer.
    """

    server: str
    tool: str
    response: pb.CheckToolResponse | None
    rejection: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool that a qualified name can mean: one that is listed, or one of a server whose list may not be there."""

    request: pb.CheckToolRequest
    refusal: str
    listed: bool
    has_others: bool
    """Whether the server has tools that are listed."""

    @property
    def fits_a_request(self) -> bool:
        """Whether a request can hold both names; otherwise there is no verdict, as in a judgement."""
        return all(0 < byte_length(name) <= MAX_BYTES for name in (self.request.server, self.request.tool))

    def is_answered_by(self, response: pb.CheckToolResponse) -> bool:
        """Return whether an answer is about this tool; if it is not listed, it is so only if its server is off.

        The list of a disabled server is not current, and that of one in quarantine may be missing.
        """
        status = response.verdict.status
        off = status == verdict_pb2.TOOL_STATUS_SERVER_DISABLED
        held = status == verdict_pb2.TOOL_STATUS_SERVER_QUARANTINED and not self.has_others
        return self.listed or off or held


def splits(name: str, separator: str) -> Iterator[tuple[str, str]]:
    """Yield every server and tool whose qualified name this is: the name of a server may hold the separator."""
    place = name.find(separator)
    while place >= 0:
        yield name[:place], name[place + len(separator) :]
        place = name.find(separator, place + 1)
