"""Bundles of many parts that take few bytes, of which a reader would have to make something larger."""

from __future__ import annotations

from collections.abc import Iterator

from callability.bundle.v1 import bundle_pb2 as pb
from callability.kernel.envelope import cost_of_payload, max_cost
from callability.v1.verdict_pb2 import LIFTED_BY_USER, RETRY_NEVER
from support.checkout import VECTORS
from support.hostile_bundles import sealed
from support.wire_mutations import varint

_SMALL = pb.Bundle.FromString((VECTORS / "bundles/small.bundle").read_bytes()).payload


def _named(number: int) -> str:
    """Return a short text that is no other number's."""
    return f"{number:x}"


def _fact(name: str, values: list[str]) -> pb.Fact:
    return pb.Fact(name=name, kind=pb.FACT_KIND_FIELD, subject=pb.FACT_SUBJECT_SERVER, values=values)


def _facts(found: pb.RuleSet, count: int) -> None:
    found.facts.extend(_fact(_named(number), [""]) for number in range(count))


def _values(found: pb.RuleSet, count: int) -> None:
    found.facts.append(_fact("f", [_named(number) for number in range(count)]))


def _name(found: pb.RuleSet, count: int) -> None:
    names = [_named(number) for number in range(count)]
    groups = [pb.PatternGroup(patterns=[each]) for each in names]
    classes = [pb.NameClass(groups=[number]) for number in range(count)]
    name = pb.Fact(name="n", kind=pb.FACT_KIND_NAME, subject=pb.FACT_SUBJECT_TOOL, values=names)
    name.pattern_groups.extend(groups)
    name.name_classes.extend(classes)
    found.facts.append(name)


def _patterns(found: pb.RuleSet, count: int) -> None:
    name = pb.Fact(name="n", kind=pb.FACT_KIND_NAME, subject=pb.FACT_SUBJECT_TOOL)
    name.pattern_groups.add(patterns=[f"{_named(number)}*" for number in range(count)])
    found.facts.append(name)


def _statuses(found: pb.RuleSet, count: int) -> None:
    places = range(len(found.statuses), len(found.statuses) + count)
    found.statuses.extend(
        pb.Status(name=_named(each), number=1000 + each, lifted_by=LIFTED_BY_USER, retry=RETRY_NEVER) for each in places
    )
    found.status_words.extend(pb.StatusWords(status=each, texts=["", ""]) for each in places)


def _rules(found: pb.RuleSet, count: int) -> None:
    status = found.rules[-1].status
    places = range(len(found.rules), len(found.rules) + count)
    found.rules.extend(pb.Rule(id=_named(each), status=status) for each in places)
    found.unread_starts.extend(pb.UnreadStart(rule=each) for each in places)


def _laws(found: pb.RuleSet, count: int) -> None:
    places = range(len(found.condition_parts), len(found.condition_parts) + count)
    found.condition_parts.extend(pb.ConditionPart(kind=pb.CONDITION_KIND_FACT_IS) for _ in places)
    found.laws.extend(pb.Law(condition=each) for each in places)


def _parts_of_a_part(found: pb.RuleSet, count: int) -> None:
    places = range(len(found.condition_parts), len(found.condition_parts) + count)
    found.condition_parts.extend(pb.ConditionPart(kind=pb.CONDITION_KIND_ANY) for _ in places)
    found.condition_parts.add(kind=pb.CONDITION_KIND_ALL, parts=places)
    found.laws.add(condition=places.stop)


def _axes(found: pb.RuleSet, count: int) -> None:
    places = range(len(found.facts), len(found.facts) + count)
    _facts(found, count)
    found.axes.extend(pb.Axis(facts=[each], readings=[0, 1]) for each in places)
    found.listed_facts.extend(places)


def _points(found: pb.RuleSet, count: int) -> None:
    values = [_named(number) for number in range(127)]
    while count > 0:
        place = len(found.facts)
        found.facts.extend(_fact(f"{place}{each}", values) for each in "ab")
        found.axes.add(
            facts=[place, place + 1], readings=[each for a in range(127) for b in range(127) for each in (a, b)]
        )
        found.listed_facts.extend([place, place + 1])
        count -= 127 * 127


def _readings(found: pb.RuleSet, count: int) -> None:
    _values(found, count)
    place = len(found.facts) - 1
    found.axes.add(facts=[place], readings=range(count + 1))
    found.listed_facts.append(place)


def _verdicts(found: pb.RuleSet, count: int) -> None:
    found.verdicts.extend(found.verdicts[:1] * count)


def _nodes(found: pb.RuleSet, count: int) -> None:
    axis = len(found.axes)
    _axes(found, 1)
    found.unread_diagram.places.extend([axis] * count)
    found.unread_diagram.children.extend([0, 0] * count)


_WHOLE = (
    _facts,
    _values,
    _name,
    _patterns,
    _statuses,
    _rules,
    _laws,
    _parts_of_a_part,
    _axes,
    _points,
    _readings,
    _verdicts,
    _nodes,
)
"""What adds parts of a kind to a rule set that is accepted with them."""


def _empty(number: int, count: int) -> bytes:
    """Return a field of a message again and again, without content."""
    return (b"%c\0" % (number << 3 | 2)) * count


def _with_rule_set(more: bytes) -> bytes:
    """Return the payload with more fields in the first rule set."""
    payload = pb.Payload.FromString(_SMALL)
    rule_sets = [each.SerializeToString() for each in payload.rule_sets]
    rule_sets[0] += more
    del payload.rule_sets[:]
    return payload.SerializeToString() + b"".join(b"\x2a" + varint(len(each)) + each for each in rule_sets)


def sparse_bundles(count: int) -> Iterator[tuple[str, bytes]]:
    """Yield bundles of so many parts of a kind, and what these are.

    Where the payload costs too much for its size, a second one has a rule file that makes it just large enough.
    """
    for field in pb.Payload.DESCRIPTOR.fields:
        if field.message_type is not None:
            yield f"empty {field.name}", sealed(_SMALL + _empty(field.number, count))
    yield "unknown fields", sealed(_SMALL + b"\x7a\0" * count)
    for field in pb.RuleSet.DESCRIPTOR.fields:
        if field.is_repeated and field.number < 16:
            yield f"empty {field.name}", sealed(_with_rule_set(_empty(field.number, count)))
    for add in _WHOLE:
        payload = pb.Payload.FromString(_SMALL)
        add(payload.rule_sets[0], count)
        data = payload.SerializeToString()
        yield add.__name__, sealed(data)
        missing = (cost_of_payload(data) + 1_024 - max_cost(len(data))) // (max_cost(1) - max_cost(0))
        if missing > 0:
            payload.rule_files.add(name="p", content=bytes(missing))
            yield f"{add.__name__}, padded", sealed(payload.SerializeToString())
