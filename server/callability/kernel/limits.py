"""How much a request may hold, in bytes and in items; the numbers are part of the contract.

It is checked before a request is parsed, because parsing makes an object of each item.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from callability.contract.finding import MAX_FINDINGS

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


Result = TypeVar("Result")


class MalformedRequest(Exception):
    """The bytes are not the fields of a message."""


@dataclass(frozen=True, slots=True)
class Fields:
    """How many fields a message has, and the bytes of the largest, except a field that is counted separately."""

    count: int
    largest: int
    large: tuple[slice, ...] = ()
    """Where the values of the field that is counted separately are, if they have more than `LARGE` bytes."""


def finish(steps: Generator[None, None, Result]) -> Result:
    """Go through long work without giving others a turn, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


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
    return finish(counting(data, limit, apart, part))


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
        raise MalformedRequest from None
    if place > end or (groups and count <= limit):
        raise MalformedRequest
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
    raise MalformedRequest


def _enter_or_leave(groups: list[int], tag: int) -> None:
    """Begin or end a group; it ends with the number with which it began, and before the one around it."""
    if tag & 7 == _GROUP_START:
        groups.append(tag >> 3)
        if len(groups) > _MAX_DEPTH:
            raise MalformedRequest
    elif not groups or groups.pop() != tag >> 3:
        raise MalformedRequest


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    number = 0
    for shift in range(0, 7 * _MAX_VARINT, 7):
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise MalformedRequest


TOOLS = 20_000
SERVERS = 2_000
NAME_BYTES = 512
MESSAGE_BYTES = 4 * 1024 * 1024
"""Bytes of a request; a reply may have more."""
LABELS = 64
LABEL_KEY_BYTES = 128
LABEL_VALUE_BYTES = 512
DECLARED_FACTS = 64
DECLARED_FACT_NAME_BYTES = 128
DECLARED_FACT_VALUE_BYTES = 128
ERROR_TEXT_BYTES = 65_536
POLICY_FILES = 16
POLICY_BYTES = 2_097_152
POLICY_FINDINGS = MAX_FINDINGS
VALIDATIONS = 2
VALIDATION_SECONDS = 60
FACTS_BYTES = 65_536
"""Bytes of the facts of a server, a tool or an agent: those of 64 labels and 64 declared facts of the greatest size,
and room for what is added.
"""
PARTS_BYTES = 1_048_576
"""Bytes of a server with its tools whose facts are encoded in parts, which no library does by itself."""
CONCURRENT_CALLS = 2_000
"""Calls in progress at a time, by default."""
CONNECTION_STREAMS = 6_000
"""Streams of one connection, including those that its client has reset and the service has not yet cleaned up.

More are refused by gRPC, before they can hold up other connections. It is well above `CONCURRENT_CALLS`, because gRPC
refuses them as UNAVAILABLE, without a reason.
"""


