"""`callability approvals`: list, approve, disable and verify single tools."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from callability.cli.console import write_table
from callability.cli.gateway_files import ApprovalsOption, ConfigOption, GatewayFiles, known_server, sound_files
from callability.cli.inventory import commands_of, inspect_servers, known_tool, known_tools, tools_of, verify_listed
from callability.cli.options import JsonOption, argument_of, cell_of, escape, is_cut, leave, name_of, number_of
from callability.cli.servers import definition_of, difference, last_seen, review_lines
from callability.contract.finding import MAX_LISTED, as_code, did_you_mean
from callability.contract.vocabulary import is_plain, unrecordable
from callability.files.spelling import Value
from callability.gateway.config.approvals import ANY_FORM, ApprovalRecord, Definitions, sort_sets
from callability.gateway.inventory import refusal_of
from callability.gateway.offline import Inspected
from callability.gateway.upstream.listing import UpstreamTool

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
            yield tool_approval(files, server, name, listed.get(name), listed=name in listed if connected else None)


def tool_approval(
    files: GatewayFiles, server: str, tool: str, found: UpstreamTool | None, *, listed: bool | None
) -> ToolApproval:
    """Return the approval of a tool as its server lists it; without a record, `trust` of the server decides (A.2)."""
    config, record = files.config.server(server), files.approvals.record(server, tool)
    fingerprint = None if found is None else found.fingerprint
    is_reviewed = record is not None and (record.has_status or config.trust != "first_use")
    record = record or ApprovalRecord(disabled=False, status="pending" if config.trust == "manual" else "approved")
    approval: str = record.status_of(fingerprint) or "unknown"
    if approval == "approved" and not is_reviewed:
        approval = NOT_REVIEWED
    is_denied = record.disabled is not False or config.config_denies(tool)
    is_refused = is_denied or bool(found and found.definition and refusal_of(found.definition))
    is_open = approval == NOT_REVIEWED and config.enabled and not config.quarantined and not is_refused
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


def approve_form(files: GatewayFiles, server: str, tools: Sequence[UpstreamTool], *, ask: bool) -> list[UpstreamTool]:
    """Approve tools in the form that they have, and return those that are not approved, which is reported."""
    todo = [tool for tool in tools if not is_approved(files, server, tool)]
    if not todo:
        typer.echo(f"nothing to do: {count_text(tools)} of server {as_code(server)} approved as it is, and pinned")
        return []
    unstable = _report_unstable(files, server, todo)
    accepted = _ask_about(files, server, [tool for tool in todo if tool not in unstable], ask=ask)
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
        typer.echo(
            f"tool {as_code(tool.name)} of server {as_code(server)} is not the same each time that it is listed:"
        )
        for line in difference(tool, other) if other else ("the second time, it was not listed",):
            typer.echo(line)
        typer.echo()
        typer.echo(
            f"skipped: {cell_of(tool.name)} (an approval of this form would not last; make the server list one form,"
            " or approve the name alone by `--any-form`)",
            err=True,
        )
    return unstable


def _ask_about(files: GatewayFiles, server: str, tools: Sequence[UpstreamTool], *, ask: bool) -> Sequence[UpstreamTool]:
    """Show tools, and return those that a person accepts: each that changed is asked about below what changed."""
    changed = [tool for tool in tools if _approval(files, server, tool).approval == "changed"]
    new = [tool for tool in tools if tool not in changed]
    for tool in new:
        show_tool(files, server, tool)
    accepted: list[UpstreamTool] = []
    if new and _is_confirmed(f"Approve {count_text(new)} of server {as_code(server)} in this form?", ask=ask):
        accepted += new
    for tool in changed:
        show_tool(files, server, tool)
        subject = f"tool {as_code(tool.name)} of server {as_code(server)}"
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
        typer.echo(f"nothing to do: {count_text(tools)} of server {as_code(server)} approved in any form")
        return
    for tool in todo:
        show_tool(files, server, tool)
    typer.echo("without a pin, whatever the server makes of a tool of this name is approved: a change locks nothing")
    if not _is_confirmed(f"Approve {count_text(todo)} of server {as_code(server)} in any form?", ask=ask):
        leave("nothing was approved", 1)
    files.change({server: {tool.name: {"status": "approved", "sha256": ANY_FORM} for tool in todo}})
    for tool in todo:
        typer.echo(f"tool {as_code(tool.name)} of server {as_code(server)} is approved in any form")
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
        leave(f"`{escape(str(definitions.directory))}` cannot be written: {(error.strerror or 'error').lower()}", 1)
    files.change({server: {tool.name: {"status": "approved", "sha256": tool.fingerprint.current} for tool in todo}})
    for tool in todo:
        form = tool.fingerprint.current
        typer.echo(f"tool {as_code(tool.name)} of server {as_code(server)} is approved in the form {form}")
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
    return tool_approval(files, server, tool.name, tool, listed=True)


def show_tool(files: GatewayFiles, server: str, tool: UpstreamTool) -> None:
    """Print the approval of a tool, and its definition or what changed of it."""
    words = _approval(files, server, tool).words
    typer.echo(f"tool {as_code(tool.name)} of server {as_code(server)}: {words}")
    typer.echo(f"sha256: {tool.fingerprint.current}")
    for line in review_lines(tool, files.approvals.record(server, tool.name), Definitions.beside(files.path)):
        typer.echo(line)
    typer.echo()


def count_text(tools: Sequence[UpstreamTool]) -> str:
    """Return the name of the only tool, or how many there are."""
    return f"tool {as_code(tools[0].name)}" if len(tools) == 1 else number_of(len(tools), "tool")


ServerArgument = Annotated[str, typer.Argument(metavar="SERVER", help="A server of the config.")]
_EXACT = "by its exact name, as `approvals list` writes it"
ToolArgument = Annotated[str, typer.Argument(metavar="TOOL", help=f"A tool of the server, {_EXACT}.")]
WaitingOption = Annotated[bool, typer.Option("--waiting", help="List only tools that are pending or changed.")]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Connect no server: read only the files.")]


def list_approvals(
    config: ConfigOption,
    server: Annotated[str | None, typer.Argument(metavar="SERVER", help="List only this server.")] = None,
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
    tool: Annotated[str | None, typer.Argument(metavar="TOOL", help=f"A tool, {_EXACT}. Default: every tool.")] = None,
    approvals: ApprovalsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a tool's definition, and what changed since it was approved.

    The server is connected, even in quarantine; a server on stdio is started. Characters that control a terminal, or
    that cannot be seen, are escaped. Exit code 0: shown. 1: a file is refused, or the server cannot be connected. 2:
    there is no such server or tool.
    """
    named = None if tool is None else name_of(tool)
    files = sound_files(config, approvals)
    tools = tools_of(files, server)
    shown = [tools[name] for name in (tools if named is None else (known_tool(tools, server, named),))]
    if as_json:
        typer.echo(json.dumps({"tools": [_shown_as_json(files, server, each) for each in shown]}, indent=2))
        return
    for each in shown:
        show_tool(files, server, each)


