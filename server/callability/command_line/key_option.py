"""Options that name keys: `KEY_ID=FILE`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import typer

from callability.finding import shown

MAX_ID = 128
"""Bytes of the id of a key."""
MAX_KEYS = 64
"""Public keys that can be given."""


KeyFiles = Mapping[str, Path]
"""Files of keys by key id."""


def key_files(given: Iterable[str] | None, option: str, most: int) -> dict[str, Path]:
    """Return the files of some keys by key id.

    Raises:
        BadParameter: one is not `KEY_ID=FILE`, an id is too long or given twice, or there are too many.
    """
    files: dict[str, Path] = {}
    for each in given or ():
        key_id, equals, file = each.partition("=")
        if not equals or not key_id or not file:
            raise typer.BadParameter(f"{shown(each)} is not KEY_ID=FILE", param_hint=option)
        if len(key_id.encode()) > MAX_ID or key_id in files:
            raise typer.BadParameter(
                f"the key id {shown(key_id)} is given twice, or has more than {MAX_ID} bytes", param_hint=option
            )
        files[key_id] = Path(file)
    if len(files) > most:
        raise typer.BadParameter(f"at most {most} keys can be given", param_hint=option)
    return files
