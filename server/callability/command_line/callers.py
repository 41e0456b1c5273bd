"""`callability callers`: check a callers file, and write an entry for a new token."""

from __future__ import annotations

import hashlib
import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.options import leave, print_findings, refuse
from callability.command_line.terminal import number_of
from callability.service.callers.callers_file import CallersRefused, load_callers

_TOKEN_BYTES = 32


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The callers file.")],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the file for a warning too.")] = False,
) -> None:
    """Check the callers file of a service, and print its findings.

    Exit code 0: no errors. 1: the file is refused. 2: usage error.
    """
    try:
        callers = load_callers(file)
    except CallersRefused as refused:
        refuse(refused.findings, "the callers are refused")
    print_findings(callers.warnings)
    if strict and callers.warnings:
        leave("the callers are refused: a warning is an error with `--strict`", 1)
    for caller in callers.every:
        known = f"{number_of(len(caller.tokens), 'token')}, {number_of(len(caller.certificates), 'certificate name')}"
        typer.echo(f"{caller.name}: {known}; may call {', '.join(sorted(caller.rights)) or 'nothing'}")


def token(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file that is written; it must not exist.")],
    days: Annotated[int, typer.Option(metavar="NUMBER", min=1, max=3_650, help="Days until the token expires.")] = 90,
) -> None:
    """Write a new token to a file that only its owner can read, and print its entry for the callers file.

    The service knows the token by its SHA-256 alone. Exit code 0: written. 1: the file exists or cannot be written. 2:
    usage error.
    """
    made = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
            stream.write(f"{made}\n")
    except OSError as error:
        leave(f"`{file}` cannot be written: {(error.strerror or 'error').lower()}", 1)
    expires = (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    typer.echo(f'- {{sha256: "{hashlib.sha256(made.encode()).hexdigest()}", expires: "{expires}"}}')
