"""`callability page`: open the page on which people unlock tools."""

from __future__ import annotations

import os

import typer

from callability.cli.gateway_files import ConfigOption
from callability.cli.options import leave
from callability.connect.joining import Refused, join
from callability.connect.meeting_place import MeetingPlace, NotJoined


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
    except Refused as error:
        leave(f"the page is not opened: {error}", 1)
    except NotJoined as error:
        leave(str(error), 1)
    joined.connection.close()
    typer.echo(joined.words)
