"""A bundle that anybody made is refused, or decides: it never harms the reader."""

from __future__ import annotations

import pytest

from callability.bundle.envelope import opened
from support.bundle_vectors import DIRECTORY
from support.drawing import share
from support.hostile_bundles import judged, mutated, sealed

SEEDS = 3_000


@pytest.mark.parametrize("name", ["small", "declared-facts"])
def test_a_bundle_with_changed_fields_is_refused_or_decides(name: str) -> None:
    """Numbers, texts and parts that are others, fewer or more; some of these are accepted, and decide something."""
    payload = opened((DIRECTORY / f"{name}.bundle").read_bytes()).payload
    outcomes = {judged(sealed(mutated(payload, seed))) for seed in range(share(SEEDS))}
    assert outcomes == {True, False}


def test_a_payload_that_is_cut_is_refused() -> None:
    """Wherever it is cut: what is missing is noticed, even if its digest is right."""
    payload = opened((DIRECTORY / "small.bundle").read_bytes()).payload
    assert not any(judged(sealed(payload[:size])) for size in range(len(payload)))
