"""`callability setup`, `import`, `install`, `uninstall`: from the configs of clients to one gateway, and back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from callability.cli.gateway_files import GivenConfigOption, record_edit, sound_files
from callability.cli.options import escape, leave, number_of, refuse
from callability.contract.finding import as_code, did_you_mean, list_names
from callability.files.editing import ChangedMeanwhile
from callability.gateway.config.config import (
    Config,
    ConfigRefused,
    NoConfig,
    is_found_without_option,
    load_config,
    new_config,
)
from callability.gateway.config.variables import SECRETS_FILE
from callability.setup import plan
from callability.setup.client_file import Unusable
from callability.setup.clients import CLIENTS, McpClient, client_named
from callability.setup.secret_values import needed_variables
from callability.setup.translation import Surroundings, is_ours
from callability.setup.undo import plan_undo, write_undo
from callability.setup.writing import record_of, write_plan

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be done; write and start nothing.")]
ClientArgument = Annotated[
    str, typer.Argument(metavar="CLIENT", help=f"One of {', '.join(client.name for client in CLIENTS)}.")
]


class SecretsPlace(StrEnum):
    """Where the secrets of clients' configs go."""

    FILE = "file"
    KEYRING = "keyring"


SecretsOption = Annotated[
    SecretsPlace,
    typer.Option(
        "--secrets",
        help="Where secrets go: to `secrets.env` beside the config, or to the keyring of the system, which needs the"
        " package `keyring`.",
    ),
]
ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project",
        metavar="DIR",
        help="Read the clients' files of this project too. Its servers are for an agent of their own.",
    ),
]
StoreVariablesOption = Annotated[
    bool,
    typer.Option(
        "--store-variables",
        help="Store the values of environment variables that servers need with the secrets: then these servers load"
        " too if a client without the variables starts the gateway.",
    ),
]
_NOTHING = "nothing was changed"


def setup(
    config: GivenConfigOption = None,
    project: ProjectOption = None,
    secrets: SecretsOption = SecretsPlace.FILE,
    store_variables: StoreVariablesOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore the clients' configs, and remove what was stored; it asks too.")
    ] = False,
) -> None:
    """Put one gateway between the MCP clients of this machine and their servers.

    Find the configs of the clients, print one plan, ask once, write the config of the gateway, put one entry in place
    of the servers in each client's config, and start each server once. Each client becomes an agent that sees the
    servers that it had. A secret in a client's file goes to `secrets.env` beside the config. A client whose config
    cannot be used stays as it is, and the others are set up. Exit code 0: done, or nothing to do. 1: a file cannot be
    used, or was not written. 2: usage error.
    """
    path = _config(config)
    if undo:
        _undo(path, None, "setup --undo", yes=yes, dry_run=dry_run)
        return
    sources, unusable = plan.sources_of(CLIENTS, Path.home())
    if project is not None:
        more, also_unusable = plan.sources_of(CLIENTS, Path.home(), project.resolve())
        sources, unusable = (*sources, *more), (*unusable, *also_unusable)
    sources = tuple(
        source for source in sources if source.file.servers or any(plan.servers_of_projects(source, sources))
    )
    made, unchangeable = _plan_usable(sources, path, storing=store_variables)
    unusable = (*unusable, *unchangeable)
    for line in unusable:
        typer.echo(f"left as it is: {escape(line)}", err=True)
    if made.sources:
        _carry_out(made, "setup", secrets, yes=yes, dry_run=dry_run, starting=True)
    elif not unusable:
        typer.echo("nothing to do: no MCP client of this machine has a server in its config; `callability import FILE`")
    if unusable:
        leave(f"{number_of(len(unusable), 'file')} cannot be used: correct what is named above, and run this again", 1)


def _plan_usable(
    sources: tuple[plan.ServerSource, ...], path: Path, *, storing: bool
) -> tuple[plan.Plan, tuple[str, ...]]:
    """Return the plan for the files that can be changed, and why others cannot."""
    why: tuple[str, ...] = ()
    while True:
        try:
            return _make_plan(sources, path, installing=True, storing=storing, all_of_them=False), why
        except plan.UnusableSource as error:
            why = (*why, str(error))
            sources = tuple(each for each in sources if each.file.path != error.source.file.path)


