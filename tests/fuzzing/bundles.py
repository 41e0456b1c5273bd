"""Looks for a bundle that does harm, led by the code that each input reaches; needs `atheris`.

Arguments are those of libFuzzer: directories of inputs, the first of which gets the new ones, and options. An input is
a payload: it gets an envelope with its digest, or the reader would look no further.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["callability.kernel"]):
    from support.hostile_bundles import judged, mutated, sealed

from callability.bundle.v1 import bundle_pb2 as pb
from support.checkout import VECTORS

SMALL = pb.Bundle.FromString((VECTORS / "bundles/small.bundle").read_bytes()).payload


def harmless(data: bytes) -> None:
    """See that a payload does no harm, that the bytes do none as a file, and that what they select does none."""
    judged(sealed(data))
    judged(data)
    judged(sealed(mutated(SMALL, int.from_bytes(data[:8], "big"))))


def write_seeds(directory: Path) -> None:
    """Write the payloads of the vectors, good and bad."""
    for file in (VECTORS / "bundles").rglob("*.bundle"):
        (directory / file.stem).write_bytes(pb.Bundle.FromString(file.read_bytes()).payload)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--seeds"]:
        write_seeds(Path(sys.argv[2]))
        sys.exit()
    atheris.Setup(sys.argv, harmless)
    atheris.Fuzz()
