"""Messages with groups, which the contract does not use and protobuf skips."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from callability.kernel import limits
from callability.kernel.calls import EncodedCalls
from callability.kernel.limits import finish
from callability.kernel.policy import read
from callability.v1 import callability_service_pb2 as pb
from support.bundles import SHIPPED, bundle_of
from support.services import varint

MANY = 1_000_000


def _group(number: int, data: bytes = b"") -> bytes:
    return varint(number << 3 | 3) + data + varint(number << 3 | 4)


def _nested(depth: int) -> bytes:
    return varint(50 << 3 | 3) * depth + varint(50 << 3 | 4) * depth


def _bytes_field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def _is_message(data: bytes) -> bool:
    try:
        pb.CheckToolsRequest.FromString(data)
    except DecodeError:
        return False
    return True


@pytest.mark.parametrize(
    "data",
    [
        _group(50),
        _group(50, _bytes_field(1, b"abc") + b"\x08\x07"),
        _group(2_000, _group(1, b"\x0d1234") + _group(2)),
        _group(2),
        _nested(100),
        _nested(101),
        varint(50 << 3 | 3),
        varint(50 << 3 | 4),
        varint(50 << 3 | 3) + varint(51 << 3 | 4),
        _group(50, b"\x08"),
        _group(50) + varint(50 << 3 | 4),
        b"\x16\x00",
    ],
    ids=[
        "an empty group",
        "a group with fields",
        "groups in groups",
        "a group of the number of a field",
        "groups as deep as may be",
        "groups too deep",
        "a group without an end",
        "an end without a group",
        "a group with the end of another",
        "a field that ends with its group",
        "an end too many",
        "a wire type that does not exist",
    ],
)
def test_groups_are_accepted_and_refused_as_protobuf_does(data: bytes) -> None:
    """A newer client may send a field that way."""
    accepted = True
    try:
        limits.fields(data, MANY)
    except limits.MalformedRequest:
        accepted = False
    assert accepted == _is_message(data)


_PARTS = st.sampled_from(
    [varint(number << 3 | kind) for number in (2, 50, 51) for kind in (3, 4)]
    + [b"\x08\x07", b"\x1a\x03abc", b"\x0d1234", b"\x09" + bytes(8)]
)


@given(parts=st.lists(_PARTS, max_size=12))
def test_what_is_refused_as_no_message_is_none(parts: list[bytes]) -> None:
    """Accepted messages consist of whole fields; protobuf decides what they mean."""
    data = b"".join(parts)
    try:
        limits.fields(data, MANY)
    except limits.MalformedRequest:
        assert not _is_message(data)
    else:
        # Field 1 is the agent's, and field 3 is unknown: neither can be malformed here.
        assert _is_message(data)


def test_a_batch_with_a_group_that_is_not_known_is_answered() -> None:
    """In the request, at a server and at a tool."""
    group = _group(50, b"\x08\x07")
    tool = pb.Tool(name="t").SerializeToString() + group
    server = pb.ServerTools(name="s").SerializeToString() + _bytes_field(3, tool) + group
    calls = EncodedCalls(read(bundle_of(SHIPPED)), limited=True)
    reply = finish(calls.check_tools(_bytes_field(2, server) + group))
    [results] = pb.CheckToolsResponse.FromString(reply).servers
    assert [result.WhichOneof("result") for result in results.results] == ["verdict"]


def test_the_fields_in_a_group_count_and_the_largest_may_be_among_them() -> None:
    """Otherwise a group could evade a limit; a field that is counted separately is one of the message itself."""
    group = _group(50, _bytes_field(2, b"x" * 300) + b"\x08\x07")
    assert limits.fields(group, MANY, apart=2) == limits.Fields(4, 300)
    assert limits.fields(_bytes_field(2, b"x" * 300), MANY, apart=2) == limits.Fields(1, 0)


def test_a_large_value_is_counted_where_it_is() -> None:
    """A copy of it would take as long as to count it."""
    inner = _bytes_field(3, b"x" * 500) * 2_500
    data = _bytes_field(1, b"abc") + _bytes_field(2, inner) + _bytes_field(2, b"small")
    found = limits.fields(data, MANY, apart=2)
    assert [data[part] for part in found.large] == [inner]
    assert limits.fields(data, MANY, part=found.large[0]) == limits.Fields(2_500, 500)
    short = slice(found.large[0].start, found.large[0].stop - 1)
    with pytest.raises(limits.MalformedRequest):
        limits.fields(data, MANY, part=short)
    assert limits.fields(_group(50, b"\x08\x07" * 1_000), 10).count == 11


def test_others_get_turns_while_many_fields_are_counted() -> None:
    """Millions of empty tools in one message are counted up to the limit, which takes milliseconds."""
    data = _bytes_field(3, b"") * (3 * limits.AT_ONCE)
    assert len(list(limits.counting(data, MANY))) == 3
    assert len(list(limits.counting(data, limits.AT_ONCE))) == 2
