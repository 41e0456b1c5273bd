"""The first question (spec A): why can a tool not be called?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from callability.kernel.states import HINT_DEFAULTS, READS_ONLY, normalized_hints
from callability.policy.questions.fact import BOOLEAN, Axis, Fact, NameFact, Point, axis_of
from callability.policy.questions.question import Placeholder, Question, facts_by_name
from callability.vocabulary import TOOL_ACTIONS, UNKNOWN, LiftedBy, ToolStatus


def _approval_axis() -> Axis:
    """No record, every record of which either field may be unknown, and unreadable: 14 states (spec A.2)."""
    records = product(("false", "true", UNKNOWN), ("approved", "pending", "changed", UNKNOWN))
    return Axis(
        ("approval.disabled", "approval.status"),
        (
            Point("no record", ("false", "none")),
            *(
                Point(f"a record: disabled {disabled}, status {status}", (disabled, status))
                for disabled, status in records
            ),
            Point("unreadable", (UNKNOWN, UNKNOWN)),
        ),
        always=True,
        impossible="a tool without a record is not disabled by one",
    )


def _hints_axis() -> Axis:
    """Read-only, or not with either of two values of the other two, or unknown: six states (spec A.2)."""
    states = (*product(("false",), ("true", "false"), ("false", "true")), READS_ONLY, (UNKNOWN, UNKNOWN, UNKNOWN))
    return Axis(
        tuple(_DEPENDENT),
        tuple(Point(" ".join(state), state) for state in states),
        impossible="a read-only tool is not destructive and is idempotent, and the three annotations are known or"
        " unknown together",
        normalized=normalized_hints,
    )


def _withholds(facts: Mapping[str, str]) -> bool:
    """Withhold unless the server is known not to be quarantined and the approval known to be none or approved (A.3)."""
    return not (facts["server.quarantined"] == "false" and facts["approval.status"] in {"none", "approved"})


_ENABLED = Fact("server.enabled", BOOLEAN, "true", LiftedBy.USER, "enable_server")
_DENIED = Fact("tool.config_denied", BOOLEAN, "false", LiftedBy.OPERATOR, "edit_config")
_QUARANTINED = Fact("server.quarantined", BOOLEAN, "false", LiftedBy.USER, "release_server")
_DISABLED = Fact("approval.disabled", BOOLEAN, "false", LiftedBy.USER, "enable_tool")
_REVIEW = Fact("approval.status", ("none", "approved", "pending", "changed"), "approved", LiftedBy.USER, "approve_tool")
_REFUSES = Fact("caller.refuses", BOOLEAN, "false", LiftedBy.NONE, asserted=True)

_OPEN_WORLD = Fact("annotations.open_world", BOOLEAN, "true", hint=True)
_DEPENDENT = facts_by_name(Fact(name, BOOLEAN, default, hint=True) for name, default in HINT_DEFAULTS.items())
"""The hints that depend on each other. The default of a hint is the one that MCP defines."""
_NAMES = (
    NameFact("server.name", (), "other", asserted=True),
    NameFact("tool.name", (), "other", asserted=True),
    NameFact("agent.name", (), ""),
)

CALLABILITY = Question(
    name="callability",
    facts=facts_by_name(
        (_ENABLED, _DENIED, _QUARANTINED, _DISABLED, _REVIEW, _REFUSES, *_DEPENDENT.values(), _OPEN_WORLD, *_NAMES)
    ),
    axes=(
        axis_of(_ENABLED),
        axis_of(_DENIED),
        axis_of(_QUARANTINED, always=True),
        _approval_axis(),
        axis_of(_REFUSES),
        _hints_axis(),
        axis_of(_OPEN_WORLD),
    ),
    statuses=tuple(ToolStatus),
    undetermined=ToolStatus.DISABLED_UNKNOWN,
    wordless=frozenset({ToolStatus.CALLABLE}),
    texts={"remediation": (), "rejection": (Placeholder("tool"), Placeholder("server"))},
    actions=TOOL_ACTIONS,
    labels={"server": "server.label.", "tool": "tool.label.", "agent": "agent.label."},
    declares=("server", "tool", "agent"),
    open_status=ToolStatus.CALLABLE,
    withholds=_withholds,
)
