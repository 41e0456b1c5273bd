"""`callability servers add|remove|show` and `callability tools deny|allow`: what would be an edit by hand.

Every other byte of the files stays.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast
from urllib.parse import urlsplit

import typer

from callability.cli import gateway_files
from callability.cli.options import JsonOption, escape, leave, refuse
from callability.contract.finding import Severity, as_code, list_names, no_such
from callability.files import document
from callability.files.editing import EditRefused, edited_bytes, replace, turn, without
from callability.files.spelling import Tree
from callability.gateway.config.approvals import DEFAULT_APPROVALS, load_approvals, read_seen, seen_beside
from callability.gateway.config.config import Config
from callability.gateway.config.findings import findings, unfit_variables, unset_variables
from callability.gateway.config.model import CatalogEntry, ServerConfig
from callability.gateway.config.variables import SECRETS_FILE, with_secrets, written_secrets
from callability.setup.client_file import Unusable
from callability.setup.secret_values import SecretStore, needed_variables, own_secrets, secrets_in, without_secrets
from callability.setup.writing import remove_secrets, unused_secrets, write_secrets

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:=|:[ \t]*)(.*)", re.DOTALL)
_ENV_NAME = re.compile(r"[^=:\s\0]+")
_REFERABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A server of the config.")]


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the new server.")],
    config: gateway_files.ConfigOption,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND ARGUMENT", help="The program that serves on stdio.")
    ] = None,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="The address of a server on HTTP.")] = "",
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME[=VALUE]", help="A variable; without a value, that of the gateway."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header; `NAME: VALUE`, as for curl, is the same."),
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option("--agent", metavar="NAME", help="An agent that sees it; may be repeated.")
    ] = None,
    trust: Annotated[str, typer.Option("--trust", metavar="auto|first_use|manual", help="Default: auto.")] = "",
) -> None:
    """Add a server to the config, and change nothing else.

    A value that is a secret goes to `secrets.env` beside the config. A running gateway applies it. Exit code 0: added.
    1: the config is refused or cannot be changed. 2: usage error, or there is such a server.
    """
    read = gateway_files.sound_config(config)
    if name in read.names:
        leave(f"the config has a server {as_code(name)} already", 2)
    if bool(command) == bool(url):
        leave("give either `--url`, or a command behind `--`", 2)
    for each in agent or ():
        gateway_files.known_agent(read, each)
    entry: dict[str, Any] = {"command": command[0], "args": command[1:]} if command else {"url": url}
    entry |= {"env": dict(map(_variable, env))} if env else {}
    entry |= {"headers": dict(map(_header, header))} if header else {}
    entry |= {"trust": trust} if trust else {}
    store = SecretStore(read.secrets)
    entry = without_secrets({key: value for key, value in entry.items() if value}, name, store)
    seen = {each: {"servers": [*read.agents[each].servers, name]} for each in agent or ()}
    tree: dict[str, Any] = {"mcpServers": {name: entry}, **({"agents": seen} if seen else {})}
    _check(config, name, tree, {**store.known, **store.added})
    if store.added:
        _store(config, store.added)
    gateway_files.change_file(config, cast(Tree, tree))
    gateway_files.record_edit(read, "servers add")
    typer.echo(f"server {as_code(name)} is in `{escape(str(config))}` now")
    if store.added:
        typer.echo(f"secrets in `{SECRETS_FILE}` beside it: {', '.join(store.added)}")
    if needed := needed_variables(entry):
        names = list_names(needed)
        typer.echo(f"it does not load without {names} in the gateway's environment: `--env NAME=VALUE` stores a value")
    if read.agents and not seen:
        typer.echo("no agent of the config sees it: name one by `--agent`, or add it to the agent's `servers`")


def remove(name: NameArgument, config: gateway_files.ConfigOption) -> None:
    """Remove a server from the config and from the agents that see it, and change nothing else.

    Its secrets are removed from `secrets.env` unless something else there refers to them; its approvals stay. A running
    gateway applies it. Exit code 0: removed. 1: the config is refused or cannot be changed. 2: there is no such server.
    """
    read = gateway_files.sound_config(config)
    gateway_files.known_server(read.names, name)
    section = read.section(name)

    def edit(data: bytes) -> bytes:
        for agent, each in read.agents.items():
            if name in each.servers:
                left = [server for server in each.servers if server != name]
                data = edited_bytes(data, str(config), {"agents": {agent: {"servers": left}}})
        return without(data, str(config), (section, name))

    entry: Any = document.plain(document.parse(document.read_bytes(config), str(config)))
    _rewrite(config, edit)
    gateway_files.record_edit(read, "servers remove")
    typer.echo(f"server {as_code(name)} is not in `{escape(str(config))}` any more; its approvals stay")
    _remove_secrets_of(config, name, entry[section][name], read.secrets)


def show(name: NameArgument, config: gateway_files.ConfigOption, as_json: JsonOption = False) -> None:
    """Show how a server is reached, who sees it, and which of its tools the config denies.

    No value of an argument, a variable, a header or a URL is shown, and the server is not connected. Exit code 0:
    shown. 1: the config is refused. 2: there is no such server.
    """
    read = gateway_files.sound_config(config)
    gateway_files.known_server(read.names, name)
    section = read.section(name)
    rows = _rows(read, name, read.catalog.get(name) or read.servers[name])
    if as_json:
        typer.echo(json.dumps({"name": name, **rows}, indent=2, ensure_ascii=False))
        return
    typer.echo(f"{as_code(name)}, at {escape(str(read.place(section, name)))}")
    for key, value in rows.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else _text(value)
        typer.echo(f"  {key:15} {escape(text) or '-'}")


def deny(
    server: NameArgument,
    config: gateway_files.ConfigOption,
    tools: Annotated[list[str], typer.Argument(metavar="TOOL", help="Tools of the server, by exact name.")],
) -> None:
    """Deny tools of a server by its lists in the config, for every agent.

    A running gateway applies it. Only the operator lifts it again. No server is connected: the names are compared with
    the tools that a gateway with this config has seen the server list, and are not verified if none has. Exit code 0:
    done, or nothing to do. 1: the config is refused or cannot be changed. 2: there is no such server or tool.
    """
    _set_tools(config, server, tools, denied=True)


def allow(
    server: NameArgument,
    config: gateway_files.ConfigOption,
    tools: Annotated[list[str], typer.Argument(metavar="TOOL", help="Tools of the server, by exact name.")],
) -> None:
    """Stop denying tools of a server by its lists in the config.

    Other locks of the tools stay. A running gateway applies it. No server is connected: the names are compared with the
    tools that a gateway with this config has seen the server list, and are not verified if none has. Exit code 0: done,
    or nothing to do. 1: the config is refused or cannot be changed. 2: there is no such server or tool.
    """
    _set_tools(config, server, tools, denied=False)


def _set_tools(config: Path, server: str, tools: Sequence[str], *, denied: bool) -> None:
    read = gateway_files.sound_config(config)
    gateway_files.known_server(read.names, server)
    section = read.section(server)
    entry = read.server(server)
    _verify_names(read, server, tools)
    todo = [tool for tool in dict.fromkeys(tools) if entry.config_denies(tool) is not denied]
    state = "denied" if denied else "not denied"
    if not todo:
        typer.echo(f"nothing to do: {list_names(tools)} of server {as_code(server)}: {state} by the config")
        return
    key = "disabled_tools" if entry.enabled_tools is None else "enabled_tools"
    adding = denied is (key == "disabled_tools")
    now = list(getattr(entry, key) or ())
    if not adding and key == "enabled_tools" and set(now) <= set(todo):
        leave(f"no tool would be left in `enabled_tools`: `callability servers disable {server}` denies all of them", 2)

    def edit(data: bytes) -> bytes:
        items = now
        # One by one: so a list keeps the form that a person gave it.
        for tool in todo:
            items = [*items, tool] if adding else [each for each in items if each != tool]
            if not items:
                return without(data, str(config), (section, server, key))
            data = edited_bytes(data, str(config), {section: {server: {key: items}}})
        return data

    _rewrite(config, edit)
    gateway_files.record_edit(read, "tools deny" if denied else "tools allow")
    typer.echo(f"{list_names(todo)} of server {as_code(server)}: {state} by `{key}` now")


def _verify_names(read: Config, server: str, tools: Sequence[str]) -> None:
    """Exit with code 2 if a server never listed one of these tools; report it if no gateway has seen its list."""
    approvals = read.approvals or read.path.with_name(DEFAULT_APPROVALS)
    try:
        seen = read_seen(seen_beside(approvals)).get(server, {})
    except (OSError, ValueError, RecursionError):
        seen = {}
    known = {*seen, *load_approvals(approvals).tools(server), *read.server(server).listed_tools}
    unknown = [tool for tool in dict.fromkeys(tools) if tool not in known]
    if unknown and seen:
        leave(no_such(f"server {as_code(server)} lists no tool", unknown[0], seen), 2)
    if unknown:
        why = "no gateway has connected the server with this config"
        typer.echo(f"not verified: whether server {as_code(server)} has {list_names(unknown)} ({why})", err=True)


def _rows(read: Config, name: str, entry: ServerConfig | CatalogEntry) -> Mapping[str, object]:
    agents = [agent for agent, each in read.agents.items() if name in each.servers]
    rows: dict[str, object] = {"type": entry.type or ("http" if entry.url else "stdio")}
    if entry.command:
        rows |= {"command": entry.command, "arguments": len(entry.args), "env": list(entry.env)}
        rows |= {"env_file": entry.env_file} if entry.env_file else {}
        rows |= {"inherit": list(entry.inherit)} if entry.inherit else {}
        rows |= {"cwd": entry.cwd} if entry.cwd else {}
    else:
        rows |= {"host": urlsplit(entry.url or "").netloc.rpartition("@")[2], "headers": list(entry.headers)}
    rows["trust"] = entry.trust
    for key in ("enabled", "quarantined"):
        rows |= {key: getattr(entry, key)} if hasattr(entry, key) else {}
    for key in ("enabled_tools", "disabled_tools"):
        rows |= {key: list(getattr(entry, key))} if getattr(entry, key) else {}
    rows["agents"] = agents if read.agents else ["every client"]
    return rows


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _variable(text: str) -> tuple[str, str]:
    """Return a variable of `--env`, and its value or a reference to that of the gateway."""
    name, equals, value = text.partition("=")
    if equals and _ENV_NAME.fullmatch(name):
        return name, value.replace("${", "$${")
    if equals or not _REFERABLE.fullmatch(name):
        _leave_unreadable("--env", "`NAME=VALUE`, or `NAME` for a variable of the gateway")
    return name, f"${{{name}}}"


def _header(text: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(text)
    if found is None:
        _leave_unreadable("--header", "`NAME=VALUE` or `NAME: VALUE`")
    return found[1], found[2].replace("${", "$${")


def _leave_unreadable(option: str, wanted: str) -> NoReturn:
    leave(f"`{option}` is not of the form {wanted} (what was given is not printed: it may be a secret)", 2)


def _check(config: Path, name: str, tree: Mapping[str, object], secrets: Mapping[str, str]) -> None:
    """Exit with code 1 if the config would be refused, or a value does not fit or is missing in the server `name`."""
    try:
        data = edited_bytes(document.read_bytes(config), str(config), cast(Tree, tree))
    except (document.Refused, EditRefused):
        leave(f"{escape(str(config))}: the server cannot be added without touching something else", 1)
    root = document.parse(data, str(config))
    read, found = findings(root)
    errors = [each for each in found if each.severity is Severity.ERROR]
    if read is not None:
        environment = with_secrets(secrets, os.environ)
        lacks = [each for each in unset_variables(root, environment, name) if each.code == "unset-secret"]
        lacks += unfit_variables(root, {name: read.servers[name]}, environment)
        errors += [dataclasses.replace(each, severity=Severity.ERROR) for each in lacks]
    if errors:
        refuse(errors, "nothing was changed")


def _store(config: Path, added: Mapping[str, str]) -> None:
    try:
        with turn(config.resolve().parent):
            write_secrets(config, {**written_secrets(config), **added})
    except OSError as error:
        leave(f"`{SECRETS_FILE}` cannot be written: {(error.strerror or 'error').lower()}; nothing was changed", 1)


def _remove_secrets_of(config: Path, name: str, entry: dict[str, Any], secrets: Mapping[str, str]) -> None:
    """Remove the secrets of a server that is gone, unless a person may have named them or something refers to them."""
    named = secrets_in(entry)
    try:
        with turn(config.resolve().parent):
            unused = [each for each in unused_secrets(config, document.read_bytes(config)) if each in named]
            gone = [each for each in unused if each in own_secrets(entry, name, secrets)]
            remove_secrets(config, gone)
    except Unusable as error:
        leave(escape(str(error)), 1)
    except OSError as error:
        leave(f"`{SECRETS_FILE}` cannot be written: {(error.strerror or 'error').lower()}", 1)
    if gone:
        typer.echo(f"removed from `{SECRETS_FILE}` beside it: {', '.join(gone)}")
    if used := [each for each in named if each not in unused and each in secrets]:
        typer.echo(f"`{SECRETS_FILE}` keeps {list_names(used)}, which a config beside it refers to")
    if left := [each for each in unused if each not in gone]:
        typer.echo(
            f"`{SECRETS_FILE}` keeps {list_names(left)}, which nothing refers to: remove the line if you do not need it"
        )


def _rewrite(config: Path, edit: Callable[[bytes], bytes]) -> None:
    """Put an edited config in the place of one, or exit with code 1."""
    target = config.resolve()
    with gateway_files.refusing_edits(config), turn(target.parent):
        replace(target, edit(document.read_bytes(target, str(config))))
