"""One look-up in the decision table, against an if-chain on a dict that decides the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns

from bench.report import Aim, Row
from bench.rounds import Figures, Rounds
from bench.workload import about_one_each
from callability.policy.deciding.diagram import DecisionDiagram
from callability.policy.loading import load
from callability.policy.shipped import shipped_policy
from callability.service.translation.tool_facts import FactReader

PART = "look-up"

_Decision = tuple[str, str, bool]
"""Status, rule, and whether it was undetermined."""

_PASSES = 100


def rows(rounds: Rounds) -> list[Row]:
    """Measure the look-up in the shipped policy.

    Raises:
        AssertionError: the if-chain decides something else.
    """
    table = load(shipped_policy()).rule_sets["callability"].diagram
    _check_chain(table)
    reader = FactReader(table.space)
    facts = tuple(
        reader.read(request.server_facts.SerializeToString(), request.tool_facts.SerializeToString()).values
        for request in about_one_each(1_000)
    )
    passes = rounds.repetitions(_PASSES)
    measured = rounds.interleaved(
        PART, {"chain": lambda: _timed(_chain, facts, passes), "table": lambda: _timed(table.verdict, facts, passes)}
    )
    chain, look_up = measured["chain"]["ns"], measured["table"]["ns"]
    return [
        Row(PART, "an if-chain on a dict of facts", "ns", chain),
        Row(PART, "DecisionDiagram.verdict on the same dict", "ns", look_up, against=chain, aim=Aim(3)),
    ]


def _timed(decide: Callable[[Mapping[str, str]], object], facts: Sequence[Mapping[str, str]], passes: int) -> Figures:
    """Return what a decision takes; the loop around it is C, and costs both subjects the same few ns."""
    started = perf_counter_ns()
    for _ in range(passes):
        deque(map(decide, facts), maxlen=0)
    return {"ns": (perf_counter_ns() - started) / (passes * len(facts))}


def _check_chain(table: DecisionDiagram) -> None:
    for combination, verdict in table:
        decided = _chain(table.space.named(combination))
        if decided != (verdict.status, verdict.rule, verdict.undetermined):
            raise AssertionError(f"the if-chain says {decided} of {combination}, the table {verdict}")


_SERVER_OFF = ("server_disabled", "server-off", False)
_DENIED = ("disabled_by_config", "operator-denied", False)
_QUARANTINED = ("server_quarantined", "under-quarantine", False)
_USER_OFF = ("disabled_by_user", "user-off", False)
_PENDING = ("pending_approval", "awaiting-review", False)
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
        return _UNKNOWN_REVIEW if facts["approval.status"] == "unknown" else _PENDING
    return _REFUSED if facts["caller.refuses"] == "true" else _OPEN
