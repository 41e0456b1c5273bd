"""Conditions as a flat list of parts, in which the parts of a part come before it."""

from __future__ import annotations

from collections.abc import Mapping

from callability.bundle.v1 import bundle_pb2 as pb
from callability.kernel.condition import All, Any, Condition, Is, Not
from callability.policy.questions.question import Question


class ConditionParts:
    """Collects the parts of the conditions of a rule set. `written` are all of them so far."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._places: Mapping[str, int] = {name: place for place, name in enumerate(question.facts)}
        self.written: list[pb.ConditionPart] = []

    def add(self, condition: Condition | None) -> int | None:
        """Add the parts of a condition, and return its place; None if there is no condition."""
        return None if condition is None else self._add(condition)

    def _add(self, condition: Condition) -> int:
        part = self._part(condition)
        self.written.append(part)
        return len(self.written) - 1

    def _part(self, condition: Condition) -> pb.ConditionPart:
        match condition:
            case Is(fact=name, values=values):
                fact = self._question.facts[name]
                held = frozenset(fact.held_by(values))
                return pb.ConditionPart(
                    kind=pb.CONDITION_KIND_FACT_IS,
                    fact=self._places[name],
                    readings=[number for number, value in enumerate(fact.values) if value in held],
                    written=sorted(values),
                )
            case Not(part=part):
                return pb.ConditionPart(kind=pb.CONDITION_KIND_NOT, parts=[self._add(part)])
            case All(parts=parts):
                return pb.ConditionPart(kind=pb.CONDITION_KIND_ALL, parts=[self._add(part) for part in parts])
            case Any(parts=parts):
                return pb.ConditionPart(kind=pb.CONDITION_KIND_ANY, parts=[self._add(part) for part in parts])
