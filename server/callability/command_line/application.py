"""The commands, and what they have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from callability import __version__
from callability.command_line import approvals, servers
from callability.command_line.check import check
from callability.command_line.explain import explain
from callability.command_line.export import export
from callability.command_line.gateway import gateway
from callability.command_line.schema import config
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
_servers = typer.Typer(help="The servers of a gateway's config, for the person who keeps it.", no_args_is_help=True)
_approvals = typer.Typer(help="What a person decides about single tools of a gateway.", no_args_is_help=True)
_schema = typer.Typer(help="What files may hold, for editors.", no_args_is_help=True)


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
_servers.command("list")(servers.list_servers)
_servers.command()(servers.enable)
_servers.command()(servers.disable)
_servers.command()(servers.quarantine)
_servers.command()(servers.release)
application.add_typer(_servers, name="servers")
_approvals.command("list")(approvals.list_approvals)
_approvals.command()(approvals.show)
_approvals.command()(approvals.approve)
_approvals.command()(approvals.disable)
_approvals.command()(approvals.enable)
application.add_typer(_approvals, name="approvals")
_schema.command()(config)
application.add_typer(_schema, name="schema")


def main() -> None:
    """Run the command that the arguments name, and leave with its exit code."""
    application()
