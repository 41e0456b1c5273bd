"""The bundles of the Go module and of its tests: `python -m support.go_bundles` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from callability.compiler.bundle_writing import payload_of
from callability.kernel.envelope import envelop
from support.bundles import EXAMPLES, SHIPPED, policy_of
from support.checkout import ROOT

MODULE = ROOT / "clients/go"


def go_bundles() -> Iterator[tuple[Path, bytes]]:
    """Yield path and bytes of the bundle of the shipped policy and of each example."""
    yield MODULE / "shipped/policy.bundle", envelop(payload_of(policy_of(SHIPPED)))
    for name in EXAMPLES:
        yield MODULE / f"callability/testdata/{name}.bundle", envelop(payload_of(policy_of(name)))


if __name__ == "__main__":
    for path, data in go_bundles():
        path.write_bytes(data)
