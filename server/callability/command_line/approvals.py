"""`callability approvals`: list, approve, disable and verify single tools."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from callability.command_line.approval_list import COLUMNS, tool_approvals
from callability.command_line.approving import approve_form, approve_names, counted, is_approved, show_tool
from callability.command_line.gateway_files import (
    ApprovalsOption,
    ConfigOption,
    GatewayFiles,
    known_server,
    sound_files,
)
from callability.command_line.listed_tools import (
    inspect_servers,
    known_tool,
    known_tools,
    tools_of,
    verify_listed,
)
from callability.command_line.options import JsonOption, leave
from callability.command_line.terminal import escaped, number_of, write_table
from callability.command_line.tool_name_quoting import cell_of, is_cut, name_of
from callability.editing.spelling import Value
from callability.finding import MAX_LISTED, did_you_mean, shown
from callability.gateway.upstream import UpstreamTool
from callability.tool_name import is_plain, unrecordable

ServerArgument = Annotated[str, typer.Argument(metavar="SERVER", help="A server of the config.")]
_EXACT = "by its exact name, as `approvals list` writes it"
ToolArgument = Annotated[str, typer.Argument(metavar="TOOL", help=f"A tool of the server, {_EXACT}.")]
WaitingOption = Annotated[bool, typer.Option("--waiting", help="List only tools that are pending or changed.")]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Connect no server: read only the files.")]


def list_approvals(
    config: ConfigOption,
    server: Annotated[str | None, typer.Argument(metavar="[SERVER]", help="List only this server.")] = None,
    approvals: ApprovalsOption = None,
    waiting: WaitingOption = False,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the tools of the enabled servers with their approvals; tools that wait for a review come first.

    The servers are connected; a server on stdio is started. A server of the catalog is connected only if it is named.
    Tools that only a file names are listed too. Exit code 0: listed. 1: a file is refused, or a server cannot be
    connected (the others are listed). 2: there is no such server.
    """
    files = sound_files(config, approvals)
    named = () if server is None else (known_server(files.config.names, server),)
    # What the catalog has is connected for who asks for it by its name.
    recorded = (name for name in files.config.catalog if files.approvals.tools(name))
    servers = named or (*files.config.servers, *recorded)
    found = {} if offline else inspect_servers(files, named or files.config.servers)
    tools = [tool for tool in tool_approvals(files, servers, found) if tool.waits or not waiting]
    tools.sort(key=lambda tool: not tool.waits)
    failures = {name: each.failure for name, each in found.items() if each.failure}
    if as_json:
        typer.echo(json.dumps({"tools": [tool.as_json for tool in tools], "failures": failures}, indent=2))
    elif waiting and not tools:
        typer.echo("no tool that is known waits for a review")
    else:
        write_table(COLUMNS, [tool.cells for tool in tools])
        _explain_names([tool.tool for tool in tools])
    raise typer.Exit(1 if failures else 0)


def _explain_names(names: Sequence[str]) -> None:
    """Say how the names of tools are passed on that are in quotes."""
    if not all(map(is_plain, names)):
        typer.echo("a name in single quotes is escaped; pass it to a command as it is written, in its quotes", err=True)
    if any(map(is_cut, names)):
        typer.echo("a name that ends with `…` is cut; `--json` has the whole of it, under `argument`", err=True)


def show(
    server: ServerArgument,
    config: ConfigOption,
    tool: Annotated[
        str | None, typer.Argument(metavar="[TOOL]", help=f"A tool, {_EXACT}. Default: every tool.")
    ] = None,
    approvals: ApprovalsOption = None,
) -> None:
    """Show a tool's definition, and what changed since it was approved.

    The server is connected, even in quarantine; a server on stdio is started. Characters that control a terminal, or
    that cannot be seen, are escaped. Exit code 0: shown. 1: a file is refused, or the server cannot be connected. 2:
    there is no such server or tool.
    """
    named = None if tool is None else name_of(tool)
    files = sound_files(config, approvals)
    tools = tools_of(files, server)
    for name in tools if named is None else (known_tool(tools, server, named),):
        show_tool(files, server, tools[name])


