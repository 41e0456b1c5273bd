"""Connecting servers to see which tools they list, for the commands about approvals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping

import typer

from callability.command_line.gateway_files import GatewayFiles, known_server
from callability.command_line.options import LogLevel, leave
from callability.command_line.terminal import escaped, number_of
from callability.finding import did_you_mean, listed, shown
from callability.gateway.offline.inspection import Inspected, inspected
from callability.gateway.tools.remedies import Commands, phrases
from callability.gateway.upstream import UpstreamTool
from callability.gateway.upstream.list_fault import few_of
from callability.log_output import log_to_standard_error


def verify_listed(files: GatewayFiles, server: str, tool: str, *, offline: bool) -> None:
    """Exit with code 2 if a server does not list a tool; report it if that cannot be known."""
    config = files.config.server(server)
    if tool in {*files.approvals.tools(server), *config.listed_tools}:
        return
    found = None if offline or not config.enabled else inspect_servers(files, (server,))[server]
    if found is None or found.failure:
        typer.echo(f"not verified: whether server {shown(server)} has a tool {shown(tool)}", err=True)
    else:
        known_tool(found.tools, server, tool)


def known_tool(tools: Mapping[str, UpstreamTool], server: str, tool: str) -> str:
    """Return the name of a tool if a server lists it, or exit with code 2."""
    if tool not in tools:
        hint = did_you_mean(tool, tools)
        leave(f"server {shown(server)} lists no tool {shown(tool)}" + (f" ({hint})" if hint else ""), 2)
    return tool


def known_tools(
    files: GatewayFiles, tools: Mapping[str, UpstreamTool], server: str, named: Iterable[str]
) -> Iterator[str]:
    """Yield the names of tools that a server lists and that may be approved, or exit with code 1 or 2."""
    for tool in named:
        files.check_recordable(server, known_tool(tools, server, tool))
        yield tool


def tools_of(files: GatewayFiles, server: str) -> Mapping[str, UpstreamTool]:
    """Connect a server and return its tools, or exit with code 1 and what to do first."""
    config = files.config.server(known_server(files.config.names, server))
    if not config.enabled:
        phrase = commands_of(files).about(server)["enable_server"]
        leave(f"server {shown(server)} is switched off, and lists nothing: {phrase} first", 1)
    found = inspect_servers(files, (server,))[server]
    if found.failure:
        leave(f"server {found.failure}, so that its tools cannot be seen", 1)
    return found.tools


def inspect_servers(files: GatewayFiles, servers: Iterable[str]) -> dict[str, Inspected]:
    """Connect the servers that are enabled, and report each on standard error."""
    log_to_standard_error(LogLevel.ERROR)
    enabled = [server for server in servers if files.config.server(server).enabled]
    for server in (server for server in servers if server not in enabled):
        typer.echo(f"server {shown(server)} is switched off, and is not connected", err=True)
    if enabled:
        typer.echo(f"connecting {listed(enabled)}", err=True)
    return asyncio.run(inspected(files.config, enabled, _report))


def _report(server: str, found: Inspected) -> None:
    result = found.failure or f"{shown(server)} lists {number_of(len(found.tools), 'tool')}"
    typer.echo(f"server {result}", err=True)
    if found.left_out:
        typer.echo(f"server {shown(server)} lists tools that cannot be used: {few_of(found.left_out)}", err=True)
    for line in found.said:
        typer.echo(f"  its standard error: {escaped(line)}", err=True)


def commands_of(files: GatewayFiles) -> Commands:
    """Return the commands that printed messages name for these files."""
    return phrases(files.config.path, files.given, files.config.catalog)
