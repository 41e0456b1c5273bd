"""The command line: a call imports only the module of the command that it names."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, NoReturn

import typer

import callability
from callability.command_line.commands import BASE, COMMANDS, Command, Group
from callability.command_line.completion import line_to_complete
from callability.command_line.extras import refuse_without_extra
from callability.command_line.standard_streams import run_guarded

_HELP = ("-h", "--help")
_READS_YAML = "ruamel"
WithoutExtra = Callable[[str, str, ImportError], Callable[..., None]]
"""What becomes of a command, by its name and its extra, if importing it failed."""


def application(arguments: Sequence[str], without_extra: WithoutExtra = refuse_without_extra) -> typer.Typer:
    """Return the command line for a call with these arguments.

    Every command is in it, so that help lists them all; only the one that the arguments name can be run.
    `without_extra` returns the function of a command whose extra is not installed.

    Raises:
        SystemExit: the extra that the command needs is not installed, and `without_extra` is the default.
    """
    made = typer.Typer(
        name="callability",
        help="Say why an AI agent cannot call a tool that exists, and what it should tell its user.",
        epilog="Exit code 0: done. 1: a file is refused, or something failed. 2: usage error. Each command's help has"
        " the details.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": [*_HELP]},
    )
    made.callback()(_common)
    _add(made, COMMANDS, _named(arguments), (), without_extra, helping=not {*arguments}.isdisjoint(_HELP))
    return made


def main() -> NoReturn:
    """Run the command that the arguments name, and exit with its exit code."""
    run_guarded(_run)


def _run() -> None:
    # gRPC writes lines of its own to standard error, beside the log and in another form.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Imports make very many objects that stay: to look for garbage among them takes a sixth of the time of a start.
    gc.disable()
    line = line_to_complete(os.environ)
    command = application(sys.argv[1:]) if line is None else application(line, _nothing_to_complete)
    gc.freeze()
    gc.enable()
    command()


def _named(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the names at the start of the arguments, up to the first option; `--` is skipped."""
    names: list[str] = []
    for argument in arguments:
        if argument.startswith("-") and argument != "--":
            break
        names += [argument] if argument != "--" else []
    return tuple(names)


def _add(
    to: typer.Typer,
    commands: Mapping[str, Command | Group],
    named: Sequence[str],
    parents: tuple[str, ...],
    without_extra: WithoutExtra,
    *,
    helping: bool,
) -> None:
    for name, command in commands.items():
        wanted = named[:1] == (name,)
        if isinstance(command, Group):
            group = typer.Typer(help=command.summary, no_args_is_help=command.own is None)
            own = command.own if wanted and (not named[1:] or named[1] not in command.commands) else None
            # With one command it would not be a group without a callback.
            # The help of a group lists its commands, even if the extra of its own command is not installed.
            common = (
                _function(own, name, _nothing_of_its_own if helping else without_extra) if own else _nothing_in_common
            )
            group.callback(invoke_without_command=command.own is not None)(common)
            _add(group, command.commands, named[1:] if wanted else (), (*parents, name), without_extra, helping=helping)
            to.add_typer(group, name=name)
        else:
            function = _function(command, " ".join((*parents, name)), without_extra) if wanted else _not_named
            to.command(name, short_help=command.summary)(function)


def _function(command: Command, name: str, without_extra: WithoutExtra) -> Callable[..., None]:
    """Return the function of a command, or what `without_extra` makes of it if its extra is not installed."""
    module, _, function = command.place.partition(":")
    try:
        found: Callable[..., None] = getattr(import_module(f"callability.command_line.{module}"), function)
        # What reads YAML is imported with the first file that is read, which is too late to say which extra is missing.
        if command.extra != BASE and find_spec(_READS_YAML) is None:
            raise ModuleNotFoundError(f"No module named {_READS_YAML!r}", name=_READS_YAML)
    except ImportError as error:
        return without_extra(name, command.extra, error)
    return found


def _show_version(value: bool) -> None:  # typer calls it with the value
    if value:
        typer.echo(f"callability {callability.__version__}")
        raise typer.Exit


def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _nothing_in_common() -> None:
    pass


def _nothing_of_its_own(name: str, extra: str, error: ImportError) -> Callable[..., None]:
    return _nothing_in_common


def _nothing_to_complete(name: str, extra: str, error: ImportError) -> Callable[..., None]:
    """Return a command without options: a press of the tab key is no place for an error."""
    return _not_named


def _not_named() -> None:
    raise AssertionError("a command ran that the arguments did not name")
