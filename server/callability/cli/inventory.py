"""`callability inventory`: write the tools of a gateway with their facts, for `callability diff --inventory`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToJson

from callability.cli import gateway_files
from callability.cli.options import LogLevel, escape, leave, number_of
from callability.contract.finding import as_code, list_names, no_such
from callability.gateway.offline import Inspected, inspect_all, snapshot
from callability.gateway.tools.decisions import Commands, phrases
from callability.gateway.upstream.failure import few_of
from callability.gateway.upstream.listing import UpstreamTool
from callability.process.logs import log_to_standard_error
from callability.process.regular_file import OutputRefused, output_to


def verify_listed(files: gateway_files.GatewayFiles, server: str, tool: str, *, offline: bool) -> None:
    """Exit with code 2 if a server does not list a tool; report it if that cannot be known."""
    config = files.config.server(server)
    if tool in {*files.approvals.tools(server), *config.listed_tools}:
        return
    found = None if offline or not config.enabled else inspect_servers(files, (server,))[server]
    if found is None or found.failure:
        typer.echo(f"not verified: whether server {as_code(server)} has a tool {as_code(tool)}", err=True)
    else:
        known_tool(found.tools, server, tool)


def known_tool(tools: Mapping[str, UpstreamTool], server: str, tool: str) -> str:
    """Return the name of a tool if a server lists it, or exit with code 2."""
    if tool not in tools:
        leave(no_such(f"server {as_code(server)} lists no tool", tool, tools), 2)
    return tool


def known_tools(
    files: gateway_files.GatewayFiles, tools: Mapping[str, UpstreamTool], server: str, named: Iterable[str]
) -> Iterator[str]:
    """Yield the names of tools that a server lists and that may be approved, or exit with code 1 or 2."""
    for tool in named:
        files.check_recordable(server, known_tool(tools, server, tool))
        yield tool


def tools_of(files: gateway_files.GatewayFiles, server: str) -> Mapping[str, UpstreamTool]:
    """Connect a server and return its tools, or exit with code 1 and what to do first."""
    config = files.config.server(gateway_files.known_server(files.config.names, server))
    if not config.enabled:
        phrase = commands_of(files).about(server)["enable_server"]
        leave(f"server {as_code(server)} is switched off, and lists nothing: {phrase} first", 1)
    found = inspect_servers(files, (server,))[server]
    if found.failure:
        leave(f"server {found.failure}, so that its tools cannot be seen", 1)
    return found.tools


def inspect_servers(files: gateway_files.GatewayFiles, servers: Iterable[str]) -> dict[str, Inspected]:
    """Connect the servers that are enabled, and report each on standard error."""
    log_to_standard_error(LogLevel.ERROR)
    enabled = [server for server in servers if files.config.server(server).enabled]
    for server in (server for server in servers if server not in enabled):
        typer.echo(f"server {as_code(server)} is switched off, and is not connected", err=True)
    if enabled:
        typer.echo(f"connecting {list_names(enabled)}", err=True)
    return asyncio.run(inspect_all(files.config, enabled, _report))


def _report(server: str, found: Inspected) -> None:
    result = found.failure or f"{as_code(server)} lists {number_of(len(found.tools), 'tool')}"
    typer.echo(f"server {result}", err=True)
    if found.left_out:
        typer.echo(f"server {as_code(server)} lists tools that cannot be used: {few_of(found.left_out)}", err=True)
    for line in found.said:
        typer.echo(f"  its standard error: {escape(line)}", err=True)


def commands_of(files: gateway_files.GatewayFiles) -> Commands:
    """Return the commands that printed messages name for these files."""
    return phrases(files.config.path, files.given, files.config.catalog)


TABLE_ENDINGS = frozenset((".parquet", ".pq", ".arrow", ".feather", ".csv", ".jsonl", ".ndjson"))
"""How the names of files end that `inventory decide` reads, which an inventory is not."""


def inventory(
    context: typer.Context,
    config: gateway_files.ConfigOption,
    approvals: gateway_files.ApprovalsOption = None,
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="Write what this agent of the config sees. Default: all.")
    ] = "",
    offline: Annotated[
        bool, typer.Option("--offline", help="Connect no server: write the tools that the files name.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="The output file. Default: standard output.")
    ] = None,
) -> None:
    """Write the tools of a gateway's servers with their facts as JSON: a `CheckToolsRequest` of the contract.

    `callability diff --inventory` reads it. The enabled servers are connected; a server on stdio is started. The output
    contains names and facts, annotations among them, and no other text of a server. Exit code 0: written. 1: a file is
    refused, the output cannot be written, or a server cannot be connected (the others are written). 2: there is no such
    agent, or the output has the name of a table, such as `tools.csv`.
    """
    if context.invoked_subcommand is not None:
        leave(f"the options of `inventory` do not go with `inventory {context.invoked_subcommand}`", 2)
    if output is not None and output.suffix.lower() in TABLE_ENDINGS:
        leave(f"{as_code(str(output))} is the name of a table, and an inventory is JSON: give it a name in .json", 2)
    log_to_standard_error(LogLevel.ERROR)
    files = gateway_files.sound_files(config, approvals)
    if agent:
        gateway_files.known_agent(files.config, agent)
    failures: list[str] = []

    def report(server: str, failure: str) -> None:
        typer.echo(f"server {failure or f'`{server}` is connected'}", err=True)
        failures.extend([failure] if failure else [])

    request = asyncio.run(snapshot(files.config, files.approvals, agent, report, connecting=not offline))
    text = MessageToJson(request)
    if output is None:
        typer.echo(text)
    else:
        try:
            with output_to(output, (config, files.path)) as stream:
                stream.write(f"{text}\n".encode())
        except OutputRefused as error:
            leave(str(error), 1)
        tools = sum(len(server.tools) for server in request.servers)
        typer.echo(f"{number_of(tools, 'tool')} of {number_of(len(request.servers), 'server')} in `{output}`", err=True)
    raise typer.Exit(1 if failures else 0)
