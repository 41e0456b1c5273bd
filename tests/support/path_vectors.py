"""The golden vectors of paths to callable: `python -m support.path_vectors` compiles their policies to bundles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from callability.compiler.bundle_writing import payload_of
from callability.compiler.confirmation import Engine
from callability.compiler.policy import Policy, load
from callability.kernel.envelope import envelop
from support.checkout import VECTORS
from support.policies import write_policy

DIRECTORY = VECTORS / "paths"
NAMES = tuple(sorted(path.stem for path in DIRECTORY.glob("*.yaml")))


@cache
def path_policy(name: str) -> Policy:
    """Return the policy of some vectors, confirmed by the reference evaluator."""
    with TemporaryDirectory() as directory:
        policy = write_policy(Path(directory), (DIRECTORY / f"{name}.yaml").read_text())
        return load(policy, engine=Engine.REFERENCE)


def path_bundles() -> Iterator[tuple[Path, bytes]]:
    """Yield path and bytes of the bundle of each policy."""
    for name in NAMES:
        yield DIRECTORY / f"{name}.bundle", envelop(payload_of(path_policy(name)))


if __name__ == "__main__":
    for path, data in path_bundles():
        path.write_bytes(data)