def import_servers(
    source: Annotated[
        str, typer.Argument(metavar="FILE|CLIENT", help="A config of a client, or the name of a client.")
    ],
    config: GivenConfigOption = None,
    client: Annotated[
        str, typer.Option("--client", metavar="CLIENT", help="The client whose form FILE has. Default: as it looks.")
    ] = "",
    agent: Annotated[
        str,
        typer.Option("--agent", metavar="NAME", help="The agent that gets the servers. Default: the client."),
    ] = "",
    project: ProjectOption = None,
    secrets: SecretsOption = SecretsPlace.FILE,
    store_variables: StoreVariablesOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Take the servers of a client's config into that of the gateway; the client's config stays as it is.

    Exit code 0: done, or nothing to do. 1: a file cannot be used, or was not written. 2: usage error.
    """
    path = _config(config)
    known = client_named(source)
    if known is None and not Path(source).is_file():
        _leave_unknown(source, "is neither a file nor a client")
    try:
        if known is None:
            form = _client(client) if client else None
            sources: tuple[plan.ServerSource, ...] = (plan.source_of_file(Path(source).resolve(), form, agent),)
        else:
            sources = _sources(known, project, missing=False)
    except Unusable as error:
        leave(escape(str(error)), 1)
    made = _make_plan(sources, path, installing=False, storing=store_variables)
    _carry_out(made, "import", secrets, yes=yes, dry_run=dry_run)


def install(
    client: ClientArgument,
    config: GivenConfigOption = None,
    server: Annotated[
        list[str] | None,
        typer.Option("--server", metavar="NAME", help="A server of the gateway that the client gets; may be repeated."),
    ] = None,
    project: ProjectOption = None,
    secrets: SecretsOption = SecretsPlace.FILE,
    store_variables: StoreVariablesOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Put the entry of the gateway in place of the servers in a client's config, and take these into the gateway.

    Exit code 0: done, or nothing to do. 1: a file cannot be used, or was not written. 2: usage error.
    """
    path = _config(config)
    known = _client(client)
    if known.cannot_be_installed:
        leave(f"{known.title} cannot be installed: {known.cannot_be_installed}", 2)
    sources = _sources(known, project, missing=True)
    made = _make_plan(sources, path, installing=True, storing=store_variables, granted=server or ())
    _carry_out(made, "install", secrets, yes=yes, dry_run=dry_run)


def uninstall(
    client: ClientArgument, config: GivenConfigOption = None, yes: YesOption = False, dry_run: DryRunOption = False
) -> None:
    """Restore the config of a client, and remove its agent; the servers stay in the config of the gateway.

    It prints what will be done, and asks once.
    Exit code 0: done, or nothing to do. 1: a file cannot be used, or was not written. 2: usage error.
    """
    _undo(_config(config), _client(client), "uninstall", yes=yes, dry_run=dry_run)


def _config(given: Path | None) -> Path:
    try:
        return given or new_config()
    except NoConfig as error:
        leave(str(error), 2)
    except ConfigRefused as refused:
        refuse(refused.findings, "the config is refused")


def _client(name: str) -> McpClient:
    found = client_named(name)
    if found is None:
        _leave_unknown(name, "is no client that is known")
    return found


def _leave_unknown(name: str, what: str) -> NoReturn:
    names = [client.name for client in CLIENTS]
    leave(f"{as_code(name)} {what} ({did_you_mean(name, names)})", 2)


def _sources(client: McpClient, project: Path | None, *, missing: bool) -> tuple[plan.ServerSource, ...]:
    where = project.resolve() if project else None
    sources, unusable = plan.sources_of((client,), Path.home(), where, missing=missing)
    if unusable:
        leave(escape(unusable[0]), 1)
    if not sources:
        places = list_names(str(place) for place in client.files(Path.home()))
        leave(f"{client.title} has no config here: looked for {places}", 1)
    return sources


def _make_plan(
    sources: Sequence[plan.ServerSource],
    path: Path,
    *,
    installing: bool,
    storing: bool,
    granted: Sequence[str] = (),
    all_of_them: bool = True,
) -> plan.Plan:
    # A client starts the gateway with an environment of its own.
    options = () if is_found_without_option(path.absolute()) else ("--config", str(path.absolute()))
    try:
        return plan.plan(
            sources,
            path.absolute(),
            Surroundings(Path.home(), dict(os.environ), storing),
            _executable(),
            installing=installing,
            granted=granted,
            options=options,
            all_of_them=all_of_them,
        )
    except Unusable as error:
        if isinstance(error, plan.UnusableSource) and not all_of_them:
            raise
        _leave_with_lines(error)


def _leave_with_lines(error: Unusable) -> NoReturn:
    for line in str(error).splitlines():
        typer.echo(escape(line), err=True)
    leave(_NOTHING, 1)


def _executable() -> tuple[str, ...]:
    """Return what starts this command from anywhere."""
    called = Path(sys.argv[0])
    if called.name == "callability" and called.is_file():
        return (str(called.absolute()),)
    beside = Path(sys.executable).with_name("callability")
    return (str(beside),) if beside.is_file() else (sys.executable, "-m", "callability")


def _carry_out(
    made: plan.Plan, command: str, secrets: SecretsPlace, *, yes: bool, dry_run: bool, starting: bool = False
) -> None:
    for line in _lines(made, secrets):
        typer.echo(line)
    served = any(is_ours(entry) for source in made.sources for entry in source.file.servers.values())
    if made.before is None and served and record_of(made.config).exists():
        again = "run `callability setup --undo`, which restores the clients' configs, and then `callability setup`"
        leave(f"`{escape(str(made.config))}` is gone, and clients are set up by it: {again}", 1)
    if made.is_empty:
        typer.echo("nothing to do")
        return
    if dry_run:
        typer.echo("dry run: nothing was written or started")
        return
    if not yes and not typer.confirm("Write this?"):
        leave(_NOTHING, 1)
    before = _read(made.config)
    try:
        write_plan(made, in_keyring=secrets is SecretsPlace.KEYRING)
    except ChangedMeanwhile as changed:
        leave(f"{escape(str(changed))}: was changed meanwhile; {_NOTHING}: run this again", 1)
    except Unusable as error:
        leave(escape(str(error)), 1)
    except OSError as error:
        what = f"`{escape(str(error.filename))}` cannot be written: {(error.strerror or 'error').lower()}"
        leave(f"{what}; `callability setup --undo` restores what was written", 1)
    if before is not None:
        record_edit(before, command)
    typer.echo(f"written: {escape(str(made.config))}")
    if starting:
        _start_each(made)
    _report_next(made)


def _read(config: Path) -> Config | None:
    """Return a config as it is before a command edits it; None if it has errors, or there is none."""
    try:
        return load_config(config)
    except ConfigRefused:
        return None


def _lines(made: plan.Plan, secrets: SecretsPlace) -> Iterator[str]:
    if sys.platform != "linux":
        yield "the paths of this platform are from the clients' documentation, and have not been run"
    yield f"config   {escape(str(made.config))}" + (" (new)" if made.before is None else "")
    if made.secrets:
        where = f"`{SECRETS_FILE}` beside it, which only you can read"
        where = "the keyring of the system" if secrets is SecretsPlace.KEYRING else where
        yield f"secrets  {number_of(len(made.secrets), 'value')} to {where}"
    for source in made.sources:
        yield ""
        yield f"{source.client.title}  {escape(str(source.file.path))}"
        lines = [*_source_lines(made, source)]
        if not lines:
            is_set_up = any(map(is_ours, source.file.servers.values()))
            lines = ["is set up already: it has the entry of the gateway" if is_set_up else "has no server"]
        yield from (f"  {line}" for line in lines)
    if made.before is not None and made.new_servers:
        yield ""
        yield "a gateway that is started without `--agent` shows the new servers too"
    enabled = (entry for entry in made.new_servers.values() if entry.get("enabled") is not False)
    if needed := dict.fromkeys(name for entry in enabled for name in needed_variables(entry)):
        yield ""
        yield f"warning: servers do not load without {list_names(needed)} in the environment of the gateway"
        yield "a client that the desktop starts may lack such variables: `--store-variables` stores their values"
    missing = [f"{as_code(command)} of {name}" for name, command in plan.missing_commands_of(made.taken, os.environ)]
    if missing:
        yield f"not found on this PATH: {', '.join(missing)}"


def _source_lines(made: plan.Plan, source: plan.ServerSource) -> Iterator[str]:
    for server in (each for each in made.taken if each.source == source):
        as_name = "" if server.name == server.given else f" as {server.name}"
        shared = "which another client has too" if server.name in made.new_servers else "which the gateway has"
        known = "" if server.is_new else f", {shared}"
        yield f"takes {as_code(server.given)}{as_name}{known}" + "".join(f"; {note}" for note in server.notes)
    for kept in (each for each in made.kept if each.source == source):
        yield f"leaves {as_code(kept.given)} to the client: {kept.reason}"
    for project, names in plan.servers_of_projects(source, made.sources):
        what = f"leaves {list_names(names)} of the project {as_code(project)} to the client"
        yield f"{what}: `--project DIR` takes what a project has, for an agent of its own"
    if left := source.client.dialect.approvals_left:
        yield f"its approvals are not taken: {left}"
        yield "all its tools are pending: `callability approvals approve SERVER` shows and approves them"
    agent = made.agents.get(source.agent, ())
    if source.agent in made.new_agents or agent:
        yield f"agent {source.agent} gets {', '.join(agent) or 'no server'}"
    if source.client.cannot_be_installed:
        yield f"stays as it is: {source.client.cannot_be_installed}"
    elif source.file.path in made.installed:
        yield f"entry {plan.entry_name_of(source)}: {escape(' '.join(made.commands[source.agent]))}"
        yield "gains search, approvals and reasons; its own dialogs and lists see the gateway's tools, not single ones"
        if source.client.limit:
            yield f"its limit counts the gateway's tools alone: {source.client.limit}"
        if plan.is_running(source.client):
            yield f"runs now: it may write its config when it ends; afterwards: {source.client.reload}"


def _start_each(made: plan.Plan) -> None:
    """Start the servers of the plan once, and report which load."""
    # It imports the MCP SDK, which takes longer than the plan.
    from callability.cli.inventory import inspect_servers  # noqa: PLC0415

    names = list(dict.fromkeys(server.name for server in made.taken))
    files = sound_files(made.config, None)
    for warning in files.config.warnings:
        typer.echo(str(warning), err=True)
    found = inspect_servers(files, names) if names else {}
    failed = [name for name, each in found.items() if each.failure]
    typer.echo(f"{len(found) - len(failed)} of {number_of(len(found), 'server')} loaded")
    if off := [name for name in names if name not in found]:
        typer.echo(f"switched off, and not started: {list_names(off)}")
    if failed:
        typer.echo(f"did not load: {list_names(failed)}; `callability servers show NAME` shows how each is reached")


def _report_next(made: plan.Plan) -> None:
    for source in made.sources:
        if source.file.path in made.installed:
            typer.echo(f"next: {source.client.title}: {source.client.reload}")
    typer.echo("next: `callability approvals list` connects the servers, and shows their tools")
    typer.echo("to undo all of it: callability setup --undo")


def _undo(config: Path, client: McpClient | None, command: str, *, yes: bool, dry_run: bool) -> None:
    try:
        undo = plan_undo(config.absolute(), client.name if client else "")
    except Unusable as error:
        _leave_with_lines(error)
    if not undo.lines:
        what = f"{client.title} is not installed" if client else "nothing was set up, or all of it was undone"
        typer.echo(f"nothing to undo: {what}, by the record beside {escape(str(config))}")
        return
    for line in undo.lines:
        typer.echo(escape(line))
    if dry_run:
        typer.echo("dry run: nothing was written")
        return
    if not yes and not typer.confirm("Write this?"):
        leave(_NOTHING, 1)
    before = _read(config.absolute())
    try:
        write_undo(config.absolute(), undo)
    except Unusable as error:
        leave(escape(str(error)), 1)
    except OSError as error:
        leave(f"`{escape(str(error.filename))}` cannot be written: {(error.strerror or 'error').lower()}", 1)
    if before is not None:
        record_edit(before, command)
    typer.echo("undone")
