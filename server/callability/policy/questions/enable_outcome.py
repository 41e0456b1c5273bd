"""The third question (spec C): how did an enable end?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from callability.kernel.states import FAILED_LOADS, MAY_BE_UNANSWERED, MAY_HAVE_FAILED
from callability.policy.questions.fact import BOOLEAN, Axis, Fact, Point, axis_of
from callability.policy.questions.question import Placeholder, Question, facts_by_name
from callability.vocabulary import (
    ENABLE_ACTIONS,
    UNKNOWN,
    EnableAuthorization,
    EnableCredentials,
    EnableEnd,
    EnableStatus,
    LiftedBy,
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


def _states() -> Iterator[tuple[str, str, str, str]]:
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
def _meant(given: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    states = (dict(zip(_ATTEMPT, state, strict=True)) for state in _states())
    otherwise = {name: fact.open_value for name, fact in _ATTEMPT.items()} | dict(given)
    return next((state for state in states if state.items() >= dict(given).items()), otherwise)


def _normalized(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return all facts of an attempt for those that somebody wrote, or these as they are if they contradict."""
    return _meant(tuple(given.items()))


def _only(name: str, status: EnableStatus) -> Placeholder:
    return Placeholder(name, frozenset({status}))


ENABLE_OUTCOME = Question(
    name="enable_outcome",
    facts=facts_by_name((_KNOWN, _WAS_CONNECTED, _CREDENTIALS, *_ATTEMPT.values(), _CALLABLE_TOOLS)),
    axes=(
        *map(axis_of, (_KNOWN, _WAS_CONNECTED, _CREDENTIALS)),
        Axis(
            tuple(_ATTEMPT),
            tuple(Point(" ".join(state), state) for state in _states()),
            impossible="only an attempt that failed has a load status, and only a dialog that nobody answered can have"
            " expired",
            normalized=_normalized,
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
