"""Options that several commands have, and how they log and leave."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from callability.finding import line
from callability.policy.loading import Policy, PolicyRefused, load
from callability.policy.shipped import shipped_policy


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", metavar="DIR", help="The directory of the policy. Left out: the shipped one."),
]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="How much is logged to standard error.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]


def log_to_standard_error(level: LogLevel) -> None:
    """Send every log record of at least a level to standard error."""
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=level.upper(), format=form, force=True)


def loaded(directory: Path | None) -> Policy:
    """Return the policy in a directory, or leave with exit code 1 and its findings on standard error."""
    try:
        policy = load(directory or shipped_policy())
    except PolicyRefused as error:
        for finding in error.findings:
            typer.echo(line(finding), err=True)
        leave("the policy is refused", 1)
    for finding in policy.warnings:
        logging.getLogger(__name__).warning("%s", finding)
    return policy


def leave(message: str, code: int) -> NoReturn:
    """Write an error to standard error and leave with an exit code: 1 a refusal, 2 a wrong call."""
    typer.echo(f"callability: {message}", err=True)
    raise typer.Exit(code)
