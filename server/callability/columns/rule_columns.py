"""What a rule set decides for columns of codes: for each row a verdict, and the facts that are unread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from callability.bundle.v1 import bundle_pb2 as pb
from callability.columns.fact_column import Codes
from callability.columns.name_classes import NameClasses
from callability.columns.states import sources
from callability.columns.transitions import Walk, walk_of

Answers = NDArray[Any]
"""Integers of 64 bits, or Python's for a rule set whose answers have more."""
MAX_BITS = 62
"""Bits of an answer that fit an array of integers."""


class RuleColumns:
    """A rule set over columns of codes.

    An *answer* is the number of a verdict with a bit below it for each fact that its rule may leave unread.
    """

    def __init__(self, rule_set: pb.RuleSet) -> None:
        self.rule_set = rule_set
        facts, axes, verdicts = rule_set.facts, rule_set.axes, len(rule_set.verdicts)
        self.facts = tuple(sorted({fact for axis in axes for fact in sources(axis, facts)}))
        self.names = {
            place: NameClasses(facts[place]) for place in self.facts if facts[place].kind == pb.FACT_KIND_NAME
        }
        """The classes of each fact that is a name."""
        nodes = len(rule_set.diagram.places)
        self._walk = walk_of(rule_set.diagram, axes, facts, [verdicts + nodes - 1 if nodes else 0], verdicts)
        self.unread = _unread_of(rule_set)
        """For each verdict the facts that may be unread, each with where to start in the diagram of unread facts."""
        self.slots = max(map(len, self.unread), default=0)
        bits = verdicts.bit_length() + self.slots
        self.answer_type: type[np.generic] = np.intp if bits <= MAX_BITS else np.object_
        """The type of an array of answers: Python's integers are slower, and have as many bits as they need."""
        # What does not depend on a row is known for each verdict; the rest is looked up for the rows that need it.
        self.fixed: Answers = np.array(
            [_fixed(verdict, starts, self.slots) for verdict, starts in enumerate(self.unread)], self.answer_type
        )
        """The answer of each verdict, without the unread facts that depend on a row."""
        self._varying = [
            (slot, np.array([_at(starts, slot) > 1 for starts in self.unread]), self._unread_walk(slot))
            for slot in range(self.slots)
            if any(_at(starts, slot) > 1 for starts in self.unread)
        ]

    @property
    def varies(self) -> bool:
        """Whether unread facts depend on more than the verdict."""
        return bool(self._varying)

    def decide(self, codes: Mapping[int, Codes | int], rows: int) -> tuple[NDArray[np.intp], Answers | None]:
        """Return the verdict of each row, and its answer if unread facts vary, from the codes of `facts`."""
        verdicts = np.broadcast_to(self._walk.follow(None, codes), (rows,))
        if not self._varying:
            return verdicts, None
        answers = np.take(self.fixed, verdicts, mode="clip")
        for slot, varies, walk in self._varying:
            places = np.flatnonzero(np.take(varies, verdicts, mode="clip"))
            if len(places):
                mine = {fact: code[places] if isinstance(code, np.ndarray) else code for fact, code in codes.items()}
                unread = np.broadcast_to(walk.follow(verdicts[places], mine), places.shape)
                answers[places] |= unread.astype(self.answer_type, copy=False) << slot
        return verdicts, answers

    def unread_facts(self, answer: int) -> tuple[pb.Fact, ...]:
        """Return the unread facts of an answer, in the order of the facts."""
        unread = self.unread[answer >> self.slots]
        return tuple(self.rule_set.facts[fact] for slot, (fact, _) in enumerate(unread) if answer >> slot & 1)

    def _unread_walk(self, slot: int) -> Walk:
        starts = [_at(starts, slot) for starts in self.unread]
        return walk_of(self.rule_set.unread_diagram, self.rule_set.axes, self.rule_set.facts, starts, 2)


def _unread_of(rule_set: pb.RuleSet) -> list[tuple[tuple[int, int], ...]]:
    by_rule: dict[int, list[tuple[int, int]]] = {}
    for each in rule_set.unread_starts:
        by_rule.setdefault(each.rule, []).append((each.fact, each.start))
    # An undetermined verdict has an unread fact: if there is only one that it can be, it is that.
    by_rule |= {rule: [(facts[0][0], 1)] for rule, facts in by_rule.items() if len(facts) == 1}
    return [tuple(by_rule.get(each.rule, ())) if each.undetermined else () for each in rule_set.verdicts]


def _at(starts: Sequence[tuple[int, int]], slot: int) -> int:
    return starts[slot][1] if slot < len(starts) else 0


def _fixed(verdict: int, starts: Sequence[tuple[int, int]], slots: int) -> int:
    return (verdict << slots) | sum(1 << slot for slot, (_, start) in enumerate(starts) if start == 1)
