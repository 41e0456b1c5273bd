"""`callability connect` and `page`: join the gateway that the user runs, and open the page that unlocks tools.

A call with `--agent` and `--config` alone does not come here: `callability.connect` answers it.
"""

from __future__ import annotations

import os
from typing import Annotated, NoReturn

import typer

from callability.cli.gateway_files import ConfigOption, sound_config
from callability.cli.options import leave
from callability.connect.installation import Installation, NotInstalled
from callability.connect.joining import JoinRefused, MeetingPlace, NotJoined, default_config, join, join_for_client
from callability.contract.finding import as_code


def page(config: ConfigOption) -> None:
    """Open the page on which people look at the gateway of this user, and unlock tools.

    The gateway is started if it does not run. The URL is written to standard output, and a code to the terminal, for
    one browser. A URL alone opens nothing: without a terminal, as in the shell of an agent, there is no code. Exit code
    0: the code is on the terminal. 1: there is no terminal, or no gateway.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        leave("there is no terminal on which the code can be shown: run this command in a terminal yourself", 1)
    # Linux says by itself which terminal it is.
    name = next((os.ttyname(number) for number in range(3) if os.isatty(number)), "")
    try:
        joined = join(MeetingPlace(str(config)), f"page {name}")
    except JoinRefused as error:
        leave(f"the page is not opened: {error}", 1)
    except NotJoined as error:
        leave(str(error), 1)
    joined.connection.close()
    typer.echo(joined.words)


AgentOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The agent of the config that the client is. Default: one that sees every server."
    ),
]
InstallOption = Annotated[
    bool, typer.Option("--install", help="Have systemd or launchd start the gateway, instead of the first client.")
]
UninstallOption = Annotated[bool, typer.Option("--uninstall", help="Undo `--install`.")]


def connect(
    config: ConfigOption, agent: AgentOption = "", install: InstallOption = False, uninstall: UninstallOption = False
) -> None:
    """Join the gateway that this user runs, as an agent over stdio.

    A client starts this command as an MCP server. All clients of a user share one gateway for each config, and each
    server runs once. The first client starts the gateway, which exits ten minutes after the last one has gone. Its log
    is in `~/.local/state/callability/run`. The name of an agent gives it the scope of that agent and proves nothing:
    any process of this user can give any name. Exit code 0: the client has closed the connection. 1: there is no
    gateway and none can be started, or it ended. 2: usage error, or the config has no such agent.
    """
    if install and uninstall:
        leave("`--install` and `--uninstall` exclude each other", 2)
    if not install and not uninstall:
        raise typer.Exit(join_for_client(agent, str(config)))
    if agent:
        leave("`--agent` goes with neither `--install` nor `--uninstall`: one gateway serves every agent", 2)
    installation = Installation(config, is_default=str(config) == default_config())
    try:
        if uninstall:
            _uninstall(installation)
        sound_config(config)
        installation.install()
    except NotInstalled as error:
        leave(str(error), 1)
    except OSError as error:
        leave(f"{as_code(str(error.filename))} cannot be written: {(error.strerror or 'error').lower()}", 1)
    for path in installation.files:
        typer.echo(f"wrote {as_code(str(path))}")
    typer.echo("clients join by `callability connect --agent NAME`")


def _uninstall(installation: Installation) -> NoReturn:
    removed = installation.uninstall()
    typer.echo(f"removed the service `{installation.name}`" if removed else "nothing to do: no service is installed")
    raise typer.Exit
