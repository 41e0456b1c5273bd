"""The approvals of tools, as `callability approvals list` shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from callability.command_line.files import Files
from callability.gateway.config import ApprovalRecord
from callability.gateway.inspection import Inspected


@dataclass(frozen=True, slots=True)
class ToolApproval:
    """How one tool stands; `listed` is None where its server was not asked, and `disabled` where it is not known."""

    server: str
    tool: str
    approval: str
    disabled: bool | None
    pinned: bool
    listed: bool | None
    sha256: str | None

    @property
    def words(self) -> str:
        """The approval in words."""
        switch = {True: ", disabled", False: "", None: ", disabled or not is unknown"}[self.disabled]
        return f"{self.approval}{switch}"


def tool_approvals(files: Files, servers: Sequence[str], found: Mapping[str, Inspected]) -> Iterator[ToolApproval]:
    """Yield the tools that servers list, then those that only the files name."""
    for server in servers:
        inspected = found.get(server)
        asked = inspected is not None and not inspected.failure
        listed = inspected.tools if inspected else {}
        config = files.config.servers[server]
        for name in dict.fromkeys((*listed, *files.approvals.tools(server), *config.listed_tools)):
            sha256 = listed[name].sha256 if name in listed else None
            yield tool_approval(files, server, name, sha256, listed=name in listed if asked else None)


def tool_approval(files: Files, server: str, tool: str, sha256: str | None, *, listed: bool | None) -> ToolApproval:
    """Return how a tool with a fingerprint stands; without a record, as its server's `trust` says (A.2)."""
    record = files.approvals.record(server, tool)
    if record is None:
        trusted = files.config.servers[server].trust == "auto"
        record = ApprovalRecord(disabled=False, status="approved" if trusted else "pending")
    status = record.status_of(sha256) or "unknown"
    return ToolApproval(server, tool, status, record.disabled, bool(record.sha256), listed, sha256)
