"""The commands, and what they have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from callability import __version__
from callability.command_line.check import check
from callability.command_line.explain import explain
from callability.command_line.export import export
from callability.command_line.gateway import gateway
from callability.command_line.serve import serve

application = typer.Typer(
    name="callability",
    help="Says why an AI agent cannot call a tool that exists, and what it should tell its user.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_policy = typer.Typer(help="The policy that comes with the program.", no_args_is_help=True)


def _show_version(value: bool) -> None:  # typer calls it with the value
    if value:
        typer.echo(f"callability {__version__}")
        raise typer.Exit


@application.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


application.command()(check)
application.command()(explain)
application.command()(serve)
application.command()(gateway)
_policy.command()(export)
application.add_typer(_policy, name="policy")


def main() -> None:
    """Run the command that the arguments name, and leave with its exit code."""
    application()
