"""The rows of `callability approvals list`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from callability.command_line.gateway_files import GatewayFiles
from callability.command_line.tool_name_quoting import argument_of, cell_of
from callability.gateway.config import ApprovalRecord
from callability.gateway.config.fingerprint import Fingerprint
from callability.gateway.offline.inspection import Inspected

NOT_REVIEWED = "not_reviewed"
"""The approval of a tool without a record that can be called nevertheless."""
COLUMNS = ("server", "tool", "approval", "pinned", "listed")


@dataclass(frozen=True, slots=True)
class ToolApproval:
    """The approval of one tool; `listed` is None if its server was not connected, and `disabled` if it is not known.

    `callable_under`: the `trust` by which a tool that nobody reviewed can be called; empty if it cannot.
    """

    server: str
    tool: str
    approval: str
    disabled: bool | None
    config_denied: bool
    callable_under: str
    pinned: bool
    listed: bool | None
    sha256: str | None

    @property
    def waits(self) -> bool:
        """Whether a person's review is waited for."""
        return self.approval in {"pending", "changed"}

    @property
    def words(self) -> str:
        """The approval in words, and what else keeps the tool from being called."""
        switch = {True: ", disabled", False: "", None: ", disabled or not is unknown"}[self.disabled]
        denial = ", denied by config" if self.config_denied else ""
        trust = f", callable under `trust: {self.callable_under}`" if self.callable_under else ""
        return f"{self.approval.replace('_', ' ')}{switch}{denial}{trust}"

    @property
    def cells(self) -> tuple[str, ...]:
        """The tool's row under `COLUMNS`."""
        listed = {True: "yes", False: "no", None: "not asked"}[self.listed]
        return self.server, cell_of(self.tool), self.words, "yes" if self.pinned else "no", listed

    @property
    def as_json(self) -> dict[str, object]:
        """The tool for programs; `argument` is the TOOL of a command that is about it."""
        fields = asdict(self)
        del fields["callable_under"]
        return {**fields, "argument": argument_of(self.tool)}


def tool_approvals(
    files: GatewayFiles, servers: Sequence[str], found: Mapping[str, Inspected]
) -> Iterator[ToolApproval]:
    """Yield the tools that servers list, then those that only the files name."""
    for server in servers:
        inspected = found.get(server)
        connected = inspected is not None and not inspected.failure
        listed = inspected.tools if inspected else {}
        config = files.config.server(server)
        for name in dict.fromkeys((*listed, *files.approvals.tools(server), *config.listed_tools)):
            fingerprint = listed[name].fingerprint if name in listed else None
            yield tool_approval(files, server, name, fingerprint, listed=name in listed if connected else None)


def tool_approval(
    files: GatewayFiles, server: str, tool: str, fingerprint: Fingerprint | None, *, listed: bool | None
) -> ToolApproval:
    """Return the approval of a tool with a fingerprint; without a record, the `trust` of its server decides (A.2)."""
    config, record = files.config.server(server), files.approvals.record(server, tool)
    is_reviewed = record is not None and (record.has_status or config.trust != "first_use")
    record = record or ApprovalRecord(disabled=False, status="pending" if config.trust == "manual" else "approved")
    approval: str = record.status_of(fingerprint) or "unknown"
    if approval == "approved" and not is_reviewed:
        approval = NOT_REVIEWED
    is_denied = record.disabled is not False or config.config_denies(tool)
    is_open = approval == NOT_REVIEWED and config.enabled and not config.quarantined and not is_denied
    return ToolApproval(
        server=server,
        tool=tool,
        approval=approval,
        disabled=record.disabled,
        config_denied=config.config_denies(tool),
        callable_under=config.trust if is_open else "",
        pinned=record.is_pinned,
        listed=listed,
        sha256=None if fingerprint is None else fingerprint.current,
    )
