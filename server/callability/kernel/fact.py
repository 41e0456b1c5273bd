"""A fact of a bundle, and how its values are numbered."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from callability.bundle.v1 import bundle_pb2 as pb
from callability.finding import shown
from callability.kernel.names import NameClasses
from callability.kernel.refusal import invalid
from callability.v1 import verdict_pb2
from callability.vocabulary import UNKNOWN, LiftedBy

_OWNERS = {
    number: LiftedBy(name.removeprefix("LIFTED_BY_").lower()) for name, number in verdict_pb2.LiftedBy.items() if number
}
_KINDS = frozenset(pb.FactKind.values()) - {0}
_SUBJECTS = frozenset(pb.FactSubject.values()) - {0}


@dataclass(frozen=True, slots=True)
class Fact:
    """An input with a finite list of values.

    A reading of it is a number: the place of a value, or the number of values if it is unknown. Of a name, the values
    represent the `classes` of names.
    """

    name: str
    kind: pb.FactKind.ValueType
    subject: pb.FactSubject.ValueType
    key: str
    values: tuple[str, ...]
    open_value: str
    asserted: bool
    hint: bool
    stays_unknown: bool
    opened_by: LiftedBy | None
    action: str
    opened_by_any_value: bool
    numbers: dict[str, int]
    classes: NameClasses | None

    @property
    def readings(self) -> int:
        """How many readings it has."""
        return len(self.values) + (not self.asserted)

    def reading(self, given: str) -> int:
        """Return the reading of a given value, of a name its class. One that is not listed is unknown."""
        if self.classes is not None and given != UNKNOWN:
            return self.classes.class_of(given)
        found = self.numbers.get(given)
        if found is None:
            return self.numbers[self.open_value] if self.asserted else len(self.values)
        return found

    def text(self, reading: int) -> str:
        """Return a reading in words: its value, or the word for an unknown one."""
        return self.values[reading] if reading < len(self.values) else UNKNOWN

    def of_name(self, name: str) -> str:
        """Return a readable name, even if it is spelled like the word for an unreadable one."""
        return self.values[self.classes.class_of(name)] if name == UNKNOWN and self.classes is not None else name

    def shown(self, given: str) -> str:
        """Return a given value as a sentence shows it: a name quoted, since somebody else chose it."""
        return shown(given) if self.kind == pb.FACT_KIND_NAME and given != UNKNOWN else given


def fact_of(message: pb.Fact) -> Fact:
    """Return a fact of a bundle.

    Raises:
        BundleRefused: it contradicts itself.
    """
    values = tuple(message.values)
    numbers = {value: number for number, value in enumerate(values)}
    _check(message, len(numbers))
    return Fact(
        name=message.name,
        kind=message.kind,
        subject=message.subject,
        key=message.key,
        values=values,
        open_value=values[message.default_value] if values else "",
        asserted=message.asserted,
        hint=message.hint,
        stays_unknown=message.stays_unknown,
        opened_by=_OWNERS.get(message.changed_by),
        action=message.action,
        opened_by_any_value=message.any_value,
        numbers=numbers,
        classes=_classes(message) if message.kind == pb.FACT_KIND_NAME and values else None,
    )


def _check(message: pb.Fact, different: int) -> None:
    is_name = message.kind == pb.FACT_KIND_NAME
    keyed = message.kind in {pb.FACT_KIND_LABEL, pb.FACT_KIND_DECLARED}
    sound = (
        message.name
        and message.kind in _KINDS
        and message.subject in _SUBJECTS
        and bool(message.key) is keyed
        and different == len(message.values)
        and (message.default_value < different or (is_name and not different and not message.default_value))
        and len(message.name_classes) == (different if is_name else 0)
        and (is_name or not message.pattern_groups)
        and (not message.changed_by or message.changed_by in _OWNERS)
    )
    if not sound:
        raise invalid(f"fact {shown(message.name)} contradicts itself")


def _classes(message: pb.Fact) -> NameClasses:
    groups = len(message.pattern_groups)
    classes: dict[tuple[int, ...], int] = {}
    for number, each in enumerate(message.name_classes):
        of_class = tuple(each.groups)
        if any(group >= groups for group in of_class):
            raise invalid(f"a class of {shown(message.name)} names a group of patterns that does not exist")
        if any(group >= after for group, after in pairwise(of_class)):
            raise invalid(f"a class of {shown(message.name)} names groups of patterns out of order")
        classes[of_class] = number
    if len(classes) != len(message.name_classes):
        raise invalid(f"two classes of {shown(message.name)} are the same")
    return NameClasses(message.pattern_groups, classes)
