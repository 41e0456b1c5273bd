"""The third question (spec C): what came of switching a server on?"""

from __future__ import annotations

from callability.policy.questions.fact import BOOLEAN, Fact, axis_of
from callability.policy.questions.question import Placeholder, Question, facts_by_name
from callability.vocabulary import (
    ENABLE_ACTIONS,
    EnableAuthorization,
    EnableCredentials,
    EnableEnd,
    EnableStatus,
)

_FACTS = (
    Fact("enable.known", BOOLEAN, "true"),
    Fact("enable.was_connected", BOOLEAN, "false"),
    Fact("enable.credentials", tuple(EnableCredentials), EnableCredentials.COMPLETE),
    Fact("enable.authorization", tuple(EnableAuthorization), EnableAuthorization.NOT_NEEDED),
    Fact("enable.ended", tuple(EnableEnd), EnableEnd.CONNECTED),
    Fact("enable.callable_tools", BOOLEAN, "true"),
)


def _only(name: str, status: EnableStatus) -> Placeholder:
    return Placeholder(name, frozenset({status}))


ENABLE_OUTCOME = Question(
    name="enable_outcome",
    facts=facts_by_name(_FACTS),
    axes=tuple(map(axis_of, _FACTS)),
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
)
