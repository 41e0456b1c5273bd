"""Bundles: writing and reading them, their size, and decisions, against an if-chain on an object with slots."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.large_policies import SHAPES, write_large
from bench.look_up import SLOTS, Slots, chain_on_slots, timed
from bench.report import Aim, Aimed, Row
from bench.rounds import Figures, Rounds
from bench.workload import about_one_each
from callability.compiler.bundle_writing import payload_of
from callability.compiler.confirmation import Engine
from callability.compiler.policy import Policy, load
from callability.kernel.calls import LocalCalls
from callability.kernel.envelope import envelop
from callability.kernel.policy import LocalPolicy, read
from callability.v1 import callability_service_pb2 as pb

PART = "bundle"

_PASSES = 100
_READ_AIMS = {"shipped": 20.0, "agents-and-labels": 200.0}
"""Milliseconds."""
_WRITTEN = tuple(SHAPES)[:5]
_QUICK = tuple(SHAPES)[:2]


def rows(rounds: Rounds) -> list[Row]:
    """Measure bundles of the shipped policy and of the large shapes."""
    shapes = _QUICK if rounds.quick else _WRITTEN
    policies = {shape: _policy(shape) for shape in shapes}
    bundles = {shape: envelop(payload_of(policy)) for shape, policy in policies.items()}
    measured = rounds.interleaved(
        PART,
        {
            **{f"write {shape}": partial(_milliseconds, partial(payload_of, each)) for shape, each in policies.items()},
            **{f"read {shape}": partial(_milliseconds, partial(read, each)) for shape, each in bundles.items()},
        },
    )
    sizes: list[Row] = []
    for shape in shapes:
        aim = Aim(_READ_AIMS[shape], Aimed.VALUE) if shape in _READ_AIMS else None
        size = (len(bundles[shape]) / 1024,) * rounds.count
        sizes += [
            Row(PART, f"{shape}: write the bundle", "ms", measured[f"write {shape}"]["ms"]),
            Row(PART, f"{shape}: size", "KiB", size),
            Row(PART, f"{shape}: read the bundle", "ms", measured[f"read {shape}"]["ms"], aim=aim),
        ]
    return [*sizes, *_decisions(rounds, {shape: read(each) for shape, each in bundles.items()})]


def _decisions(rounds: Rounds, policies: dict[str, LocalPolicy]) -> list[Row]:
    """Measure decisions from ready points, and from the messages of the contract."""
    shipped = LocalCalls(policies["shipped"])
    requests = tuple(about_one_each(1_000))
    facts = [_facts(shipped, request) for request in requests]
    slots = [Slots(*(each[name] for name in SLOTS)) for each in facts]
    points = [policies["shipped"].callability.points_of(each) for each in facts]
    large_name = [*policies][-1]
    large = policies[large_name].callability
    chance = Random(1)
    drawn = [tuple(chance.randrange(axis.size) for axis in large.axes) for _ in facts]
    passes = rounds.repetitions(_PASSES)
    measured = rounds.interleaved(
        f"{PART}: decisions",
        {
            "slots": lambda: timed(chain_on_slots, slots, passes),
            "points": lambda: timed(policies["shipped"].callability.decide, points, passes),
            "large": lambda: timed(large.decide, drawn, passes),
            "messages": lambda: timed(shipped.check_tool, requests, max(1, passes // 10)),
        },
    )
    slot, point, at_large, message = (measured[name]["ns"] for name in ("slots", "points", "large", "messages"))
    return [
        Row(PART, "an if-chain on an object with slots", "ns", slot),
        Row(PART, "RuleSet.decide on ready points", "ns", point, against=slot, aim=Aim(4)),
        Row(PART, f"the same, {large_name}", "ns", at_large, against=slot),
        Row(PART, "LocalCalls.check_tool on messages", "ns", message),
    ]


def _facts(calls: LocalCalls, request: pb.CheckToolRequest) -> dict[str, str]:
    return {**calls.encoded.tools.read(pb.ExplainToolRequest.FromString(request.SerializeToString())).values}


def _policy(shape: str) -> Policy:
    with TemporaryDirectory() as directory:
        return load(write_large(shape, Path(directory)), engine=Engine.REFERENCE)


def _milliseconds(work: Callable[[], object]) -> Figures:
    started = perf_counter()
    work()
    return {"ms": (perf_counter() - started) * 1_000}
