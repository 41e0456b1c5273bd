"""A bundle that anybody made is refused, or decides: it never harms the reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from callability.bundle.v1 import bundle_pb2
from callability.client import PolicyUnavailable
from callability.kernel.envelope import BundleRefused, open_bundle
from callability.kernel.path import explain
from callability.kernel.policy import read
from callability.v1 import callability_service_pb2 as pb
from callability.v1.facts_pb2 import ToolFacts
from callability.v1.verdict_pb2 import TOOL_STATUS_DISABLED_BY_USER
from support.bundle_vectors import DIRECTORY
from support.bundles import bundle_of
from support.clients import KINDS, calling
from support.drawing import share
from support.hostile_bundles import judged, mutated, sealed
from support.services import OPEN_SERVER, SWITCHED_OFF

SEEDS = 3_000


@pytest.mark.parametrize("name", ["small", "declared-facts"])
def test_a_bundle_with_changed_fields_is_refused_or_decides(name: str) -> None:
    """Numbers, texts and parts that are others, fewer or more; some of these are accepted, and decide something."""
    payload = open_bundle((DIRECTORY / f"{name}.bundle").read_bytes()).payload
    outcomes = {judged(sealed(mutated(payload, seed))) for seed in range(share(SEEDS))}
    assert outcomes == {True, False}


def test_a_payload_that_is_cut_is_refused() -> None:
    """Wherever it is cut: what is missing is noticed, even if its digest is right."""
    payload = open_bundle((DIRECTORY / "small.bundle").read_bytes()).payload
    assert not any(judged(sealed(payload[:size])) for size in range(len(payload)))


def test_rules_that_contradict_the_diagram_are_refused_when_they_explain() -> None:
    """No reader can compare them for every combination of facts."""
    payload = bundle_pb2.Payload.FromString(open_bundle((DIRECTORY / "small.bundle").read_bytes()).payload)
    payload.rule_sets[0].condition_parts[0].readings[:] = [0]
    rules = read(sealed(payload.SerializeToString())).callability
    facts = {fact.name: fact.open_value for axis in rules.axes for fact in axis.facts} | {"server.label.stage": "live"}
    assert rules.decide(rules.points_of(facts)).rule == "open"
    with pytest.raises(BundleRefused, match="the rules of the bundle contradict its diagram"):
        explain(rules, facts)


def _without_a_point(facts: int) -> bytes:
    """Return the shipped bundle without the last readings of the first axis with so many facts."""
    payload = bundle_pb2.Payload.FromString(open_bundle(bundle_of("shipped")).payload)
    axis = next(each for each in payload.rule_sets[0].axes if len(each.facts) == facts)
    points = [tuple(axis.readings[start : start + facts]) for start in range(0, len(axis.readings), facts)]
    axis.readings[:] = [reading for point in points for reading in (points[0] if point == points[-1] else point)]
    return sealed(payload.SerializeToString())


def test_an_axis_of_one_fact_without_a_point_for_a_reading_is_refused() -> None:
    """A request with it would have no answer, and the last good bundle has one."""
    with pytest.raises(BundleRefused, match="no point for a reading"):
        read(_without_a_point(1))


@pytest.mark.parametrize("kind", KINDS)
def test_facts_that_a_bundle_lacks_have_no_answer(kind: str, tmp_path: Path) -> None:
    """And the caller learns of it as of every other failure: then nothing may be shown or called (A.7)."""
    path = tmp_path / "policy.bundle"
    path.write_bytes(_without_a_point(2))
    with calling(kind, lambda client: client.local(path)) as caller:
        unreadable = ToolFacts(config_denied=False)
        with pytest.raises(PolicyUnavailable, match="contradicts itself"):
            caller.check(pb.CheckToolRequest(server="s", server_facts=OPEN_SERVER, tool="t", tool_facts=unreadable))
        assert caller.check(SWITCHED_OFF).verdict.status == TOOL_STATUS_DISABLED_BY_USER
