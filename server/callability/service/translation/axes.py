"""The axes of a policy's facts about tools, of which requests may have columns."""

from __future__ import annotations

from callability.policy.loading import ProvedRuleSet
from callability.policy.questions.callability import CALLABILITY
from callability.policy.questions.fact import Axis, DeclaredFact, Fact, NameFact
from callability.v1 import policy_service_pb2 as pb


def subject_of(fact: Fact) -> str:
    """Return what a fact is a fact of: `server`, `tool` or `agent`."""
    if isinstance(fact, DeclaredFact):
        return fact.of
    kind = fact.name.partition(".")[0]
    return kind if kind in CALLABILITY.declares else "tool"


def axis_messages(proved: ProvedRuleSet) -> list[pb.Axis]:
    """Return the axes of a rule set as the contract has them, in the order of their facts; none of other questions."""
    space = proved.diagram.space
    if space.question.name != CALLABILITY.name:
        return []
    facts = space.question.facts
    axes = sorted(space.axes, key=lambda axis: axis.facts)
    return [_message(axis, facts[axis.facts[0]]) for axis in axes]


def _message(axis: Axis, first: Fact) -> pb.Axis:
    points = [] if isinstance(first, NameFact) else [pb.AxisPoint(values=point.values) for point in axis.points]
    subject = pb.FactSubject.Value(f"FACT_SUBJECT_{subject_of(first).upper()}")
    return pb.Axis(facts=axis.facts, subject=subject, size=len(axis.points), points=points)
