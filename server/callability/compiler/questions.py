"""The three questions that a policy answers: about a tool (spec A), a load (spec B) and an enable (spec C)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product

from callability.compiler.question import (
    BOOLEAN,
    Axis,
    Fact,
    NameFact,
    Placeholder,
    Point,
    Question,
    axis_of,
    facts_by_name,
)
from callability.contract.vocabulary import (
    ENABLE_ACTIONS,
    LOAD_ACTIONS,
    TOOL_ACTIONS,
    UNKNOWN,
    EnableAuthorization,
    EnableCredentials,
    EnableEnd,
    EnableStatus,
    LiftedBy,
    LoadFailure,
    LoadPhase,
    LoadStatus,
    ToolStatus,
)
from callability.kernel.facts import (
    FAILED_LOADS,
    HINT_DEFAULTS,
    HTTP_CLASSES,
    HTTP_STATUSES,
    MAY_BE_UNANSWERED,
    MAY_HAVE_FAILED,
    READS_ONLY,
    can_fail,
    http_facts,
    normalized_hints,
)


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


_KNOWN = Fact("enable.known", BOOLEAN, "true")
_WAS_CONNECTED = Fact("enable.was_connected", BOOLEAN, "false")
_CREDENTIALS = Fact("enable.credentials", tuple(EnableCredentials), EnableCredentials.COMPLETE)
_AUTHORIZATION = Fact("enable.authorization", tuple(EnableAuthorization), EnableAuthorization.NOT_NEEDED)
_ENDED = Fact("enable.ended", tuple(EnableEnd), EnableEnd.CONNECTED)
_LOAD_STATUS = Fact("enable.load_status", ("none", *FAILED_LOADS), "none")
_DIALOG_EXPIRED = Fact("enable.dialog_expired", BOOLEAN, "false")
_CALLABLE_TOOLS = Fact("enable.callable_tools", BOOLEAN, "true")

_ATTEMPT = facts_by_name((_AUTHORIZATION, _ENDED, _LOAD_STATUS, _DIALOG_EXPIRED))
"""The facts of an attempt that depend on each other."""


def _attempt_states() -> Iterator[tuple[str, str, str, str]]:
    """Yield every state of an attempt; the first one that has some facts is what is meant by them."""
    for ended in _ENDED.readings:
        loads = (UNKNOWN, *_LOAD_STATUS.values[1:]) if ended == EnableEnd.FAILED else (UNKNOWN,)
        for authorization in _AUTHORIZATION.readings:
            if ended not in MAY_HAVE_FAILED:
                yield authorization, ended, "none", "false"
                continue
            expiries = ("false", "true", UNKNOWN) if ended == EnableEnd.FAILED else ("false", UNKNOWN)
            for expired in expiries if authorization in MAY_BE_UNANSWERED else ("false",):
                yield from ((authorization, ended, load, expired) for load in loads)


@cache
def _fill_in(given: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    states = (dict(zip(_ATTEMPT, state, strict=True)) for state in _attempt_states())
    otherwise = {name: fact.open_value for name, fact in _ATTEMPT.items()} | dict(given)
    return next((state for state in states if state.items() >= dict(given).items()), otherwise)


def _normalize(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return all facts of an attempt for those that somebody wrote, or these as they are if they contradict."""
    return _fill_in(tuple(given.items()))


def _only(name: str, status: EnableStatus) -> Placeholder:
    return Placeholder(name, frozenset({status}))


ENABLE_OUTCOME = Question(
    name="enable_outcome",
    facts=facts_by_name((_KNOWN, _WAS_CONNECTED, _CREDENTIALS, *_ATTEMPT.values(), _CALLABLE_TOOLS)),
    axes=(
        *map(axis_of, (_KNOWN, _WAS_CONNECTED, _CREDENTIALS)),
        Axis(
            tuple(_ATTEMPT),
            tuple(Point(" ".join(state), state) for state in _attempt_states()),
            impossible="only an attempt that failed has a load status, and only a dialog that nobody answered can have"
            " expired",
            normalized=_normalize,
        ),
        axis_of(_CALLABLE_TOOLS),
    ),
    statuses=tuple(EnableStatus),
    undetermined=EnableStatus.CONNECT_FAILED,
    wordless=frozenset(),
    texts={
        "message": (
            Placeholder("server"),
            _only("variables", EnableStatus.MISSING_CREDENTIALS),
            _only("locks", EnableStatus.ENABLED),
            _only("reason", EnableStatus.CONNECT_FAILED),
        )
    },
    actions=ENABLE_ACTIONS,
    owners_by_rule={EnableStatus.CONNECT_FAILED: frozenset({LiftedBy.OPERATOR})},
    # A server is added, or a variable set, for which there are no actions.
    operator_acts=False,
)


_NO_HTTP = ("none", "none")
_UNREAD_HTTP = (UNKNOWN, UNKNOWN)


def _load_states() -> Iterator[tuple[str, str, str, str]]:
    """Yield phase, failure, class and number of every state; only a failure that is a status, or may be, has them."""
    reported = [
        *(http_facts(int(number)) for number in HTTP_STATUSES),
        *((each, other) for each in HTTP_CLASSES for other in ("other", UNKNOWN)),
    ]
    for failure in (*LoadFailure, UNKNOWN):
        for phase in (*LoadPhase, UNKNOWN):
            if phase != UNKNOWN and not can_fail(failure, phase):
                continue
            if failure != LoadFailure.HTTP_STATUS:
                yield phase, failure, *_NO_HTTP
            if failure in {LoadFailure.HTTP_STATUS, UNKNOWN}:
                yield phase, failure, *_UNREAD_HTTP
            if failure == LoadFailure.HTTP_STATUS:
                yield from ((phase, failure, *http) for http in reported)


_PHASE = Fact("load.phase", tuple(LoadPhase), LoadPhase.LIST)
_FAILURE = Fact("load.failure", tuple(LoadFailure), LoadFailure.NONE)
_CLASS = Fact("load.http_class", ("none", *HTTP_CLASSES), "none")
_STATUS = Fact("load.http_status", ("none", *HTTP_STATUSES, "other"), "none")
_SIGNATURE = Fact("load.timeout_signature", BOOLEAN, "false", asserted=True)
_IN_SESSION = Fact("load.in_session", BOOLEAN, "false", asserted=True)
_TRIES_LEFT = Fact("load.tries_left", BOOLEAN, "false", asserted=True)
_SCHEDULED = Fact("load.retry_scheduled", BOOLEAN, "false", asserted=True)

LOAD_OUTCOME = Question(
    name="load_outcome",
    facts=facts_by_name((_PHASE, _FAILURE, _CLASS, _STATUS, _SIGNATURE, _IN_SESSION, _TRIES_LEFT, _SCHEDULED)),
    axes=(
        Axis(
            (_PHASE.name, _FAILURE.name, _CLASS.name, _STATUS.name),
            tuple(Point(" ".join(state), state) for state in _load_states()),
            impossible="a failure has its phases, and an HTTP status its class and `load.failure: http_status`",
        ),
        *map(axis_of, (_SIGNATURE, _IN_SESSION, _TRIES_LEFT, _SCHEDULED)),
    ),
    statuses=tuple(LoadStatus),
    undetermined=LoadStatus.PERMANENT,
    wordless=frozenset({LoadStatus.AVAILABLE}),
    texts={"message": (Placeholder("servers"),)},
    actions=LOAD_ACTIONS,
)


QUESTIONS = {question.name: question for question in (CALLABILITY, LOAD_OUTCOME, ENABLE_OUTCOME)}
"""By the name of its file without its ending."""
