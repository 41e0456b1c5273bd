"""Conditions from the flat list of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from callability.bundle.v1 import bundle_pb2 as pb
from callability.kernel.condition import All, Any, Condition, Is, Not
from callability.kernel.fact import Fact
from callability.kernel.refusal import invalid

MAX_DEPTH = 128
"""Parts within parts of one condition: more than the reader of rule files allows."""


class Conditions:
    """The conditions of a rule set: each part is taken once, by a part, a rule or a law."""

    def __init__(self, parts: Iterable[pb.ConditionPart], facts: Sequence[Fact]) -> None:
        self._facts = facts
        self._left: dict[int, tuple[Condition, int]] = {}
        for number, part in enumerate(parts):
            condition, depth = self._condition(part)
            if depth > MAX_DEPTH:
                raise invalid(f"a condition is nested more than {MAX_DEPTH} levels deep")
            self._left[number] = condition, depth

    def take(self, number: int) -> Condition:
        """Return a condition that nothing took before.

        Raises:
            BundleRefused: there is none of this number.
        """
        return self._taken(number)[0]

    def check_all_taken(self) -> None:
        """Refuse parts that belong to nothing.

        Raises:
            BundleRefused: there are some.
        """
        if self._left:
            raise invalid("a part of a condition belongs to nothing")

    def _taken(self, number: int) -> tuple[Condition, int]:
        # A part is here only if it comes before the one that takes it.
        try:
            return self._left.pop(number)
        except KeyError:
            raise invalid(f"part {number} of a condition does not exist, comes too late or is used twice") from None

    def _condition(self, part: pb.ConditionPart) -> tuple[Condition, int]:
        if part.kind == pb.CONDITION_KIND_FACT_IS:
            return self._fact_is(part), 1
        taken = [self._taken(number) for number in part.parts]
        depth = 1 + max((each for _, each in taken), default=0)
        parts = tuple(condition for condition, _ in taken)
        match part.kind:
            case pb.CONDITION_KIND_ALL:
                return All(parts), depth
            case pb.CONDITION_KIND_ANY:
                return Any(parts), depth
            case pb.CONDITION_KIND_NOT if len(parts) == 1:
                return Not(parts[0]), depth
        raise invalid("a part of a condition has an unknown kind, or a `not` has not one part")

    def _fact_is(self, part: pb.ConditionPart) -> Is:
        if part.fact >= len(self._facts) or part.parts:
            raise invalid("a condition reads a fact that does not exist")
        fact = self._facts[part.fact]
        readings = tuple(part.readings)
        if any(number >= len(fact.values) for number in readings) or list(readings) != sorted(set(readings)):
            raise invalid("a condition names a value that does not exist")
        # A name is compared by the patterns, and any other fact by its values: both say the same as the readings.
        written = part.written if fact.classes is not None else (fact.values[number] for number in readings)
        return Is(fact.name, frozenset(written))
