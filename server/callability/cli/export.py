"""`callability policy export`: write the shipped policy to a directory for editing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from callability.cli.options import leave
from callability.contract.finding import as_code, did_you_mean
from callability.files.shipped_policy import examples, export_policy


def export(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory to write to; it is created if needed.")
    ],
    example: Annotated[
        str | None,
        typer.Option(
            "--example",
            metavar="NAME",
            help=f"Write this example instead of the shipped policy: {', '.join(examples())}.",
        ),
    ] = None,
) -> None:
    """Write the shipped policy to a directory for editing. Existing files are never overwritten.

    Exit code 0: written. 1: it cannot be written. 2: there is no such example.
    """
    if example is not None and example not in examples():
        leave(f"there is no example {as_code(example)} ({did_you_mean(example, examples())})", 2)
    try:
        written = tuple(export_policy(directory, example))
    except FileExistsError as error:
        leave(f"{error}; nothing was written", 1)
    except OSError as error:
        leave(f"`{error.filename}` cannot be written: {(error.strerror or 'error').lower()}", 1)
    for path in written:
        typer.echo(str(path))
