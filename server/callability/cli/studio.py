"""`callability studio`: serve a page for viewing and editing a policy."""

from __future__ import annotations

import asyncio
import webbrowser
from typing import Annotated

import typer

from callability.cli.options import LogLevel, LogLevelOption, PolicyOption, leave
from callability.files.policy_source import source_in
from callability.files.shipped_policy import shipped_policy
from callability.process.address import AddressRefused
from callability.process.logs import log_to_standard_error
from callability.studio.application import run


def studio(
    policy: PolicyOption = None,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="127.0.0.1:PORT or [::1]:PORT; port 0 selects a free one.")
    ] = "127.0.0.1:0",
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Serve a local page for viewing a policy, trying facts and editing: nothing is written until you save.

    The shipped policy cannot be saved: export it first (`callability policy export DIR`). The URL is written to
    standard output. Exit code 0: ended by SIGTERM or SIGINT. 1: the directory cannot be read. 2: the address is
    refused.
    """
    log_to_standard_error(log_level)
    directory = policy or shipped_policy()
    if not directory.is_dir():
        leave(str(source_in(directory).findings[0]), 1)

    def print_start(url: str) -> None:
        typer.echo(f"listening on {url}")
        if open_browser:
            webbrowser.open(url)

    try:
        asyncio.run(run(directory.resolve(), address, print_start, writable=policy is not None))
    except AddressRefused as error:
        leave(str(error), 2)
