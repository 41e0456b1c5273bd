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

    `held`: the server is disabled or in quarantine, so that no tool of it can be called.
    """

    server: str
    tool: str
    approval: str
    disabled: bool | None
    config_denied: bool
    held: bool
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
        if self.approval != NOT_REVIEWED:
            return f"{self.approval}{switch}{denial}"
        return f"not reviewed{denial}" if denial or self.held else "not reviewed, callable under `trust: auto`"

    @property
    def cells(self) -> tuple[str, ...]:
        """The tool's row under `COLUMNS`."""
        listed = {True: "yes", False: "no", None: "not asked"}[self.listed]
        return self.server, cell_of(self.tool), self.words, "yes" if self.pinned else "no", listed

    @property
    def as_json(self) -> dict[str, object]:
        """The tool for programs; `argument` is the TOOL of a command that is about it."""
        fields = asdict(self)
        del fields["held"]
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
    approval = NOT_REVIEWED if record is None and config.trust == "auto" else "pending"
    if record is not None:
        approval = record.status_of(fingerprint) or "unknown"
    record = record or ApprovalRecord(disabled=False, status=None)
    return ToolApproval(
        server=server,
        tool=tool,
        approval=approval,
        disabled=record.disabled,
        config_denied=config.config_denies(tool),
        held=config.quarantined or not config.enabled,
        pinned=record.is_pinned,
        listed=listed,
        sha256=None if fingerprint is None else fingerprint.current,
    )
