"""`callability preflight`: say before a job whether the tools that it needs can be called."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from callability.cli import gateway_answers, policy_service
from callability.cli.console import write_table
from callability.cli.gateway_files import GivenApprovalsOption, GivenConfigOption
from callability.cli.options import JsonOption, PolicyAddressOption, PolicyOption, escape, leave
from callability.contract.finding import as_code
from callability.gateway.tools.preflight import (
    BLOCKED,
    MOST_TOOLS,
    READY,
    RETRYABLE,
    UNKNOWN_IDS,
    MalformedRider,
    RequiredTools,
)
from callability.process.regular_file import read_regular

EXIT_CODES = {READY: 0, RETRYABLE: 10, BLOCKED: 11, UNKNOWN_IDS: 12}
"""The exit code of each verdict; the worst verdict about a tool is that of all."""
NOT_KNOWN = "not_known"
"""In place of a verdict, and of a reason, where a server that is not connected would have to say more."""
_NOT_LOOKED_AT = {
    "reason": NOT_KNOWN,
    "retryable": False,
    "detail": "Its server is not connected because of `--offline`.",
    "remediation": "Run this without `--offline`.",
}
_MAX_FILE = 64 * 1024
_COLUMNS = ("tool", "status", "reason", "action", "detail")


def preflight(
    tools: Annotated[
        list[str] | None, typer.Argument(metavar="SERVER:TOOL", help=f"The tools, at most {MOST_TOOLS}.")
    ] = None,
    file: Annotated[
        str,
        typer.Option("--file", metavar="FILE", help="Read the tools from a file, one a line; `-` is standard input."),
    ] = "",
    agent: gateway_answers.QueriedAgentOption = None,
    config: GivenConfigOption = None,
    gateway: gateway_answers.GatewayPidOption = None,
    files: gateway_answers.FilesOption = False,
    offline: gateway_answers.AskOfflineOption = False,
    approvals: GivenApprovalsOption = None,
    policy: PolicyOption = None,
    policy_address: PolicyAddressOption = None,
    policy_ca: policy_service.PolicyCaOption = None,
    policy_certificate: policy_service.PolicyCertificateOption = None,
    policy_key: policy_service.PolicyKeyOption = None,
    policy_token_file: policy_service.PolicyTokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether an agent can call the tools that a job needs, before the job starts.

    A running gateway answers, or the files alone are read, as by `callability why`. No tool is called. A tool out of
    the agent's scope is reported as one that does not exist. Exit code 0: every tool is ready. 10: a server is not
    connected yet, or not any more: try again later. 11: a person must lift a lock first. 12: there is no such tool. The
    worst one wins. 1: a file is refused, or there is no verdict. 2: usage error.
    """
    named = [*(tools or ()), *(_ids_in(file) if file else ())]
    try:
        required = RequiredTools.of_ids(named)
    except MalformedRider:
        leave(f"name 1 to {MOST_TOOLS} tools, as arguments or by `--file`; these are {len(named)}", 2)
    service = policy_service.PolicyService.of(
        policy_address, policy_ca, policy_certificate, policy_key, policy_token_file
    )
    query = gateway_answers.GatewayQuery(agent, config, approvals, policy, service, gateway, files, offline)
    running = query.gateway()
    if running is not None:
        found = running.ask(ask="preflight", agent=agent, tools=[*required.ids])
    else:
        # It imports the MCP SDK, which takes longer than a running gateway takes to answer.
        from callability.cli.file_answers import FileAnswers  # noqa: PLC0415

        found = FileAnswers(query).preflight(required)
        if offline:
            found = _without_guesses(found)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        write_table(_COLUMNS, [_cells(each) for each in found["tools"]])
        typer.echo(f"verdict: {found['verdict']}")
    if found["verdict"] == NOT_KNOWN:
        leave("no verdict: with `--offline`, only the files say what a server lists; run it without that", 1)
    raise typer.Exit(EXIT_CODES[found["verdict"]])


def _without_guesses(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result of `--offline` in which nothing is expected of servers that were not connected."""
    tools = [each | _NOT_LOOKED_AT if each.get("reason") == "server_initializing" else each for each in found["tools"]]
    is_guess = found["verdict"] == RETRYABLE and any(each.get("reason") == NOT_KNOWN for each in tools)
    return {**found, "tools": tools, "verdict": NOT_KNOWN if is_guess else found["verdict"]}


def _ids_in(file: str) -> Iterator[str]:
    """Yield the ids in a file, or exit with code 1; blank lines, and those that begin with `#`, are skipped."""
    try:
        data = sys.stdin.buffer.read(_MAX_FILE + 1) if file == "-" else read_regular(Path(file), _MAX_FILE + 1)
        lines = data.decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or "error").lower() if isinstance(error, OSError) else "it is not UTF-8"
        leave(f"{as_code(file)} cannot be read: {why}", 1)
    if len(data) > _MAX_FILE:
        leave(f"{as_code(file)} has more than {_MAX_FILE:,} bytes", 1)
    yield from (line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _cells(result: Mapping[str, Any]) -> list[str]:
    near = result.get("did_you_mean")
    detail = f"{result.get('detail', '')} {result.get('remediation', '')}".strip()
    if near:
        detail += f" Did you mean {' or '.join(near)}?"
    cells = [*(str(result.get(key) or "-") for key in ("id", "status", "reason", "action")), detail or "-"]
    return [*map(escape, cells)]
