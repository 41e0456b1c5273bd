"""What a message holds on the wire, counted before it is parsed: parsing makes an object of each item."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES, _GROUP_START, _GROUP_END, _FIXED32 = range(6)
_GROUP = (_GROUP_START, _GROUP_END)
_MAX_DEPTH = 100
"""Groups within groups, as protobuf has it."""
_MAX_VARINT = 10
AT_ONCE = 1_024
"""Fields that are counted between two turns of others."""
LARGE = 1_048_576
"""Bytes of a value that takes some milliseconds to copy, or to count field by field."""
_WHOLE = slice(None)


class Malformed(Exception):
    """The bytes are not the fields of a message."""


@dataclass(frozen=True, slots=True)
class Fields:
    """How many fields a message has, and the bytes of the largest, except a field that is counted separately."""

    count: int
    largest: int
    large: tuple[slice, ...] = ()
    """Where the values of the field that is counted separately are, if they have more than `LARGE` bytes."""


def at_most(data: bytes, field: int, limit: int) -> bool:
    """Return whether a message certainly has a field of bytes at most `limit` times.

    It only counts bytes that can be the tag of the field. That is fast, but the same bytes may occur elsewhere.
    """
    tag = field << 3 | _BYTES
    # A tag may be written with more bytes than it needs; each but the last then has its highest bit set.
    return len(data) // 2 <= limit or data.count(tag) + data.count(tag | 0x80) <= limit


def fields(data: bytes, limit: int, apart: int = 0, part: slice = _WHOLE) -> Fields:
    """Count the fields of a message, and stop when there are more than `limit`; `apart` may be of any size.

    The message is a part of `data`, or all of it, and is not copied. The fields in a group count as well. The contract
    has no groups, and of a newer client's they are skipped.

    Raises:
        Malformed: the bytes are not a message.
    """
    steps = counting(data, limit, apart, part)
    while True:
        try:
            next(steps)
        except StopIteration as counted:
            found: Fields = counted.value
            return found


def counting(data: bytes, limit: int, apart: int = 0, part: slice = _WHOLE) -> Generator[None, None, Fields]:
    """Count as `fields` does, and yield after `AT_ONCE` fields, so that others get a turn.

    Raises:
        Malformed: the bytes are not a message.
    """
    place, end, _ = part.indices(len(data))
    count = largest = 0
    large: list[slice] = []
    groups: list[int] = []
    apart = apart << 3 | _BYTES
    try:
        while place < end and count <= limit:
            pause = min(limit, count + AT_ONCE - 1)
            while place < end and count <= pause:
                tag = data[place]
                place += 1
                if tag >= 0x80:
                    tag, place = _varint(data, place - 1)
                count += 1
                if tag & 7 != _BYTES:
                    place = _behind(data, place, tag, groups)
                    continue
                size = data[place]
                place += 1
                # Two bytes are the usual case, and a call would take as long as all the rest.
                if size >= 0x80 and (high := data[place]) < 0x80:
                    size += (high - 1) << 7
                    place += 1
                elif size >= 0x80:
                    size, place = _varint(data, place - 1)
                place += size
                if size > largest:
                    if tag != apart or groups:
                        largest = size
                    elif size > LARGE:
                        large.append(slice(place - size, place))
            yield
    except IndexError:
        raise Malformed from None
    if place > end or (groups and count <= limit):
        raise Malformed
    return Fields(count, largest, tuple(large))


def _behind(data: bytes, place: int, tag: int, groups: list[int]) -> int:
    """Return the place behind a number, or behind the tag that begins or ends a group."""
    kind = tag & 7
    if kind in _GROUP:
        _enter_or_leave(groups, tag)
        return place
    if kind == _VARINT:
        return _varint(data, place)[1]
    if kind == _FIXED32:
        return place + 4
    if kind == _FIXED64:
        return place + 8
    raise Malformed


def _enter_or_leave(groups: list[int], tag: int) -> None:
    """Begin or end a group; it ends with the number with which it began, and before the one around it."""
    if tag & 7 == _GROUP_START:
        groups.append(tag >> 3)
        if len(groups) > _MAX_DEPTH:
            raise Malformed
    elif not groups or groups.pop() != tag >> 3:
        raise Malformed


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    number = 0
    for shift in range(0, 7 * _MAX_VARINT, 7):
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise Malformed
