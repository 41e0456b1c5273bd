"""Where each rule of a rule set decides, as its decision table says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from types import MappingProxyType

from callability.policy.mask import Mask, Masks, mask_of
from callability.policy.table import DecisionTable, Verdict


class Decided:
    """The masks of the verdicts of a decision table."""

    def __init__(self, table: DecisionTable) -> None:
        numbers: dict[Verdict, list[int]] = {}
        for number, (_, verdict) in enumerate(table):
            numbers.setdefault(verdict, []).append(number)
        size = table.space.size
        self.masks = Masks(table.space)
        self.verdicts: Mapping[Verdict, Mask] = MappingProxyType(
            {verdict: mask_of(found, size) for verdict, found in numbers.items()}
        )

    def where(self, *, rule: str | None = None, status: str | None = None, undetermined: bool | None = None) -> Mask:
        """Return where a rule was reached, a status given, or both; `undetermined`: only where it was, or was not."""
        return reduce(
            or_,
            (
                mask
                for verdict, mask in self.verdicts.items()
                if rule in {None, verdict.rule}
                and status in {None, verdict.status}
                and undetermined in {None, verdict.undetermined}
            ),
            0,
        )

    def at(self, one: Mask) -> Verdict:
        """Return the verdict of one combination."""
        return next(verdict for verdict, mask in self.verdicts.items() if mask & one)
