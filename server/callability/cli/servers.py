"""`callability servers`: switch servers on and off, hold them for review, and log in to them."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callability.cli.console import write_table
from callability.cli.gateway_files import ConfigOption, change_file, known_server, record_edit, sound_config
from callability.cli.options import JsonOption, LogLevel, escape, leave, number_of
from callability.contract.finding import as_code, list_names
from callability.files.editing import EditRefused, rewrite
from callability.gateway.config.approvals import ApprovalRecord, Definitions, approved_part, sort_sets
from callability.gateway.config.config import Config
from callability.gateway.config.variables import unset, with_secrets
from callability.process.logs import log_to_standard_error

if TYPE_CHECKING:
    from callability.gateway.upstream.listing import UpstreamTool

_FIRST = ("name", "title", "description")


def review_lines(tool: UpstreamTool, record: ApprovalRecord | None, definitions: Definitions) -> Iterator[str]:
    """Yield the lines of a tool's definition or, where another was approved, of the difference.

    Nothing in them plays with a terminal: each character that is not seen is escaped, and no line of a text can be
    taken for one of ours.
    """
    if record is None or not record.is_pinned or tool.fingerprint.matches(record.sha256):
        yield from _lines(definition_of(tool))
        return
    before = definitions.find(record.sha256)
    if before is None:
        since = last_seen(record)
        yield f"it changed after {since}, and the text of that form, {record.sha256}, is not kept; as it is now:"
        yield from _lines(definition_of(tool))
        return
    sort_sets(before)
    changes = tuple(_difference(before, f"approved {record.sha256}", tool, "now      "))
    if changes:
        yield f"it changed after {last_seen(record)}:"
    yield from changes or (f"it differs from what was recorded, {record.sha256}, only in the order of sets",)


def last_seen(record: ApprovalRecord | None) -> str:
    """Return when the recorded form of a tool was seen: under `trust: first_use`, nobody approved it."""
    return "its approval" if record is None or record.has_status else "it was recorded"


def difference(one: UpstreamTool, other: UpstreamTool) -> Iterator[str]:
    """Yield the lines of the difference between two forms of a tool, which two processes of its server list."""
    return _difference(definition_of(one), f"first  {one.fingerprint.current}", other, "second ")


def definition_of(tool: UpstreamTool) -> dict[str, Any]:
    """Return what is approved of a tool; it is there wherever a person looks at the tool."""
    assert tool.definition is not None
    return approved_part(tool.definition)


def _difference(before: dict[str, Any], label: str, tool: UpstreamTool, now: str) -> Iterator[str]:
    lines = tuple(_lines(before)), tuple(_lines(definition_of(tool)))
    return difflib.unified_diff(*lines, label, f"{now}{tool.fingerprint.current}", lineterm="")


def _lines(definition: Mapping[str, Any]) -> Iterator[str]:
    rest = sorted(definition.keys() - {*_FIRST})
    for key in (*(key for key in _FIRST if key in definition), *rest):
        match definition[key]:
            case str(text) if key == "name":
                yield f"name: {_text(text)}"
            case str(text):
                yield f"{key}:"
                yield from (f"  | {_text(line)}" for line in text.split("\n"))
            case value:
                yield f"{key}:"
                written = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
                yield from (f"  {escape(line)}" for line in written.split("\n"))


def _text(text: str) -> str:
    """Escape a text so that escapes differ from text that was written like one."""
    return escape(text.replace("\\", "\\\\"))


_COMMANDS = {
    ("enabled", True): "enable",
    ("enabled", False): "disable",
    ("quarantined", True): "quarantine",
    ("quarantined", False): "release",
}
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A server of the config.")]


def list_servers(config: ConfigOption, as_json: JsonOption = False) -> None:
    """List the servers of a config. None is connected.

    Exit code 0: listed. 1: the config is refused.
    """
    servers: list[dict[str, str | bool]] = [
        {
            "name": name,
            "type": server.way,
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
    connected, or whose last call failed. A variable of the server that is not set for this command is named. Exit code
    0: done. 1: the config is refused or cannot be changed. 2: there is no such server.
    """
    read = sound_config(config)
    server = read.servers[known_server(read.servers, name)]
    if server.enabled:
        change_file(config, {}, touch=True)
        retried = "a running gateway retries it if it is not connected, or if its last call failed"
        typer.echo(f"server {as_code(name)} is switched on already; {retried}")
    else:
        _set(config, name, "enabled", True, "is switched on")
    if missing := unset(server, with_secrets(read.secrets, os.environ)):
        typer.echo(f"in the environment of this command, it needs what is not set: {list_names(missing)}", err=True)


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


