"""The commands, and what they have in common."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Annotated

import typer

from callability import __version__

_COMMANDS = ("check", "test", "explain", "table", "diff", "inventory", "studio", "serve", "gateway")
"""Each is the function of its name in the module of its name."""
_GROUPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "policy": ("The policy that comes with the program.", {"export": "export:export"}),
    "servers": (
        "The servers of a gateway's config, for the person who keeps it.",
        {
            "list": "servers:list_servers",
            "enable": "servers:enable",
            "disable": "servers:disable",
            "quarantine": "servers:quarantine",
            "release": "servers:release",
        },
    ),
    "approvals": (
        "What a person decides about single tools of a gateway.",
        {
            "list": "approvals:list_approvals",
            "show": "approvals:show",
            "approve": "approvals:approve",
            "disable": "approvals:disable",
            "enable": "approvals:enable",
        },
    ),
    "schema": (
        "What files may hold, for editors.",
        {"config": "schema:config", "rules": "schema:rules", "tests": "schema:cases", "policy": "schema:every"},
    ),
}
"""For each group what it is about, and for each of its commands the module and the function."""


def application(wanted: Collection[str] = (*_COMMANDS, *_GROUPS)) -> typer.Typer:
    """Return the command line with some of its commands: what a command needs is imported when it is added."""
    made = typer.Typer(
        name="callability",
        help="Says why an AI agent cannot call a tool that exists, and what it should tell its user.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_common)
    for name in _COMMANDS:
        if name in wanted:
            _add(made, name, f"{name}:{name}")
    for name, (about, commands) in _GROUPS.items():
        if name in wanted:
            group = typer.Typer(help=about, no_args_is_help=True)
            # With one command it would not be a group without this.
            group.callback()(_nothing_in_common)
            for command, place in commands.items():
                _add(group, command, place)
            made.add_typer(group, name=name)
    return made


def main() -> None:
    """Run the command that the arguments name, and leave with its exit code."""
    named = {*sys.argv[1:2]} & {*_COMMANDS, *_GROUPS}
    # Imports make very many objects that stay: to look for garbage among them takes a sixth of the time of a start.
    gc.disable()
    command = application(named) if named else application()
    gc.freeze()
    gc.enable()
    command()


def _add(to: typer.Typer, name: str, place: str) -> None:
    module, _, function = place.partition(":")
    to.command(name)(getattr(import_module(f"callability.command_line.{module}"), function))


def _show_version(value: bool) -> None:  # typer calls it with the value
    if value:
        typer.echo(f"callability {__version__}")
        raise typer.Exit


def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def _nothing_in_common() -> None:
    pass
