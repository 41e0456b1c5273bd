"""The bundles that the tests of the Go module read: `python -m support.go_bundles` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from callability.bundling.payload import payload_of
from callability.kernel.envelope import enveloped
from support.bundles import EXAMPLES, SHIPPED, policy_of
from support.checkout import ROOT

DIRECTORY = ROOT / "clients/go/callability/testdata"


def go_bundles() -> Iterator[tuple[Path, bytes]]:
    """Yield path and bytes of the bundle of the shipped policy and of each example."""
    for name in (SHIPPED, *EXAMPLES):
        yield DIRECTORY / f"{name}.bundle", enveloped(payload_of(policy_of(name)))


if __name__ == "__main__":
    for path, data in go_bundles():
        path.write_bytes(data)