def _shown_as_json(files: GatewayFiles, server: str, tool: UpstreamTool) -> dict[str, object]:
    """Return the approval of a tool, its definition and, if another form was recorded, that one, if it is kept."""
    record = files.approvals.record(server, tool.name)
    pin = record.sha256 if record is not None and record.is_pinned else None
    if pin is not None and tool.fingerprint.matches(pin):
        pin = None
    before = None if pin is None else Definitions.beside(files.path).find(pin)
    if before is not None:
        sort_sets(before)
    return {
        **_approval(files, server, tool).as_json,
        "definition": definition_of(tool),
        "recorded_sha256": pin,
        "recorded_definition": before,
    }


def approve(
    server: ServerArgument,
    config: ConfigOption,
    tools: Annotated[list[str] | None, typer.Argument(metavar="TOOL", help=f"Tools, each {_EXACT}.")] = None,
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
        leave(f"tool {as_code(named[0])} has changed: its SHA-256 is {chosen[0].fingerprint.current}", 1)
    ask = not yes and sha256 is None
    if any_form:
        approve_names(files, server, chosen, ask=ask)
        return
    refused = approve_form(files, server, chosen, ask=ask)
    if every:
        _report_skipped(server, [tool for tool in there.values() if not _is_settled(files, server, tool)])
    if refused:
        leave(f"not approved: {count_text(refused)} of server {as_code(server)}", 1)


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
        f"{number_of(len(tools), 'tool')} of server {as_code(server)} skipped: `--all` approves only names of 1 to 128"
        " characters of `[A-Za-z0-9_.-]`",
        1,
    )


def _switch(files: GatewayFiles, server: str, tool: str, *, disabled: bool) -> None:
    record = files.approvals.record(server, tool)
    word = "off" if disabled else "on"
    subject = f"tool {as_code(tool)} of server {as_code(server)}"
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
    typer.echo(f"{subject} is switched {word} now: {written} in `{escape(str(files.path))}`")
