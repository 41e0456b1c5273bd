"""The policy that ships with the program, and the example policies."""

from __future__ import annotations

from pathlib import Path

import callability
from callability.process.regular_file import replacing

EXAMPLES = "examples"
"""The directory of the examples, in that of the shipped policy."""


def shipped_policy() -> Path:
    """Return the directory of the shipped policy, in a wheel or in a checkout."""
    package = Path(callability.__file__).parent
    installed = package / "policies"
    return installed if installed.is_dir() else package.parents[1] / "policy"


def examples() -> tuple[str, ...]:
    """Return the names of the policies that are shipped as examples."""
    return tuple(sorted(path.name for path in (shipped_policy() / EXAMPLES).iterdir() if path.is_dir()))


def export_policy(directory: Path, example: str | None = None) -> tuple[Path, ...]:
    """Write the files of the shipped policy, and their schemas, into a directory, and return their paths.

    Those that an example has are its own.

    Raises:
        FileExistsError: one of the files is there already; nothing is written then.
        OSError: a file cannot be written; those that were written are removed.
    """
    shipped = shipped_policy()
    own = sorted((shipped / EXAMPLES / example).glob("*.yaml")) if example else []
    sources = {path.relative_to(shipped): path for path in (*sorted(shipped.glob("*.yaml")), *shipped.glob("schema/*"))}
    sources |= {Path(path.name): path for path in own}
    there = next((directory / path for path in sources if (directory / path).exists()), None)
    if there:
        raise FileExistsError(f"`{there}` is there already")
    written: list[Path] = []
    try:
        for path, source in sources.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            with replacing(directory / path) as file:
                # The schemas of an example lie elsewhere, as seen from it, than those of what is written.
                file.write(source.read_bytes().replace(b"$schema=../../schema/", b"$schema=schema/", 1))
            written.append(directory / path)
    except OSError:
        # They would refuse the next attempt.
        for each in written:
            each.unlink()
        raise
    return tuple(written)
