"""Looks for a rule file that does harm, led by the code that each input reaches; needs `atheris`.

Arguments are those of libFuzzer: directories of inputs, the first of which gets the new ones, and options.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(
    include=["callability.files.document", "callability.files.document", "callability.compiler"]
):
    from support.hostile import judged

FILES = ("callability.yaml", "callability_test.yaml")


def harmless(data: bytes) -> None:
    """See that a file, or one and its tests after a byte zero, does no harm."""
    judged(dict(zip(FILES, data.split(b"\0", 1), strict=False)))


if __name__ == "__main__":
    atheris.Setup(sys.argv, harmless)
    atheris.Fuzz()
