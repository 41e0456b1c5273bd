"""Approving the tools of one server: what a person is shown and asked, and what is written."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from callability.command_line.approval_list import ToolApproval, tool_approval
from callability.command_line.gateway_files import GatewayFiles
from callability.command_line.listed_tools import commands_of, tools_of
from callability.command_line.options import leave
from callability.command_line.review import definition_of, difference, last_seen, reviewed
from callability.command_line.terminal import escaped, number_of
from callability.command_line.tool_name_quoting import cell_of
from callability.finding import shown
from callability.gateway.config.approvals import ANY_FORM
from callability.gateway.config.approved_definitions import Definitions
from callability.gateway.upstream import UpstreamTool


def approve_form(files: GatewayFiles, server: str, tools: Sequence[UpstreamTool], *, ask: bool) -> list[UpstreamTool]:
    """Approve tools in the form that they have, and return those that are not approved, which is reported."""
    todo = [tool for tool in tools if not is_approved(files, server, tool)]
    if not todo:
        typer.echo(f"nothing to do: {counted(tools)} of server {shown(server)} approved as it is, and pinned")
        return []
    unstable = _report_unstable(files, server, todo)
    accepted = _accepted(files, server, [tool for tool in todo if tool not in unstable], ask=ask)
    _write_approved(files, server, accepted)
    return [tool for tool in todo if tool not in accepted]


def _report_unstable(files: GatewayFiles, server: str, tools: Sequence[UpstreamTool]) -> list[UpstreamTool]:
    """Connect a server again, and report and return the tools that it lists in another form, or no more."""
    typer.echo("listing the tools once more, as the next start of the server would", err=True)
    again = tools_of(files, server)
    unstable = []
    for tool in tools:
        other = again.get(tool.name)
        if other is not None and other.fingerprint.current == tool.fingerprint.current:
            continue
        unstable.append(tool)
        typer.echo(f"tool {shown(tool.name)} of server {shown(server)} is not the same each time that it is listed:")
        for line in difference(tool, other) if other else ("the second time, it was not listed",):
            typer.echo(line)
        typer.echo()
        typer.echo(
            f"skipped: {cell_of(tool.name)} (an approval of this form would not last; make the server list one form,"
            " or approve the name alone by `--any-form`)",
            err=True,
        )
    return unstable


def _accepted(files: GatewayFiles, server: str, tools: Sequence[UpstreamTool], *, ask: bool) -> Sequence[UpstreamTool]:
    """Show tools, and return those that a person accepts: each that changed is asked about below what changed."""
    changed = [tool for tool in tools if _approval(files, server, tool).approval == "changed"]
    new = [tool for tool in tools if tool not in changed]
    for tool in new:
        show_tool(files, server, tool)
    accepted: list[UpstreamTool] = []
    if new and _is_confirmed(f"Approve {counted(new)} of server {shown(server)} in this form?", ask=ask):
        accepted += new
    for tool in changed:
        show_tool(files, server, tool)
        subject = f"tool {shown(tool.name)} of server {shown(server)}"
        since = last_seen(files.approvals.record(server, tool.name))
        if _is_confirmed(f"It changed after {since}. Approve {subject} in the new form?", ask=ask):
            accepted.append(tool)
    if tools and not accepted:
        leave("nothing was approved", 1)
    return accepted


def _is_confirmed(question: str, *, ask: bool) -> bool:
    return not ask or typer.confirm(question)


def approve_names(files: GatewayFiles, server: str, tools: Sequence[UpstreamTool], *, ask: bool) -> None:
    """Approve tools by their names alone, whatever their definitions become."""
    todo = [tool for tool in tools if not _is_approved_by_name(files, server, tool)]
    if not todo:
        typer.echo(f"nothing to do: {counted(tools)} of server {shown(server)} approved in any form")
        return
    for tool in todo:
        show_tool(files, server, tool)
    typer.echo("without a pin, whatever the server makes of a tool of this name is approved: a change locks nothing")
    if not _is_confirmed(f"Approve {counted(todo)} of server {shown(server)} in any form?", ask=ask):
        leave("nothing was approved", 1)
    files.change({server: {tool.name: {"status": "approved", "sha256": ANY_FORM} for tool in todo}})
    for tool in todo:
        typer.echo(f"tool {shown(tool.name)} of server {shown(server)} is approved in any form")
        _report_disabled(files, server, tool)


def _write_approved(files: GatewayFiles, server: str, todo: Sequence[UpstreamTool]) -> None:
    """Write the records of tools that are approved in the form that they have, and keep that form."""
    if not todo:
        return
    definitions = Definitions.beside(files.path)
    try:
        for tool in todo:
            definitions.keep(tool.fingerprint.current, definition_of(tool))
    except OSError as error:
        leave(f"`{escaped(str(definitions.directory))}` cannot be written: {(error.strerror or 'error').lower()}", 1)
    files.change({server: {tool.name: {"status": "approved", "sha256": tool.fingerprint.current} for tool in todo}})
    for tool in todo:
        form = tool.fingerprint.current
        typer.echo(f"tool {shown(tool.name)} of server {shown(server)} is approved in the form {form}")
        _report_disabled(files, server, tool)


def _report_disabled(files: GatewayFiles, server: str, tool: UpstreamTool) -> None:
    """Report that a tool that is approved now stays switched off."""
    record = files.approvals.record(server, tool.name)
    if record and record.disabled:
        phrase = commands_of(files).about(server, tool.name)["enable_tool"]
        typer.echo(f"  it stays switched off; to switch it on, {phrase}")


def is_approved(files: GatewayFiles, server: str, tool: UpstreamTool) -> bool:
    """Say whether a person approved a tool in the form that it has, by a fingerprint of the current version."""
    record = files.approvals.record(server, tool.name)
    if record is None or not record.has_status or record.status != "approved":
        return False
    return record.sha256 == tool.fingerprint.current


def _is_approved_by_name(files: GatewayFiles, server: str, tool: UpstreamTool) -> bool:
    record = files.approvals.record(server, tool.name)
    return record is not None and record.status == "approved" and record.is_for_any_form


def _approval(files: GatewayFiles, server: str, tool: UpstreamTool) -> ToolApproval:
    return tool_approval(files, server, tool.name, tool.fingerprint, listed=True)


def show_tool(files: GatewayFiles, server: str, tool: UpstreamTool) -> None:
    """Print the approval of a tool, and its definition or what changed of it."""
    words = _approval(files, server, tool).words
    typer.echo(f"tool {shown(tool.name)} of server {shown(server)}: {words}")
    typer.echo(f"sha256: {tool.fingerprint.current}")
    for line in reviewed(tool, files.approvals.record(server, tool.name), Definitions.beside(files.path)):
        typer.echo(line)
    typer.echo()


def counted(tools: Sequence[UpstreamTool]) -> str:
    """Return the name of the only tool, or how many there are."""
    return f"tool {shown(tools[0].name)}" if len(tools) == 1 else number_of(len(tools), "tool")