def login(
    name: NameArgument,
    config: ConfigOption,
    no_browser: Annotated[
        bool,
        typer.Option("--no-browser", help="Print the address to open, and read the address at which the browser ends."),
    ] = False,
) -> None:
    """Log in to a server by OAuth, in the browser.

    Connect the server, and have its provider ask you to authorize it, unless a stored login works. The login is stored
    beside the config, or in the keyring (`tokens`), and renewed by itself. A running gateway connects the server. Only
    this command authorizes a server of `mcpServers`. Exit code 0: logged in. 1: the config is refused, or the server is
    not authorized. 2: there is no such server.
    """
    from callability.gateway.offline import log_in  # noqa: PLC0415  # it imports the MCP SDK
    from callability.gateway.upstream.login_store import StoreUnavailable  # noqa: PLC0415

    log_to_standard_error(LogLevel.ERROR)
    files = sound_config(config)
    known_server(files.names, name)
    try:
        done = asyncio.run(log_in(files, name, lambda words: typer.echo(words, err=True), browser=not no_browser))
    except StoreUnavailable as error:
        leave(f"the stored login of {as_code(name)} cannot be used: {error}", 1)
    except KeyboardInterrupt:
        leave(f"{as_code(name)} was not authorized", 1)
    if done.failure:
        leave(done.failure, 1)
    how = "is authorized" if done.is_new else "is authorized already" if done.is_stored else "needs no login"
    typer.echo(f"server {as_code(name)} {how}, and lists {number_of(done.tools, 'tool')}{_wake(files, name)}")


def logout(name: NameArgument, config: ConfigOption) -> None:
    """Remove the stored login of a server.

    A running gateway disconnects the server. The provider is asked to revoke the token if it has an address for that;
    if it does not, end the access there too. Exit code 0: done, or nothing to do. 1: the config is refused, or the
    login cannot be removed. 2: there is no such server.
    """
    from callability.gateway.offline import log_out  # noqa: PLC0415  # it imports the MCP SDK
    from callability.gateway.upstream.login_store import StoreUnavailable  # noqa: PLC0415

    files = sound_config(config)
    known_server(files.names, name)
    try:
        done = asyncio.run(log_out(files, name))
    except StoreUnavailable as error:
        leave(f"the stored login of {as_code(name)} cannot be removed: {error}", 1)
    if not done.was_there:
        typer.echo(f"nothing to do: server {as_code(name)} has no stored login")
        return
    typer.echo(f"the stored login of server {as_code(name)} is removed{_wake(files, name)}")
    if done.unrevoked:
        typer.echo(f"its provider did not revoke the token ({done.unrevoked}): end the access there too", err=True)
    else:
        typer.echo("its provider revoked the token")


def _wake(config: Config, name: str) -> str:
    """Have a running gateway look at its servers again, and return what to say about it."""
    if name not in config.servers:
        return ""
    try:
        rewrite(config.path, {}, touch=True)
    except (OSError, EditRefused):
        return "; a running gateway notices it at the next edit of its config, which this user may not write"
    return "; a running gateway applies it"


def _set(path: ConfigOption, name: str, key: str, value: bool, state: str) -> None:
    config = sound_config(path)
    server = config.servers[known_server(config.servers, name)]
    if getattr(server, key) is value or not change_file(path, {"mcpServers": {name: {key: value}}}):
        typer.echo(f"nothing to do: server {as_code(name)} {state}")
        return
    record_edit(config, f"servers {_COMMANDS[key, value]}")
    typer.echo(f"server {as_code(name)} {state} now: `{key}: {str(value).lower()}` in `{escape(str(path))}`")


def _cell(value: str | bool) -> str:
    return value if isinstance(value, str) else "yes" if value else "no"