class InvalidRequest(Exception):
    """The caller has to change the request: `reason` is that of the contract, and `message` is one sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class InvalidName(InvalidRequest):
    """A name in the request is not one."""


def check_name(name: bytes, what: str, *, empty: bool = False) -> None:
    """Check the name of a tool, a server or an agent; `empty` allows an empty one.

    Raises:
        InvalidName: it is empty, longer than `NAME_BYTES` or not UTF-8.
    """
    if not name and not empty:
        raise InvalidName("NAME_EMPTY", f"the name of the {what} is empty, and has 1 to {NAME_BYTES} bytes")
    if len(name) > NAME_BYTES:
        found = f"the name of the {what} has {len(name):,} bytes"
        raise InvalidName("NAME_TOO_LONG", f"{found}, and may have {NAME_BYTES}")
    if not name.isascii():
        try:
            name.decode()
        except UnicodeDecodeError:
            raise InvalidName("NAME_NOT_UTF8", f"the name of the {what} is not UTF-8") from None


def check_labels(labels: Mapping[str, str], what: str) -> None:
    """Check the labels of a tool, a server or an agent.

    Raises:
        InvalidRequest: there are too many, or a key or a value is too long.
    """
    if len(labels) > LABELS:
        raise InvalidRequest("TOO_MANY_LABELS", f"the {what} has {len(labels):,} labels, and may have {LABELS}")
    for key, value in labels.items():
        if not 0 < len(key.encode()) <= LABEL_KEY_BYTES:
            message = (
                f"the key of a label of the {what} has {len(key.encode()):,} bytes, and has 1 to {LABEL_KEY_BYTES}"
            )
            raise InvalidRequest("LABEL_KEY_SIZE", message)
        if len(value.encode()) > LABEL_VALUE_BYTES:
            message = (
                f"a label of the {what} has a value of {len(value.encode()):,} bytes, and may have {LABEL_VALUE_BYTES}"
            )
            raise InvalidRequest("LABEL_VALUE_TOO_LONG", message)


def check_declared_facts(facts: Mapping[str, str], what: str) -> None:
    """Check the declared facts that are sent of a tool, a server or an agent.

    Raises:
        InvalidRequest: there are too many, or a name or a value is empty or too long.
    """
    if len(facts) > DECLARED_FACTS:
        found = f"the {what} has {len(facts):,} declared facts, and may have {DECLARED_FACTS}"
        raise InvalidRequest("TOO_MANY_DECLARED_FACTS", found)
    for name, value in facts.items():
        if not 0 < len(name.encode()) <= DECLARED_FACT_NAME_BYTES:
            found = f"the name of a declared fact of the {what} has {len(name.encode()):,} bytes"
            raise InvalidRequest("DECLARED_FACT_NAME_SIZE", f"{found}, and has 1 to {DECLARED_FACT_NAME_BYTES}")
        if not 0 < len(value.encode()) <= DECLARED_FACT_VALUE_BYTES:
            found = f"the value of a declared fact of the {what} has {len(value.encode()):,} bytes"
            raise InvalidRequest("DECLARED_FACT_VALUE_SIZE", f"{found}, and has 1 to {DECLARED_FACT_VALUE_BYTES}")


def check_error_text(text: str) -> None:
    """Check the text of an error.

    Raises:
        InvalidRequest: it is too long.
    """
    size = len(text.encode())
    if size > ERROR_TEXT_BYTES:
        message = f"the text of the error has {size:,} bytes, and may have {ERROR_TEXT_BYTES:,}"
        raise InvalidRequest("ERROR_TEXT_TOO_LONG", message)


def check_policy_files(files: Sequence[tuple[str, int]]) -> None:
    """Check the files of a policy, each a name and a number of bytes.

    Raises:
        InvalidRequest: there are too many, or they are too large.
        InvalidName: a name is empty, too long, that of a path, or is repeated.
    """
    if len(files) > POLICY_FILES:
        raise InvalidRequest("TOO_MANY_FILES", f"the policy has {len(files):,} files, and may have {POLICY_FILES}")
    size = sum(length for _, length in files)
    if size > POLICY_BYTES:
        raise InvalidRequest("POLICY_TOO_LARGE", f"the policy has {size:,} bytes, and may have {POLICY_BYTES:,}")
    names: set[str] = set()
    for name, _ in files:
        check_name(name.encode(), "file")
        if set(name) & {"/", "\0"} or name in {".", ".."}:
            raise InvalidName("FILE_NAME_IS_PATH", "the name of a file is that of a path, and may hold no directory")
        if name in names:
            raise InvalidName("DUPLICATE_FILE", "the name of a file is repeated")
        names.add(name)


def check_sizes(tools: int, servers: int) -> None:
    """Check how much is asked at once.

    Raises:
        InvalidRequest: there are too many tools or servers.
    """
    if tools > TOOLS:
        raise too_many_tools(f"{tools:,} tools")
    if servers > SERVERS:
        raise too_many_servers(f"{servers:,} servers")


def too_many_tools(found: str) -> InvalidRequest:
    """Return the error of a request in which so much was found."""
    return InvalidRequest("TOO_MANY_TOOLS", f"the request has {found}, and may have {TOOLS:,} tools: ask in parts")


def too_many_servers(found: str) -> InvalidRequest:
    """Return the error of a request in which so much was found."""
    return InvalidRequest(
        "TOO_MANY_SERVERS", f"the request has {found}, and may have {SERVERS:,} servers: ask in parts"
    )


def check_agent(size: int) -> None:
    """Check the bytes of an agent: its name and its facts.

    Raises:
        InvalidRequest: there are too many.
    """
    if size > FACTS_BYTES:
        found = f"the facts of the agent have {size:,} bytes, and may have {FACTS_BYTES:,}"
        raise InvalidRequest("FACTS_TOO_LARGE", found)


def check_facts(*facts: bytes) -> None:
    """Check the bytes of facts.

    Raises:
        InvalidRequest: there are too many.
    """
    size = max(map(len, facts))
    if size > FACTS_BYTES:
        raise InvalidRequest("FACTS_TOO_LARGE", f"the facts have {size:,} bytes, and may have {FACTS_BYTES:,}")


_NAMES_AND_MORE = 8_192
"""Bytes for names, for what surrounds them, and for fields that a newer client sends."""
_ITEM_BYTES = FACTS_BYTES + _NAMES_AND_MORE
_OTHER_FIELDS = 64
"""Fields beside the items: a newer client may send what this version does not know."""
_SERVERS_FIELD = 2
_TOOLS_FIELD = 3

REQUEST_BYTES: Mapping[str, int] = {
    "callability.v1.CallabilityService/CheckTool": 3 * FACTS_BYTES + _NAMES_AND_MORE,
    "callability.v1.CallabilityService/CheckTools": MESSAGE_BYTES,
    "callability.v1.CallabilityService/ExplainTool": 3 * FACTS_BYTES + _NAMES_AND_MORE,
    "callability.v1.CallabilityService/ClassifyLoad": ERROR_TEXT_BYTES + _NAMES_AND_MORE,
    "callability.v1.CallabilityService/ClassifyEnable": _NAMES_AND_MORE,
    "callability.v1.PolicyService/GetPolicy": _NAMES_AND_MORE,
    "callability.v1.PolicyService/WatchPolicy": _NAMES_AND_MORE,
    "callability.v1.PolicyService/ValidatePolicy": POLICY_BYTES + 2 * _NAMES_AND_MORE,
}
"""Bytes of a request, by method: those of the largest request that exceeds no other limit, and some room."""


def check_servers(request: bytes) -> tuple[slice, ...]:
    """Check how many servers a `CheckToolsRequest` has, and the size of what it has beside them.

    Returns: where the large servers are, which have to be checked by `check_large_servers`.

    Raises:
        InvalidRequest: there are too many, or too much, or it is malformed.
    """
    limit = SERVERS + _OTHER_FIELDS
    found = _fields(request, limit, "CheckToolsRequest", apart=_SERVERS_FIELD)
    if found.count > limit:
        raise too_many_servers(f"more than {limit:,} fields")
    _check_item(found)
    return found.large


def check_large_servers(request: bytes, servers: Iterable[slice]) -> Iterator[None]:
    """Check as `check_tools` does, but where the servers are: every copy of one delays other callers.

    Yields: now and then, so that others get a turn.

    Raises:
        InvalidRequest: there are too many tools, or one is too large, or a server is malformed.
    """
    left = TOOLS
    for part in servers:
        try:
            found = yield from counting(request, left + _OTHER_FIELDS, part=part)
        except MalformedRequest:
            raise _malformation("ServerTools") from None
        left -= _check_tools(found, left)


def check_tools(server: bytes, before: int) -> None:
    """Check how many tools a `ServerTools` has, and the size of each; `before` are in the servers before it.

    A large one is left to `check_large_servers`.

    Raises:
        InvalidRequest: there are too many, or one is too large, or it is malformed.
    """
    limit = TOOLS - before
    if len(server) <= LARGE and not at_most(server, _TOOLS_FIELD, limit):
        _check_tools(_fields(server, limit + _OTHER_FIELDS, "ServerTools"), limit)


def check_files(request: bytes) -> None:
    """Check how many files a `ValidatePolicyRequest` has.

    Raises:
        InvalidRequest: there are too many, or it is malformed.
    """
    limit = POLICY_FILES + _OTHER_FIELDS
    if _fields(request, limit, "ValidatePolicyRequest").count > limit:
        raise InvalidRequest(
            "TOO_MANY_FILES", f"the policy has more than {limit:,} fields, and may have {POLICY_FILES} files"
        )


def _check_tools(found: Fields, tools: int) -> int:
    """Check what is in a `ServerTools` that may have so many tools, and return how many it has at the least."""
    limit = tools + _OTHER_FIELDS
    if found.count > limit:
        raise too_many_tools(f"more than {limit:,} fields in a server")
    _check_item(found)
    return max(0, found.count - _OTHER_FIELDS)


def _fields(data: bytes, limit: int, message: str, apart: int = 0) -> Fields:
    try:
        return fields(data, limit, apart)
    except MalformedRequest:
        raise _malformation(message) from None


def _malformation(message: str) -> InvalidRequest:
    return InvalidRequest("REQUEST_MALFORMED", f"the request is not a `{message}`")


def _check_item(found: Fields) -> None:
    if found.largest > _ITEM_BYTES:
        message = f"an item of the request has {found.largest:,} bytes, and may have {_ITEM_BYTES:,}"
        raise InvalidRequest("ITEM_TOO_LARGE", message)
