"""`callability servers`: switch servers on and off, and hold them for review."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from callability.command_line.gateway_files import ConfigOption, changed, known_server, sound_config
from callability.command_line.options import JsonOption
from callability.command_line.terminal import escaped, write_table
from callability.finding import shown

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A server of the config.")]


def list_servers(config: ConfigOption, as_json: JsonOption = False) -> None:
    """List the servers of a config. None is connected.

    Exit code 0: listed. 1: the config is refused.
    """
    servers = [
        {
            "name": name,
            "type": "http" if server.url else "stdio",
            "enabled": server.enabled,
            "quarantined": server.quarantined,
            "trust": server.trust,
        }
        for name, server in sound_config(config).servers.items()
    ]
    if as_json:
        typer.echo(json.dumps({"servers": servers}, indent=2))
        return
    columns = ("name", "type", "enabled", "quarantined", "trust")
    write_table(columns, [[_cell(server[column]) for column in columns] for server in servers])


def enable(name: NameArgument, config: ConfigOption) -> None:
    """Switch a server on, or retry one that did not load.

    Set `enabled: true` in the config, and change nothing else. A running gateway applies it. If the server is switched
    on already, the config is written again without a change, and a running gateway retries every server that is not
    connected, or whose last call failed. Exit code 0: done. 1: the config is refused or cannot be changed. 2: there is
    no such server.
    """
    servers = sound_config(config).servers
    if servers[known_server(servers, name)].enabled:
        changed(config, {}, touch=True)
        retried = "a running gateway retries it if it is not connected, or if its last call failed"
        typer.echo(f"server {shown(name)} is switched on already; {retried}")
    else:
        _set(config, name, "enabled", True, "is switched on")


def disable(name: NameArgument, config: ConfigOption) -> None:
    """Switch a server off.

    Set `enabled: false` in the config, and change nothing else. A running gateway applies it. Exit code 0: done, or
    nothing to do. 1: the config is refused or cannot be changed. 2: there is no such server.
    """
    _set(config, name, "enabled", False, "is switched off")


def quarantine(name: NameArgument, config: ConfigOption) -> None:
    """Hold a server for review.

    Set `quarantined: true` in the config, and change nothing else. A running gateway applies it. Exit code 0: done, or
    nothing to do. 1: the config is refused or cannot be changed. 2: there is no such server.
    """
    _set(config, name, "quarantined", True, "is held in quarantine")


def release(name: NameArgument, config: ConfigOption) -> None:
    """Release a server from quarantine.

    Look at its tools first: `callability approvals show`. Set `quarantined: false` in the config, and change nothing
    else. A running gateway applies it. Exit code 0: done, or nothing to do. 1: the config is refused or cannot be
    changed. 2: there is no such server.
    """
    _set(config, name, "quarantined", False, "is not held in quarantine")


def _set(path: ConfigOption, name: str, key: str, value: bool, state: str) -> None:
    config = sound_config(path)
    server = config.servers[known_server(config.servers, name)]
    if getattr(server, key) is value or not changed(path, {"mcpServers": {name: {key: value}}}):
        typer.echo(f"nothing to do: server {shown(name)} {state}")
        return
    typer.echo(f"server {shown(name)} {state} now: `{key}: {str(value).lower()}` in `{escaped(str(path))}`")


def _cell(value: str | bool) -> str:
    return value if isinstance(value, str) else "yes" if value else "no"
