"""The policy that comes with the program."""

from __future__ import annotations

import shutil
from pathlib import Path

import callability


def shipped_policy() -> Path:
    """Return the directory of the shipped policy, in a wheel or in a checkout."""
    package = Path(callability.__file__).parent
    installed = package / "policies"
    return installed if installed.is_dir() else package.parents[1] / "policy"


def export_policy(directory: Path) -> tuple[Path, ...]:
    """Write the files of the shipped policy, and their schemas, into a directory, and return their paths.

    Raises:
        FileExistsError: one of the files is there already; nothing is written then.
        OSError: a file cannot be written.
    """
    shipped = shipped_policy()
    sources = (*sorted(shipped.glob("*.yaml")), *sorted(shipped.glob("schema/*.json")))
    files = {directory / path.relative_to(shipped): path for path in sources}
    there = next((path for path in files if path.exists()), None)
    if there:
        raise FileExistsError(f"`{there}` is there already")
    for path, source in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
    return tuple(files)
