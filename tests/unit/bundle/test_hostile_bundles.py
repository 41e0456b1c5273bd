"""A bundle that anybody made is refused, or decides: it never harms the reader."""

from __future__ import annotations

import pytest

from callability.bundle import BundleRefused, read
from callability.bundle.envelope import opened
from callability.bundle.v1 import bundle_pb2
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


def test_rules_that_contradict_the_diagram_are_refused_when_they_explain() -> None:
    """No reader can compare them for every combination of facts."""
    payload = bundle_pb2.Payload.FromString(opened((DIRECTORY / "small.bundle").read_bytes()).payload)
    payload.rule_sets[0].condition_parts[0].readings[:] = [0]
    rules = read(sealed(payload.SerializeToString())).callability
    facts = {fact.name: fact.open_value for axis in rules.axes for fact in axis.facts} | {"server.label.stage": "live"}
    assert rules.decide(rules.points_of(facts)).rule == "open"
    with pytest.raises(BundleRefused, match="the rules of the bundle contradict its diagram"):
        rules.explain(facts)
