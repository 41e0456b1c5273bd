"""`callability studio`: serve a page for viewing and editing a policy."""

from __future__ import annotations

import asyncio
import webbrowser
from typing import Annotated

import typer

from callability.address import AddressRefused
from callability.command_line.options import LogLevel, LogLevelOption, PolicyOption, leave, log_to_standard_error
from callability.finding import shown
from callability.policy.shipped import shipped_policy
from callability.studio.serving import run


def studio(
    policy: PolicyOption = None,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="127.0.0.1:PORT or [::1]:PORT; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Serve a page on loopback to look at a policy, to try facts, and to edit it: nothing is written unless asked.

    The policy that comes with the program can be looked at, and edited for trial; to save an edit, export it first
    (`callability policy export DIR`). The URL is written to standard output. It ends at SIGTERM or SIGINT. Exit code 0:
    ended by a signal. 1: the directory cannot be read. 2: the address is refused.
    """
    log_to_standard_error(log_level)
    directory = policy or shipped_policy()
    if not directory.is_dir():
        leave(f"{shown(str(directory))} is not a directory that can be read", 1)

    def started(url: str) -> None:
        typer.echo(f"listening on {url}")
        if open_browser:
            webbrowser.open(url)

    try:
        asyncio.run(run(directory.resolve(), address, started, writable=policy is not None))
    except AddressRefused as error:
        leave(str(error), 2)
