"""The second question (spec B): why did the tools of a server not load?"""

from __future__ import annotations

from collections.abc import Iterator

from callability.kernel.states import HTTP_CLASSES, HTTP_STATUSES, can_fail, http_facts
from callability.policy.questions.fact import BOOLEAN, Axis, Fact, Point, axis_of
from callability.policy.questions.question import Placeholder, Question, facts_by_name
from callability.vocabulary import LOAD_ACTIONS, UNKNOWN, LoadFailure, LoadPhase, LoadStatus

_NO_HTTP = ("none", "none")
_UNREAD_HTTP = (UNKNOWN, UNKNOWN)


def _states() -> Iterator[tuple[str, str, str, str]]:
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
            tuple(Point(" ".join(state), state) for state in _states()),
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