def approve(
    server: ServerArgument,
    config: ConfigOption,
    tools: Annotated[list[str] | None, typer.Argument(metavar="TOOL...", help=f"Tools, each {_EXACT}.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Approve every tool with a plain name.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    sha256: Annotated[
        str | None,
        typer.Option("--sha256", metavar="HEX", help="Approve the one tool only with exactly this definition."),
    ] = None,
    any_form: Annotated[
        bool, typer.Option("--any-form", help="Approve the names alone: a later change locks nothing.")
    ] = False,
    approvals: ApprovalsOption = None,
) -> None:
    """Approve tools with their current definitions.

    The server is connected twice, even in quarantine, and each definition is shown; a server on stdio is started twice.
    On a terminal, the command asks, about each tool that changed after its approval by itself; elsewhere it needs
    `--yes` or `--sha256`. A tool whose definition changes later has to be approved again. A tool whose definition
    differs between the two connections is not approved, since it would be locked at the next one: `--any-form` approves
    it by its name. `--all` skips tools whose names are not 1 to 128 characters of `[A-Za-z0-9_.-]`: approve such a tool
    by its name. Exit code 0: done, or nothing to do. 1: a file is refused, the server cannot be connected, the answer
    was no, or a tool was skipped. 2: usage error.
    """
    named = tuple(dict.fromkeys(map(name_of, tools or ())))
    if bool(named) == every:
        leave("name the tools, or give `--all` for every tool of the server", 2)
    if sha256 is not None and len(named) != 1:
        leave("`--sha256` goes with one tool", 2)
    if any_form and (every or sha256 is not None):
        leave("`--any-form` goes with the names of tools, and without `--sha256`", 2)
    files = sound_files(config, approvals)
    known_server(files.config.names, server)
    if not yes and sha256 is None and not sys.stdin.isatty():
        leave("nobody can be asked, as standard input is not a terminal: give `--yes` or `--sha256 HEX`", 2)
    there = tools_of(files, server)
    chosen = [there[name] for name in (filter(is_plain, there) if every else known_tools(files, there, server, named))]
    if sha256 is not None and not chosen[0].fingerprint.is_named(sha256):
        leave(f"tool {shown(named[0])} has changed: its SHA-256 is {chosen[0].fingerprint.current}", 1)
    ask = not yes and sha256 is None
    if any_form:
        approve_names(files, server, chosen, ask=ask)
        return
    refused = approve_form(files, server, chosen, ask=ask)
    if every:
        _report_skipped(server, [tool for tool in there.values() if not _is_settled(files, server, tool)])
    if refused:
        leave(f"not approved: {counted(refused)} of server {shown(server)}", 1)


def disable(
    server: ServerArgument,
    tool: ToolArgument,
    config: ConfigOption,
    approvals: ApprovalsOption = None,
    offline: OfflineOption = False,
) -> None:
    """Switch a tool off.

    Set `disabled: true` in its record, and change nothing else. A tool that waits for approval because it has no record
    gets `status: pending` in its new one. If no file names the tool, the server is connected to see whether it lists
    the tool; if that fails, the tool is switched off nevertheless. Exit code 0: done, or nothing to do. 1: a file is
    refused or cannot be changed. 2: there is no such server or tool.
    """
    name = name_of(tool)
    files = sound_files(config, approvals)
    known_server(files.config.names, server)
    files.check_recordable(server, name)
    verify_listed(files, server, name, offline=offline)
    _switch(files, server, name, disabled=True)


def enable(server: ServerArgument, tool: ToolArgument, config: ConfigOption, approvals: ApprovalsOption = None) -> None:
    """Switch a tool on again.

    Set `disabled: false` in its record, and change nothing else: a tool that waits for approval still waits. No server
    is connected. Exit code 0: done, or nothing to do. 1: a file is refused or cannot be changed. 2: there is no such
    server.
    """
    name = name_of(tool)
    files = sound_files(config, approvals)
    known_server(files.config.names, server)
    _switch(files, server, name, disabled=False)


def _is_settled(files: GatewayFiles, server: str, tool: UpstreamTool) -> bool:
    """Say whether `--all` has nothing left to do about a tool."""
    return is_plain(tool.name) or is_approved(files, server, tool)


def _report_skipped(server: str, tools: Sequence[UpstreamTool]) -> None:
    """List the tools that `--all` does not approve, and exit with code 1 if there are any."""
    if not tools:
        return
    for tool in tools[:MAX_LISTED]:
        why = unrecordable(tool.name)
        hint = f"it cannot be approved: {why}" if why else "approve it by its name"
        typer.echo(f"skipped: {cell_of(tool.name)} ({hint})", err=True)
    if len(tools) > MAX_LISTED:
        typer.echo(f"skipped: {len(tools) - MAX_LISTED:,} more", err=True)
    leave(
        f"{number_of(len(tools), 'tool')} of server {shown(server)} skipped: `--all` approves only names of 1 to 128"
        " characters of `[A-Za-z0-9_.-]`",
        1,
    )


def _switch(files: GatewayFiles, server: str, tool: str, *, disabled: bool) -> None:
    record = files.approvals.record(server, tool)
    word = "off" if disabled else "on"
    subject = f"tool {shown(tool)} of server {shown(server)}"
    if (record.disabled if record else False) is disabled:
        names = files.approvals.tools(server) if record is None else ()
        hint = did_you_mean(tool, names)
        sentence = f"{subject} is switched {word}" if record else f"{subject} has no record that switches it off"
        typer.echo(f"nothing to do: {sentence}" + (f" ({hint})" if hint else ""))
        return
    values: dict[str, Value] = {"disabled": disabled}
    if record is None and files.config.server(server).trust == "manual":
        # A record without a status is approved, and this tool waits for a review.
        values["status"] = "pending"
    files.change({server: {tool: values}})
    written = ", ".join(f"`{key}: {str(value).lower()}`" for key, value in values.items())
    typer.echo(f"{subject} is switched {word} now: {written} in `{escaped(str(files.path))}`")
