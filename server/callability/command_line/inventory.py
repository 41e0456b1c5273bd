"""`callability inventory`: write the tools of a gateway with their facts, for `callability diff --inventory`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToJson

from callability.command_line.gateway_files import ApprovalsOption, ConfigOption, sound_files
from callability.command_line.options import LogLevel, leave
from callability.command_line.terminal import number_of
from callability.finding import did_you_mean, shown
from callability.gateway.offline.snapshot import snapshot
from callability.log_output import log_to_standard_error
from callability.output_file import OutputRefused, output_to


def inventory(
    context: typer.Context,
    config: ConfigOption,
    approvals: ApprovalsOption = None,
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
    agent.
    """
    if context.invoked_subcommand is not None:
        leave(f"the options of `inventory` do not go with `inventory {context.invoked_subcommand}`", 2)
    log_to_standard_error(LogLevel.ERROR)
    files = sound_files(config, approvals)
    if agent and agent not in files.config.agents:
        hint = did_you_mean(agent, files.config.agents)
        leave(f"the config has no agent {shown(agent)}" + (f" ({hint})" if hint else ""), 2)
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
