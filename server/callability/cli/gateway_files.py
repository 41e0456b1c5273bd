"""The gateway's two files, config and approvals, for the commands that edit them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from callability.cli.options import escape, leave, print_findings, refuse
from callability.contract.finding import Severity, as_code, no_such
from callability.contract.vocabulary import unrecordable
from callability.files import document
from callability.files.editing import EditRefused, rewrite
from callability.files.spelling import Tree
from callability.gateway.config.approvals import DEFAULT_APPROVALS, NO_APPROVALS, Approvals, load_approvals
from callability.gateway.config.changes import Decided, config_changes
from callability.gateway.config.config import Config, ConfigRefused, NoConfig, default_config, load_config
from callability.gateway.config.model import AgentConfig
from callability.records.format import By, Change
from callability.records.recorder import Recorder, RecordLevel, RecordOptions
from callability.records.writer import STANDARD_OUTPUT, Destination, DestinationRefused

_CONFIG_HELP = (
    "The config of the gateway. Default: `$CALLABILITY_CONFIG`, or else `gateway.yaml` or `gateway.json` in"
    " `~/.config/callability`."
)


def _given_or_default(context: typer.Context, given: Path | None) -> Path | None:
    """Return the config of the call or the default one, or exit with code 2 if there is none and 1 if there are two."""
    if given is not None or context.resilient_parsing:
        return given
    try:
        return config_or_default(None)
    except ConfigRefused as refused:
        refuse(refused.findings, "the config is refused")


def config_or_default(given: Path | None) -> Path:
    """Return the config of the call or the default one, or exit with code 2 if there is none.

    Raises:
        ConfigRefused: there are two in the default place.
    """
    try:
        return given or default_config()
    except NoConfig as error:
        leave(str(error), 2)


def _not_given() -> None:
    """Stand for an option that is left out."""


ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config",
        metavar="FILE",
        help=_CONFIG_HELP,
        default_factory=_not_given,
        callback=_given_or_default,
        show_default=False,
    ),
]
GivenConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help=_CONFIG_HELP)]
ApprovalsOption = Annotated[
    Path | None,
    typer.Option(
        "--approvals",
        metavar="FILE",
        help="The approval records. Default: those that the config names, or else `approvals.yaml` beside it.",
    ),
]
GivenApprovalsOption = Annotated[
    Path | None,
    typer.Option("--approvals", metavar="FILE", help="The approval records. Default: those that the config names."),
]


@dataclass(frozen=True, slots=True)
class GatewayFiles:
    """A valid config and its approvals; there are none if neither the config nor the call names a file."""

    config: Config
    path: Path
    approvals: Approvals
    named: bool
    given: Path | None
    """The approvals file that the call names, if any."""

    def change(self, tree: Tree) -> None:
        """Set values of the approvals, or exit with code 1.

        A config that names no approvals gets the entry. An existing record can be changed under any name; a new record
        needs a name that a person can read in the file.
        """
        for server, tools in tree.items():
            for tool in tools if isinstance(tools, Mapping) else ():
                self.check_recordable(server, tool)
        kept = not self.named and self.path.exists()
        change_file(self.path, tree, create=not self.named)
        decisions = ((_COMMANDS[change], change, about) for change, about in _decisions(tree))
        _record(self.config, self.path, decisions)
        if not self.named:
            change_file(self.config.path, {"approvals": DEFAULT_APPROVALS})
            others = ", which had records already" if kept else ""
            typer.echo(f"added `approvals: {DEFAULT_APPROVALS}` to the config: the gateway now uses this file{others}")

    def check_recordable(self, server: str, tool: str) -> None:
        """Exit with code 1 if a tool has no record and its name is not fit for one."""
        why = unrecordable(tool)
        if why and self.approvals.record(server, tool) is None:
            leave(f"tool {as_code(tool)} of server {as_code(server)} cannot have a record: {why}", 1)


_COMMANDS = {
    Change.APPROVAL: "approvals approve",
    Change.BLOCK: "approvals disable",
    Change.UNBLOCK: "approvals enable",
}
"""The command that makes each change of the approvals."""


def _decisions(tree: Tree) -> Iterator[Decided]:
    """Yield what values of approvals decide, each with what it is about."""
    for server, tools in tree.items():
        for tool, values in tools.items() if isinstance(tools, Mapping) else ():
            about: Mapping[str, object] = {"server": server, "tool": tool}
            if isinstance(values, Mapping) and "disabled" in values:
                yield Change.BLOCK if values["disabled"] else Change.UNBLOCK, about
            elif isinstance(values, Mapping):
                yield Change.APPROVAL, {**about, "after": values.get("sha256")}


def records_of(config: Config) -> RecordOptions | None:
    """Return where the records of a gateway with a config go; None if it asks for none."""
    wanted = config.records
    if wanted is None:
        return None
    place = wanted.to if wanted.to == STANDARD_OUTPUT else str(config.path.absolute().parent / wanted.to)
    return RecordOptions(Destination(place, wanted.mib * 1024 * 1024, wanted.days), RecordLevel(wanted.level))


def record_edit(before: Config, command: str) -> None:
    """Record what the command that runs has changed in a config, beside the records of the gateway."""
    if before.records is None:
        return
    try:
        changes = config_changes(before, load_config(before.path))
    except ConfigRefused:
        typer.echo("callability: the change is not recorded: the config has errors by now", err=True)
    else:
        _record(before, before.path, ((command, change, about) for change, about in changes))


def _record(config: Config, file: Path, changes: Iterable[tuple[str, Change, Mapping[str, object]]]) -> None:
    """Record changes of a file, each with the command that made it."""
    options = records_of(config)
    changed = tuple(changes)
    if options is None or options.destination.is_standard_output or not changed:
        return
    try:
        options.destination.check()
        digest = document.digest(document.read_bytes(file))
    except (DestinationRefused, document.Refused) as error:
        typer.echo(f"callability: the change is not recorded: {error}", err=True)
        return
    recorder = Recorder(options, By.COMMAND)
    for command, change, about in changed:
        recorder.record_change(change, command=f"callability {command}", user=os.getuid(), file=digest, **about)
    recorder.close()
    if recorder.writer.dropped:
        typer.echo("callability: the change is not recorded: the records cannot be written", err=True)


def sound_config(path: Path) -> Config:
    """Return a config, or print its findings to standard error and exit with code 1."""
    try:
        return load_config(path)
    except ConfigRefused as refused:
        refuse(refused.findings, "the config is refused")


def sound_files(config_path: Path, approvals: Path | None) -> GatewayFiles:
    """Return the two files, or print their findings to standard error and exit with code 1."""
    config = sound_config(config_path)
    path = approvals or config.approvals
    named = path is not None
    path = path or config_path.with_name(DEFAULT_APPROVALS)
    records = load_approvals(path) if named or path.exists() else NO_APPROVALS
    if not records.readable:
        errors = [replace(finding, severity=Severity.ERROR) for finding in records.warnings]
        refuse(errors, "the approvals are refused; a file without records holds `{}`")
    return GatewayFiles(config, path, records if named else NO_APPROVALS, named, approvals)


def print_refused(refused: ConfigRefused) -> None:
    """Print the findings of a config that does not load."""
    print_findings(refused.findings)
    typer.echo("callability: the config is refused", err=True)


def known_server(servers: Collection[str], name: str) -> str:
    """Return the name of a server if the config has it, or exit with code 2."""
    if name not in servers:
        leave(no_such("the config has no server", name, servers), 2)
    return name


def known_agent(config: Config, name: str) -> AgentConfig:
    """Return an agent of the config, or exit with code 2."""
    if name not in config.agents:
        leave(no_such("the config has no agent", name, config.agents), 2)
    return config.agents[name]


def change_file(path: Path, tree: Tree, *, create: bool = False, touch: bool = False) -> bool:
    """Set values of a file and return whether it changed, or exit with code 1; `touch`: write it in any case."""
    with refusing_edits(path):
        return rewrite(path, tree, create=create, touch=touch)


@contextmanager
def refusing_edits(path: Path) -> Iterator[None]:
    """Exit with code 1 if a file cannot be edited as it is in this context."""
    try:
        yield
    except document.Refused as refused:
        refuse(refused.findings, "nothing was changed")
    except EditRefused as refused:
        leave(str(refused), 1)
    except OSError as error:
        leave(f"`{escape(str(path))}` cannot be written: {(error.strerror or 'error').lower()}", 1)
