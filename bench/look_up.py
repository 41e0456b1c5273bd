"""One walk in the decision diagram, against if-chains that decide the same: on a dict, and on an object with slots."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import TypeVar

from bench.large_policies import write_large
from bench.report import Aim, Row
from bench.rounds import Figures, Rounds
from bench.workload import about_one_each
from callability.compiler.bundle_writing import checked_policy
from callability.compiler.diagram import DecisionDiagram
from callability.compiler.policy import load
from callability.files.shipped_policy import shipped_policy
from callability.kernel.calls import LocalCalls
from callability.kernel.policy import read
from callability.v1.callability_service_pb2 import ExplainToolRequest

PART = "look-up"

_Decision = tuple[str, str, bool]
"""Status, rule, and whether it was undetermined."""

_PASSES = 100


def rows(rounds: Rounds) -> list[Row]:
    """Measure the walk in the diagram of the shipped policy by facts, and by points that of a large one too.

    Raises:
        AssertionError: the if-chain decides something else.
    """
    policy = load(shipped_policy())
    table = policy.rule_sets["callability"].diagram
    _check_chain(table)
    calls = LocalCalls(read(checked_policy(policy).bundle))
    facts = tuple(
        calls.encoded.tools.read(ExplainToolRequest.FromString(request.SerializeToString())).values
        for request in about_one_each(1_000)
    )
    passes = rounds.repetitions(_PASSES)
    slots = [Slots(*(each[name] for name in SLOTS)) for each in facts]
    points = [_points(table, each) for each in facts]
    large = _large_diagram()
    chance = Random(1)
    drawn = [tuple(chance.randrange(len(axis.points)) for axis in large.axes) for _ in facts]
    measured = rounds.interleaved(
        PART,
        {
            "chain": lambda: timed(_chain, facts, passes),
            "walk": lambda: timed(table.verdict, facts, passes),
            "slots": lambda: timed(chain_on_slots, slots, passes),
            "points": lambda: timed(table.verdict_at, points, passes),
            "large": lambda: timed(large.verdict_at, drawn, passes),
        },
    )
    chain, walk, on_slots, at_points, at_large = (
        measured[name]["ns"] for name in ("chain", "walk", "slots", "points", "large")
    )
    return [
        Row(PART, "an if-chain on a dict of facts", "ns", chain),
        Row(PART, "DecisionDiagram.verdict on the same dict", "ns", walk, against=chain, aim=Aim(3)),
        Row(PART, "an if-chain on an object with slots", "ns", on_slots),
        Row(PART, "DecisionDiagram.verdict_at on ready points", "ns", at_points, against=on_slots, aim=Aim(3.5)),
        Row(PART, "the same, 107 rules over 200 agents and 8 labels", "ns", at_large, against=on_slots, aim=Aim(4.5)),
    ]


def _large_diagram() -> DecisionDiagram:
    with TemporaryDirectory() as name:
        return load(write_large("agents-and-labels", Path(name)), engine=None).rule_sets["callability"].diagram


def _points(diagram: DecisionDiagram, facts: Mapping[str, str]) -> tuple[int, ...]:
    states = (tuple(facts[fact] for fact in axis.facts) for axis in diagram.axes)
    return tuple(
        [point.values for point in axis.points].index(state) for axis, state in zip(diagram.axes, states, strict=True)
    )


_Given = TypeVar("_Given")


def timed(decide: Callable[[_Given], object], facts: Sequence[_Given], passes: int) -> Figures:
    """Return what a decision takes; the loop around it is C, and costs both subjects the same few ns."""
    started = perf_counter_ns()
    for _ in range(passes):
        deque(map(decide, facts), maxlen=0)
    return {"ns": (perf_counter_ns() - started) / (passes * len(facts))}


def _check_chain(table: DecisionDiagram) -> None:
    for combination, verdict in table:
        facts = table.space.named(combination)
        decided = _chain(facts)
        if decided != chain_on_slots(Slots(*(facts[name] for name in SLOTS))):
            raise AssertionError(f"the if-chains differ for {combination}")
        if decided != (verdict.status, verdict.rule, verdict.undetermined):
            raise AssertionError(f"the if-chain says {decided} of {combination}, the table {verdict}")


_SERVER_OFF = ("server_disabled", "server-off", False)
_DENIED = ("disabled_by_config", "operator-denied", False)
_QUARANTINED = ("server_quarantined", "under-quarantine", False)
_USER_OFF = ("disabled_by_user", "user-off", False)
_PENDING = ("pending_approval", "awaiting-review", False)
_CHANGED = ("pending_approval", "changed-since-approval", False)
_REFUSED = ("disabled_unknown", "refused-elsewhere", False)
_OPEN = ("callable", "open", False)
_UNKNOWN_ENABLED = ("disabled_unknown", "server-off", True)
_UNKNOWN_DENIED = ("disabled_unknown", "operator-denied", True)
_UNKNOWN_QUARANTINED = ("disabled_unknown", "under-quarantine", True)
_UNKNOWN_OFF = ("disabled_unknown", "user-off", True)
_UNKNOWN_REVIEW = ("disabled_unknown", "awaiting-review", True)


def _chain(facts: Mapping[str, str]) -> _Decision:
    """Decide by the shipped rules, as one would write them in Python; whether text is withheld is not said."""
    if facts["server.enabled"] != "true":
        return _SERVER_OFF if facts["server.enabled"] == "false" else _UNKNOWN_ENABLED
    if facts["tool.config_denied"] != "false":
        return _DENIED if facts["tool.config_denied"] == "true" else _UNKNOWN_DENIED
    if facts["server.quarantined"] != "false":
        return _QUARANTINED if facts["server.quarantined"] == "true" else _UNKNOWN_QUARANTINED
    if facts["approval.disabled"] != "false":
        return _USER_OFF if facts["approval.disabled"] == "true" else _UNKNOWN_OFF
    if facts["approval.status"] not in ("approved", "none"):
        if facts["approval.status"] == "unknown":
            return _UNKNOWN_REVIEW
        return _PENDING if facts["approval.status"] == "pending" else _CHANGED
    return _REFUSED if facts["caller.refuses"] == "true" else _OPEN


SLOTS = (
    *("server.enabled", "tool.config_denied", "server.quarantined"),
    *("approval.disabled", "approval.status", "caller.refuses"),
)


@dataclass(slots=True)
class Slots:
    """The facts that the shipped rules read."""

    enabled: str
    denied: str
    quarantined: str
    disabled: str
    status: str
    refuses: str


def chain_on_slots(facts: Slots) -> _Decision:
    """Decide the same by attributes."""
    if facts.enabled != "true":
        return _SERVER_OFF if facts.enabled == "false" else _UNKNOWN_ENABLED
    if facts.denied != "false":
        return _DENIED if facts.denied == "true" else _UNKNOWN_DENIED
    if facts.quarantined != "false":
        return _QUARANTINED if facts.quarantined == "true" else _UNKNOWN_QUARANTINED
    if facts.disabled != "false":
        return _USER_OFF if facts.disabled == "true" else _UNKNOWN_OFF
    if facts.status not in ("approved", "none"):
        if facts.status == "unknown":
            return _UNKNOWN_REVIEW
        return _PENDING if facts.status == "pending" else _CHANGED
    return _REFUSED if facts.refuses == "true" else _OPEN
