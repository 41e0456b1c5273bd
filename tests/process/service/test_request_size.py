"""Requests that are too large: refused before they are parsed, and their memory is returned."""

from __future__ import annotations

import platform
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.kernel import limits
from callability.kernel.limits import MESSAGE_BYTES
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.running import Service, resident, service
from support.services import reason_of, varint
from support.waiting import eventually

_SERVICE = "callability.v1.CallabilityService"
_POLICY = "callability.v1.PolicyService"


def _field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def _full(item: bytes, less: int = 64) -> bytes:
    return item * ((MESSAGE_BYTES - less) // len(item))


LABELS = facts_pb2.Labels(values={f"{number}": "" for number in range(9_000)}).SerializeToString()
CASES: dict[str, tuple[str, bytes, str]] = {
    "2.1 million tools": (f"{_SERVICE}/CheckTools", _field(2, _full(b"\x1a\0")), "TOO_MANY_TOOLS"),
    "tags with more bytes than they need": (
        f"{_SERVICE}/CheckTools",
        _field(2, b"\x9a\x00\x00" * 30_000),
        "TOO_MANY_TOOLS",
    ),
    "2.1 million servers": (f"{_SERVICE}/CheckTools", _full(b"\x12\0"), "TOO_MANY_SERVERS"),
    "millions of tools in 2,000 servers": (
        f"{_SERVICE}/CheckTools",
        _field(2, b"\x1a\0" * 1_000) * 2_000,
        "TOO_MANY_TOOLS",
    ),
    "too many tools in two large servers": (
        f"{_SERVICE}/CheckTools",
        _field(2, _field(3, b"x" * 96) * 20_500) * 2,
        "TOO_MANY_TOOLS",
    ),
    "a large server whose last tool is cut": (
        f"{_SERVICE}/CheckTools",
        _field(2, (_field(3, b"x" * 100) * 12_000)[:-1]) + _field(2, b""),
        "REQUEST_MALFORMED",
    ),
    "2.1 million names": (f"{_SERVICE}/CheckTools", _field(2, _full(b"\x0a\0")), "TOO_MANY_TOOLS"),
    "a tool of 4 MiB": (
        f"{_SERVICE}/CheckTools",
        _field(2, _field(3, _full(b"\x0a\0", 128))),
        "ITEM_TOO_LARGE",
    ),
    "an agent of 4 MiB": (f"{_SERVICE}/CheckTools", _field(1, _full(b"\x0a\0")), "ITEM_TOO_LARGE"),
    "a message in millions of parts": (
        f"{_SERVICE}/CheckTools",
        _field(2, b"".join([_field(2, _field(3, LABELS[:60_000]))] * 20)),
        "ITEM_TOO_LARGE",
    ),
    "what is no message": (f"{_SERVICE}/CheckTools", b"\x0b" * 5_000, "REQUEST_MALFORMED"),
    "one tool with much": (f"{_SERVICE}/CheckTool", _full(b"\x0a\0"), "REQUEST_TOO_LARGE"),
    "facts that are too large": (
        f"{_SERVICE}/CheckTool",
        _field(2, b"s") + _field(4, b"t") + _field(5, _field(5, LABELS)),
        "FACTS_TOO_LARGE",
    ),
    "one tool to explain with much": (f"{_SERVICE}/ExplainTool", _full(b"\x0a\0"), "REQUEST_TOO_LARGE"),
    "a load with much": (f"{_SERVICE}/ClassifyLoad", _full(b"\x0a\0"), "REQUEST_TOO_LARGE"),
    "an enable with much": (f"{_SERVICE}/ClassifyEnable", _full(b"\x0a\0"), "REQUEST_TOO_LARGE"),
    "nothing, at length": (f"{_POLICY}/GetPolicy", _full(b"\x7a\0"), "REQUEST_TOO_LARGE"),
    "a policy of 4 MiB": (f"{_POLICY}/ValidatePolicy", _full(b"\x0a\0"), "REQUEST_TOO_LARGE"),
    "a million files": (f"{_POLICY}/ValidatePolicy", b"\x0a\0" * 1_000_000, "TOO_MANY_FILES"),
}

LARGE_TO = (
    f"/{_POLICY}/WatchPolicy",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
)
"""Methods whose requests are small, and which are no calls of the contract with one request and one reply."""


@pytest.fixture(scope="module")
def running() -> Any:
    """A service of its own, whose memory nothing else uses."""
    with service() as started:
        yield started


@pytest.mark.parametrize("name", CASES)
def test_a_request_over_a_limit_is_refused_and_takes_no_memory(name: str, running: Service) -> None:
    """By its bytes or its items, with a reason; the service continues."""
    method, request, reason = CASES[name]
    with grpc.insecure_channel(running.address) as channel:
        assert CallabilityServiceStub(channel).CheckTool(pb.CheckToolRequest(server="s", tool="t")).revision
        before = resident(running)
        for _ in range(3):
            call: Any = channel.unary_unary(f"/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                call(request)
            assert (caught.value.code(), reason_of(caught.value)) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
        assert CallabilityServiceStub(channel).CheckTool(pb.CheckToolRequest(server="s", tool="t")).revision
    assert resident(running) - before < 50


def test_what_is_counted_before_parsing_is_named_as_such(running: Service) -> None:
    """Servers and fields of a newer client count together; the sentence has the limit."""
    with grpc.insecure_channel(running.address) as channel:
        call: Any = channel.unary_unary(f"/{_SERVICE}/CheckTools")
        for request in (b"\x12\0" * 2_065, b"\xa0\x06\x01" * 2_065):
            with pytest.raises(grpc.RpcError) as caught:
                call(request)
            said = "the request has more than 2,064 fields, and may have 2,000 servers: ask in parts"
            assert caught.value.details() == said


def test_the_largest_legal_batch_is_answered(running: Service) -> None:
    """20,000 tools, or fewer with names of the maximum length and with labels; and the memory is returned."""
    labels = facts_pb2.Labels(values={f"key-{number}": "v" * 50 for number in range(3)})
    facts = facts_pb2.ToolFacts(config_denied=False, labels=labels)
    many = [pb.Tool(name=f"{number:05}{'n' * 185}") for number in range(20_000)]
    long = [pb.Tool(name=f"{number:05}{'n' * 507}", facts=facts) for number in range(5_500)]
    before = resident(running)
    for tools in (many, long):
        request = pb.CheckToolsRequest(servers=[pb.ServerTools(name="s" * 512, tools=tools)])
        assert 3_800_000 < request.ByteSize() < MESSAGE_BYTES
        with grpc.insecure_channel(running.address) as channel:
            reply = CallabilityServiceStub(channel).CheckTools(request)
        assert len(reply.servers[0].results) == len(tools)
        assert not any(result.HasField("error") for result in reply.servers[0].results)
    assert resident(running) - before < 50


def test_a_request_that_is_larger_is_not_read(running: Service) -> None:
    """Its first bytes say so, whatever the method."""
    request = bytes(MESSAGE_BYTES + 1)
    with grpc.insecure_channel(running.address) as channel:
        for path in (f"/{_SERVICE}/CheckTools", f"/{_POLICY}/ValidatePolicy", *LARGE_TO):
            call: Any = channel.stream_stream(path)
            with pytest.raises(grpc.RpcError) as caught:
                list(call(iter([request])))
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can return the memory of its heaps")
@pytest.mark.parametrize("request_of", ["refused", "answered"])
def test_the_memory_of_many_large_requests_at_once_is_returned(request_of: str) -> None:
    """24 connections send one of the maximum size each: what gRPC gathered them in goes back to the system too."""
    names = [f"{number:05}{'n' * 185}" for number in range(20_000)]
    legal = pb.CheckToolsRequest(servers=[pb.ServerTools(name="s", tools=[pb.Tool(name=name) for name in names])])
    request = _field(2, _full(b"\x1a\0")) if request_of == "refused" else legal.SerializeToString()
    wanted = grpc.StatusCode.INVALID_ARGUMENT if request_of == "refused" else None

    def ask(_: int) -> grpc.StatusCode | None:
        own = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(started.address, options=own) as channel:
            method: Any = channel.unary_unary(f"/{_SERVICE}/CheckTools")
            error = method.future(request).exception()
            return error.code() if error else None

    with service() as started, ThreadPoolExecutor(24) as callers:
        before = resident(started)
        for _ in range(2):
            assert set(callers.map(ask, range(24))) == {wanted}
        eventually(lambda: resident(started) - before < 50)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can return the memory of its heaps")
@pytest.mark.parametrize("path", LARGE_TO)
def test_the_memory_of_what_streams_and_health_refuse_is_returned(path: str) -> None:
    """Though no later call makes Python collect what gRPC's exceptions hold."""
    request = _full(b"\x0a\0")
    with service() as started, grpc.insecure_channel(started.address) as channel:
        assert CallabilityServiceStub(channel).CheckTool(pb.CheckToolRequest(server="s", tool="t")).revision
        before = resident(started)
        call: Any = channel.stream_stream(path)
        for _ in range(12):
            with pytest.raises(grpc.RpcError) as caught:
                list(call(iter([request])))
            assert reason_of(caught.value) == "REQUEST_TOO_LARGE"
        eventually(lambda: resident(started) - before < 50)


def test_the_labels_that_a_tool_may_have_fit_into_its_facts(running: Service) -> None:
    """64 with the longest keys and values, of server and tool, in one request."""
    labels = facts_pb2.Labels(values={f"{number:0128}": "v" * 512 for number in range(64)})
    request = pb.CheckToolRequest(
        agent=facts_pb2.Agent(name="a" * 512),
        server="s" * 512,
        server_facts=facts_pb2.ServerFacts(enabled=True, quarantined=False, labels=labels),
        tool="t" * 512,
        tool_facts=facts_pb2.ToolFacts(config_denied=True, labels=labels),
    )
    with grpc.insecure_channel(running.address) as channel:
        assert CallabilityServiceStub(channel).CheckTool(request).verdict.rule == "operator-denied"
        explain = pb.ExplainToolRequest.FromString(request.SerializeToString())
        assert CallabilityServiceStub(channel).ExplainTool(explain).verdict.rule == "operator-denied"


_FIELDS = st.lists(
    st.one_of(
        st.builds(_field, st.integers(1, 2_000), st.binary(max_size=300)),
        st.builds(
            lambda field, value: varint(field << 3) + varint(value), st.integers(1, 2_000), st.integers(0, 2**60)
        ),
        st.builds(
            lambda field, data: varint(field << 3 | 5) + data, st.integers(1, 9), st.binary(min_size=4, max_size=4)
        ),
        st.builds(
            lambda field, data: varint(field << 3 | 1) + data, st.integers(1, 9), st.binary(min_size=8, max_size=8)
        ),
    ),
    max_size=30,
)


@given(parts=_FIELDS, limit=st.integers(0, 40))
def test_fields_are_counted_as_they_stand_on_the_wire(parts: list[bytes], limit: int) -> None:
    """Of every wire type; counting stops after the limit."""
    assert limits.fields(b"".join(parts), limit).count == min(len(parts), limit + 1)


@given(parts=_FIELDS, tools=st.integers(0, 20), limit=st.integers(0, 20))
def test_a_field_that_is_certainly_within_its_limit_is(parts: list[bytes], tools: int, limit: int) -> None:
    """The fast look never misses a field."""
    if limits.at_most(b"".join(parts) + b"\x1a\x00" * tools, 3, limit):
        assert tools <= limit


@given(parts=_FIELDS, cut=st.integers(1, 300))
def test_what_is_cut_within_its_last_field_is_malformed_or_shorter(parts: list[bytes], cut: int) -> None:
    """Nothing after the end is read."""
    data = b"".join(parts)[:-cut]
    try:
        found = limits.fields(data, 1_000).count
    except limits.MalformedRequest:
        return
    assert found <= len(parts)
