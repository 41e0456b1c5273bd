"""`callability agents`: add agents, list them, and revoke their tokens."""

from __future__ import annotations

import hashlib
import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import typer

from callability.cli import gateway_files
from callability.cli.console import write_table
from callability.cli.options import JsonOption, escape, leave
from callability.contract.finding import as_code
from callability.files.spelling import Tree
from callability.gateway.config.model import AgentConfig

_TOKEN_BYTES = 32
AgentArgument = Annotated[str, typer.Argument(metavar="NAME", help="An agent of the config.")]


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the agent.")],
    config: gateway_files.ConfigOption,
    server: Annotated[
        list[str] | None, typer.Option("--server", metavar="NAME", help="A server that it sees; may be repeated.")
    ] = None,
    token: Annotated[bool, typer.Option("--token", help="Make a token for HTTP, and print it once.")] = False,
    days: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, max=3_650, help="Days until the token expires. Default: none."),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Make another token for an agent that is there; the one before is void.")
    ] = False,
) -> None:
    """Add an agent to the config, and change nothing else.

    The config has only the SHA-256 of the token. A running gateway applies it. Exit code 0: added. 1: the config is
    refused or cannot be changed. 2: usage error, or there is such an agent.
    """
    read = gateway_files.sound_config(config)
    if renew:
        gateway_files.known_agent(read, name)
    elif name in read.agents:
        edit = f"for other servers, edit `servers` of the agent in {as_code(str(config))}"
        leave(f"the config has an agent {as_code(name)} already; {edit}; `--renew` makes another token for it", 2)
    if days is not None and not (token or renew):
        leave("`--days` goes with `--token`", 2)
    servers = [gateway_files.known_server(read.names, each) for each in server or ()]
    entry: dict[str, Any] = {} if renew else {"servers": servers}
    if renew and servers:
        leave("`--server` does not go with `--renew`: the agent keeps its servers", 2)
    made = secrets.token_urlsafe(_TOKEN_BYTES)
    if token or renew:
        entry["token_sha256"] = hashlib.sha256(made.encode()).hexdigest()
        if days is not None:
            entry["token_expires"] = _time_text(datetime.now(UTC) + timedelta(days=days))
        elif renew and read.agents[name].token_expires:
            leave(f"the token of agent {as_code(name)} expires: give `--days` for the new one", 2)
    gateway_files.change_file(config, cast(Tree, {"agents": {name: entry}}))
    gateway_files.record_edit(read, "agents add")
    typer.echo(f"agent {as_code(name)} is in `{escape(str(config))}` now")
    if token or renew:
        typer.echo("its token, which is shown this once:", err=True)
        typer.echo(made)


def list_agents(config: gateway_files.ConfigOption, as_json: JsonOption = False) -> None:
    """List the agents of a config, and the servers that each sees. No token is shown.

    Exit code 0: listed. 1: the config is refused.
    """
    agents = gateway_files.sound_config(config).agents
    now = datetime.now(UTC)
    rows = [(name, _token_state(agent, now), list(agent.servers)) for name, agent in agents.items()]
    if as_json:
        data = [{"name": name, "token": state, "servers": servers} for name, state, servers in rows]
        typer.echo(json.dumps({"agents": data}, indent=2))
        return
    write_table(("name", "token", "servers"), [(name, state, ", ".join(each) or "-") for name, state, each in rows])


def revoke(name: AgentArgument, config: gateway_files.ConfigOption) -> None:
    """Revoke the token of an agent, and change nothing else.

    The agent stays, so that a gateway over HTTP still wants tokens. A running gateway applies it. Exit code 0: done, or
    nothing to do. 1: the config is refused or cannot be changed. 2: there is no such agent.
    """
    read = gateway_files.sound_config(config)
    if gateway_files.known_agent(read, name).token_sha256 is None:
        typer.echo(f"nothing to do: agent {as_code(name)} has no token")
        return
    # No token has this digest: even if the date is removed, the one before stays void.
    digest = hashlib.sha256(secrets.token_bytes(_TOKEN_BYTES)).hexdigest()
    entry = {"token_sha256": digest, "token_expires": _time_text(datetime.now(UTC))}
    gateway_files.change_file(config, cast(Tree, {"agents": {name: entry}}))
    gateway_files.record_edit(read, "agents revoke")
    typer.echo(f"the token of agent {as_code(name)} is revoked")


def _token_state(agent: AgentConfig, now: datetime) -> str:
    if agent.token_sha256 is None:
        return "none"
    if agent.token_expires is None:
        return "valid"
    return f"valid until {agent.token_expires}" if agent.has_valid_token(now) else f"void since {agent.token_expires}"


def _time_text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
