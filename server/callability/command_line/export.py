"""`callability policy export`: writes the shipped policy out to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.options import leave
from callability.policy.shipped import export_policy


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; it is made if it is not there.")],
) -> None:
    """Write the shipped policy into a directory, to edit it there. A file that is there already is never overwritten.

    Exit code 0: written. 1: it could not be.
    """
    try:
        for path in export_policy(directory):
            typer.echo(str(path))
    except FileExistsError as error:
        leave(f"{error}; nothing was written", 1)
    except OSError as error:
        leave(f"`{error.filename}` cannot be written: {(error.strerror or 'error').lower()}", 1)
