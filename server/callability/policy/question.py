"""The questions that rule sets answer, and the facts that they may be answered by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

from callability.vocabulary import UNKNOWN, LiftedBy, ToolStatus

BOOLEAN = ("true", "false")


@dataclass(frozen=True, slots=True)
class Fact:
    """A typed input with a finite domain.

    `open_value` is the value that stands in nobody's way: what a test's facts have when they are left out, and what a
    path to callable opens the fact to, by `opened_by` (None: nobody can change it) and `action`.
    """

    name: str
    values: tuple[str, ...]
    open_value: str
    opened_by: LiftedBy | None
    action: str = ""

    @property
    def boolean(self) -> bool:
        """Whether rule files write its values as `true` and `false`."""
        return self.values == BOOLEAN


@dataclass(frozen=True, slots=True)
class Point:
    """One state of the facts of an axis, in words and as values."""

    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """Facts that vary together, and every state that they can be in; `always` where rules need not read them."""

    facts: tuple[str, ...]
    points: tuple[Point, ...]
    always: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What is fixed about a question: its facts, its statuses, and the status for what could not be determined.

    `withholds` says for a combination of facts whether text from the upstream must be kept back (spec A.3).
    """

    name: str
    facts: Mapping[str, Fact]
    axes: tuple[Axis, ...]
    statuses: tuple[str, ...]
    undetermined: str
    open_status: str
    withholds: Callable[[Mapping[str, str]], bool]

    @property
    def open_facts(self) -> dict[str, str]:
        """Every fact at its open value."""
        return {fact.name: fact.open_value for fact in self.facts.values()}


def _axis(fact: Fact, *, always: bool = False, unknown: bool = True) -> Axis:
    values = (*fact.values, UNKNOWN) if unknown else fact.values
    return Axis((fact.name,), tuple(Point(value, (value,)) for value in values), always=always)


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
    )


def _withholds(facts: Mapping[str, str]) -> bool:
    """Withhold unless the server is known not to be quarantined and the approval known to be none or approved (A.3)."""
    return not (facts["server.quarantined"] == "false" and facts["approval.status"] in {"none", "approved"})


_ENABLED = Fact("server.enabled", BOOLEAN, "true", LiftedBy.USER, "enable_server")
_DENIED = Fact("tool.config_denied", BOOLEAN, "false", LiftedBy.OPERATOR, "edit_config")
_QUARANTINED = Fact("server.quarantined", BOOLEAN, "false", LiftedBy.USER, "release_server")
_DISABLED = Fact("approval.disabled", BOOLEAN, "false", LiftedBy.USER, "enable_tool")
_REVIEW = Fact("approval.status", ("none", "approved", "pending", "changed"), "approved", LiftedBy.USER, "approve_tool")
_REFUSES = Fact("caller.refuses", BOOLEAN, "false", LiftedBy.NONE)

CALLABILITY = Question(
    name="callability",
    facts={fact.name: fact for fact in (_ENABLED, _DENIED, _QUARANTINED, _DISABLED, _REVIEW, _REFUSES)},
    axes=(
        _axis(_ENABLED),
        _axis(_DENIED),
        _axis(_QUARANTINED, always=True),
        _approval_axis(),
        _axis(_REFUSES, unknown=False),
    ),
    statuses=tuple(ToolStatus),
    undetermined=ToolStatus.DISABLED_UNKNOWN,
    open_status=ToolStatus.CALLABLE,
    withholds=_withholds,
)
"""Why can a tool not be called? (spec A)"""

QUESTIONS = {question.name: question for question in (CALLABILITY,)}
"""Every question, by the name of its file without its ending."""
