"""Bundles with fields that no library would write, drawn from those of a real one as they stand on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor

from callability.bundle.v1 import bundle_pb2 as pb
from support.hostile_bundles import MOST, mutated, sealed

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
_BAD_TEXTS = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xef\xbf\xbd", b"\x00")
_NUMBERS = (0, 1, 2, 3, 4, 5, 6, 7, 127, 128, MOST, MOST + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1)
_BAD_NUMBERS = (
    b"\x80" * 4 + b"\x10",
    b"\x80" * 9 + b"\x01",
    b"\x80" * 9 + b"\x02",
    b"\x80" * 10 + b"\x00",
    b"\x80",
    b"\x81\x00",
)
_ONE_BYTE = [bytes([number]) for number in range(128)]
_UNKNOWN = (8, 15, 16, 99, 2**29 - 1, 0, 2**29)


class Field:
    """A field of a message: `value` is a number, bytes, or the fields of a message; `raw` is written in its place."""

    def __init__(self, number: int, kind: int, value: Any, message: Descriptor | None = None) -> None:
        self.number, self.kind, self.value, self.message = number, kind, value, message

    def encoded(self) -> bytes:
        """Return the field as it stands on the wire."""
        tag = varint(self.number << 3 | self.kind)
        if self.kind == VARINT:
            return tag + (self.value if isinstance(self.value, bytes) else varint(self.value))
        content = encoded(self.value) if isinstance(self.value, list) else self.value
        return tag + (varint(len(content)) if self.kind == BYTES else b"") + content


def varint(number: int) -> bytes:
    """Return a number in as few bytes as possible."""
    if number <= 127:
        return _ONE_BYTE[number]
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def encoded(fields: list[Field]) -> bytes:
    """Return a message as it stands on the wire."""
    return b"".join(each.encoded() for each in fields)


def fields_of(data: bytes, message: Descriptor) -> list[Field]:
    """Return the fields of a message that holds numbers and bytes alone, and of each that it holds."""
    found, place = [], 0
    while place < len(data):
        tag, place = _varint(data, place)
        value: Any
        value, place = _varint(data, place)
        of = message.fields_by_number[tag >> 3].message_type
        if tag & 7 == BYTES:
            content = data[place : place + value]
            place += value
            value = fields_of(content, of) if of is not None else content
        found.append(Field(tag >> 3, tag & 7, value, of))
    return found


def _varint(data: bytes, place: int) -> tuple[int, int]:
    if data[place] < 128:
        return data[place], place + 1
    number = shift = 0
    while True:
        number |= (data[place] & 127) << shift
        place, shift = place + 1, shift + 7
        if data[place - 1] < 128:
            return number, place


def drawn_bundle(payload: bytes, seed: int) -> bytes:
    """Return a bundle that is made of a payload, with the digest of what it holds, chosen by a seed."""
    random = Random(seed)
    if random.random() < 0.2:
        payload = mutated(payload, seed)
    fields = fields_of(payload, pb.Payload.DESCRIPTOR)
    for _ in range(random.choice([0, 1, 1, 1, 2])):
        _change(fields, pb.Payload.DESCRIPTOR, random)
    if random.random() < 0.1:
        _mix_an_axis(fields, random)
    sealed_bytes = sealed(_garbled(encoded(fields), random))
    if random.random() < 0.75:
        return sealed_bytes
    envelope = fields_of(sealed_bytes, pb.Bundle.DESCRIPTOR)
    for _ in range(random.choice([0, 0, 0, 1, 9])):
        envelope.append(
            Field(5, BYTES, [Field(1, BYTES, b"2026"), Field(2, BYTES, b"x" * 64)], pb.Signature.DESCRIPTOR)
        )
    for _ in range(random.choice([1, 1, 2])):
        _change(envelope, pb.Bundle.DESCRIPTOR, random)
    if random.random() < 0.2:
        envelope.append(Field(2, VARINT, 2))
    return _garbled(encoded(envelope), random)


def _garbled(data: bytes, random: Random) -> bytes:
    """Return some bytes, a few of them with one that is another, more or missing."""
    if random.random() > 0.1 or not data:
        return data
    place = random.randrange(len(data))
    return (
        data[:place]
        + random.choice([b"", bytes([data[place] ^ 1 << random.randrange(8)]), b"\x00"])
        + data[place + 1 :]
    )


def _places(fields: list[Field], message: Descriptor) -> Iterator[tuple[str, list[Field], Descriptor, int]]:
    """Yield the fields of a message and of those that it holds: what each is of, and its list, type and place."""
    for place, each in enumerate(fields):
        yield f"{message.name}.{each.number}", fields, message, place
        if isinstance(each.value, list) and each.message is not None:
            yield from _places(each.value, each.message)


def _change(fields: list[Field], message: Descriptor, random: Random) -> None:
    """Change one field; those of each kind are chosen as often as those of any other."""
    by_kind: dict[str, list[tuple[list[Field], Descriptor, int]]] = {}
    for kind, found, of, at in _places(fields, message):
        by_kind.setdefault(kind, []).append((found, of, at))
    if by_kind:
        fields, message, place = random.choice(by_kind[random.choice(sorted(by_kind))])
        if random.random() < 0.1:
            _add_known(fields, message, random)
        else:
            random.choice(_CHANGES)(fields, place, random)


def _add_known(fields: list[Field], message: Descriptor, random: Random) -> None:
    """Add a field of the schema, which may be there already."""
    field = random.choice(message.fields)
    if field.message_type is not None or field.type in {field.TYPE_STRING, field.TYPE_BYTES}:
        fields.append(Field(field.number, BYTES, random.choice([b"", b"a"]), field.message_type))
    else:
        fields.append(Field(field.number, VARINT, random.choice([0, 1, 2, 3, 4, 5, 6, 7, 8])))


def _replace(fields: list[Field], place: int, random: Random) -> None:
    field = fields[place]
    if field.kind == VARINT:
        field.value = random.choice([*_NUMBERS, *_BAD_NUMBERS])
    elif field.kind == BYTES and isinstance(field.value, bytes):
        text, number = random.choice(_BAD_TEXTS), random.choice([*map(varint, _NUMBERS), *_BAD_NUMBERS])
        cut = random.randrange(len(field.value) + 1)
        field.value = random.choice(
            [text, field.value + text, field.value[:cut] + number + field.value[cut:], field.value[:cut], b"0" * 4_001]
        )


def _replace_kind(fields: list[Field], place: int, random: Random) -> None:
    number = fields[place].number
    fields[place] = random.choice(_of_any_kind(number, random))


def _of_any_kind(number: int, random: Random) -> list[Field]:
    inner = [Field(1, VARINT, 1), *([Field(number, GROUP_END, b"")] if random.random() < 0.8 else [])]
    return [
        Field(number, VARINT, random.choice(_NUMBERS)),
        Field(number, FIXED64, b"\x01" * 8),
        Field(number, FIXED32, b"\x01" * 4),
        Field(number, BYTES, random.choice([b"", b"\x08\x01", b"\xff"])),
        Field(number, GROUP, inner),
        Field(number, GROUP_END, b""),
        Field(number, 6, b""),
    ]


def _delete(fields: list[Field], place: int, random: Random) -> None:
    del fields[place]


def _repeat(fields: list[Field], place: int, random: Random) -> None:
    fields[random.randrange(len(fields) + 1) : 0] = [fields[place]] * random.choice([1, 1, 2, 10])


def _swap(fields: list[Field], place: int, random: Random) -> None:
    other = random.randrange(len(fields))
    fields[place], fields[other] = fields[other], fields[place]


def _add_unknown(fields: list[Field], place: int, random: Random) -> None:
    fields.insert(place, random.choice(_of_any_kind(random.choice(_UNKNOWN), random)))


def _split(fields: list[Field], place: int, random: Random) -> None:
    """Write a message in two parts, or the numbers of a list one by one."""
    field = fields[place]
    if field.kind != BYTES:
        return
    cut = random.randrange(len(field.value) + 1)
    if isinstance(field.value, list) or random.random() < 0.5:
        parts = [Field(field.number, BYTES, part, field.message) for part in (field.value[:cut], field.value[cut:])]
    else:
        parts = [Field(field.number, VARINT, each & 127) for each in field.value[:50]]
    fields[place : place + 1] = parts


def _reverse(fields: list[Field], place: int, random: Random) -> None:
    """Turn the places of a list around, or those of equal fields."""
    field = fields[place]
    if isinstance(field.value, bytes) and random.random() < 0.5:
        field.value = field.value[::-1]
        return
    alike = [number for number, each in enumerate(fields) if each.number == field.number]
    values = [fields[number] for number in alike]
    for number, value in zip(alike, reversed(values), strict=True):
        fields[number] = value


def _empty(fields: list[Field], place: int, random: Random) -> None:
    field = fields[place]
    if field.kind == BYTES:
        fields[place : place + 1] = [Field(field.number, BYTES, [], field.message)] * random.choice([1, 1, 2, 300])


def _mix_an_axis(fields: list[Field], random: Random) -> None:
    """Add facts of any owners, and an axis of them."""
    rule_set = random.choice([each.value for each in fields if each.number == 5 and isinstance(each.value, list)])
    known = sum(each.number == 2 for each in rule_set)
    added = random.randrange(1, 4)
    for number in range(added):
        subject = Field(3, VARINT, random.choice([1, 2, 3, 3, 4, 5]))
        content = [Field(1, BYTES, b"mixed %d" % number), Field(2, VARINT, 1), subject, Field(5, BYTES, b"yes")]
        rule_set.append(Field(2, BYTES, content))
    places = b"".join(varint(known + number) for number in range(added))
    readings = bytes([0] * added + [1] * added)
    rule_set.append(Field(11, BYTES, [Field(1, BYTES, places), Field(2, BYTES, readings)]))
    rule_set.append(Field(17, BYTES, places))


_CHANGES: tuple[Callable[[list[Field], int, Random], None], ...] = (
    *[_replace] * 5,
    _replace_kind,
    _delete,
    _repeat,
    _swap,
    _add_unknown,
    _split,
    *[_reverse] * 2,
    _empty,
)
