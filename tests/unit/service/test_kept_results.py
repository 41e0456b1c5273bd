"""Results that are kept: they equal a new decision, and their number is limited."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from callability.kernel.byte_calls import (
    MAX_KEY,
    MAX_REQUESTS,
    MAX_SERVERS,
    MAX_TOOLS,
    ByteCalls,
    ServerOfTools,
    fact_key,
)
from callability.kernel.calls import EncodedCalls
from callability.kernel.limits import LABELS, InvalidName, InvalidRequest, check_labels, finish
from callability.kernel.policy import read
from callability.process.bounded_cache import BoundedCache
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from support.bundles import SHIPPED, bundle_of


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the labels of servers and tools were checked: every time facts are parsed."""
    found: Counter[str] = Counter()

    def counted(labels: Any, what: str) -> None:
        # What is not known of an agent is read once, before any request.
        if what != "agent":
            found[what] += 1
        check_labels(labels, what)

    monkeypatch.setattr("callability.kernel.limits.check_labels", counted)
    return found


def _labels(count: int, prefix: str = "k") -> facts_pb2.Labels:
    return facts_pb2.Labels(values={f"{prefix}{number}": "v" for number in range(count)})


def _batch(server_facts: facts_pb2.ServerFacts, *tools: facts_pb2.ToolFacts) -> bytes:
    named = [pb.Tool(name=f"t{number}", facts=facts) for number, facts in enumerate(tools)]
    return pb.CheckToolsRequest(servers=[pb.ServerTools(name="s", facts=server_facts, tools=named)]).SerializeToString()


def _calls() -> ByteCalls:
    """Return the calls about tools by the shipped policy, as a service has them."""
    return EncodedCalls(read(bundle_of(SHIPPED)), limited=True).tools


def _checked(request: bytes) -> pb.CheckToolsResponse:
    return pb.CheckToolsResponse.FromString(finish(_calls().check_tools(request)))


def test_a_bounded_cache_never_holds_more_than_it_may() -> None:
    """A full store forgets everything; a value that is too large is not kept."""
    cache: BoundedCache[int, str] = BoundedCache(3, max_bytes=10)
    for number in range(3):
        cache.keep(number, "x", size=10)
    cache.keep(3, "too large", size=11)
    assert list(cache) == [0, 1, 2]
    cache.keep(4, "x")
    assert list(cache) == [4]


def test_the_facts_of_a_server_are_parsed_once_for_all_its_tools(checks: Counter[str]) -> None:
    """They may have 64 labels, and a thousand tools."""
    server = facts_pb2.ServerFacts(enabled=True, labels=_labels(LABELS))
    tools = [facts_pb2.ToolFacts(labels=_labels(1, f"{number}-")) for number in range(300)]
    reply = _checked(_batch(server, *tools))
    assert len(reply.servers[0].results) == 300
    assert checks == {"server": 1, "tool": 300}


def test_facts_of_a_server_that_are_refused_are_parsed_once_for_all_its_tools(checks: Counter[str]) -> None:
    """And each of these gets the error."""
    server = facts_pb2.ServerFacts(labels=_labels(LABELS + 1))
    tools = [facts_pb2.ToolFacts(labels=_labels(1, f"{number}-")) for number in range(300)]
    reply = _checked(_batch(server, *tools))
    assert {result.error.reason for result in reply.servers[0].results} == {"TOO_MANY_LABELS"}
    assert len(reply.servers[0].results) == 300
    assert checks == {"server": 1}


def test_a_refusal_of_the_facts_of_tools_is_kept_however_long_they_are(checks: Counter[str]) -> None:
    """And so are verdicts on long facts."""
    refused, long = facts_pb2.ToolFacts(labels=_labels(LABELS + 1)), facts_pb2.ToolFacts(labels=_labels(LABELS))
    assert len(long.SerializeToString()) > MAX_KEY
    reply = _checked(_batch(facts_pb2.ServerFacts(), *[refused, long] * 150))
    reasons = [result.error.reason for result in reply.servers[0].results]
    assert reasons == ["TOO_MANY_LABELS", ""] * 150
    assert checks == {"server": 1, "tool": 2}


def _server(calls: ByteCalls, facts: bytes = b"") -> ServerOfTools:
    agent = calls.reader.of_agent(None)
    return calls.server_of_tools(facts, b"s", agent, agent.key)


def test_a_hash_of_facts_cannot_stand_for_other_facts() -> None:
    """A caller may send facts that are equal to the key of another's facts."""
    calls = _calls()
    results = _server(calls)
    long = facts_pb2.ToolFacts(labels=_labels(LABELS)).SerializeToString()
    labelled = results.of_tool(calls, long, b"t")
    labelled.check()
    key = fact_key(long)
    assert isinstance(key, str)
    with pytest.raises(InvalidRequest):
        results.of_tool(calls, key.encode(), b"t").check()
    assert results.of_tool(calls, long, b"t") is labelled


def test_facts_that_are_refused_in_a_call_about_one_tool_are_refused_each_time() -> None:
    """With the reason that a batch gives."""
    calls = _calls()
    facts = facts_pb2.ToolFacts(labels=_labels(LABELS + 1))
    request = pb.CheckToolRequest(server="s", tool="t", tool_facts=facts).SerializeToString()
    for _ in range(2):
        with pytest.raises(InvalidRequest) as refused:
            calls.check_tool(request)
        assert refused.value.reason == "TOO_MANY_LABELS"


def test_what_is_kept_of_servers_and_tools_is_bounded() -> None:
    """However many different facts and servers are requested."""
    calls = _calls()
    for number in range(MAX_SERVERS + 2):
        facts = facts_pb2.ServerFacts(labels=facts_pb2.Labels(values={"n": str(number)})).SerializeToString()
        for each in range(3):
            tool = facts_pb2.ToolFacts(labels=facts_pb2.Labels(values={"n": str(each)})).SerializeToString()
            _server(calls, facts).of_tool(calls, tool, b"y").check()
        assert calls.kept_servers <= MAX_SERVERS
    of_server = _server(calls)
    for number in range(MAX_TOOLS + 2):
        labels = facts_pb2.Labels(values={"n": f"{number:0{400 * (number % 2)}}"})
        of_server.of_tool(calls, facts_pb2.ToolFacts(labels=labels).SerializeToString(), b"y")
        assert of_server.kept_tools <= MAX_TOOLS


def test_requests_about_one_tool_that_are_kept_are_bounded_and_errors_are_not_among_them() -> None:
    """An invalid name is refused each time, and a kept reply is the first one."""
    calls = _calls()
    first = calls.check_tool(pb.CheckToolRequest(server="s", tool="t").SerializeToString())
    for number in range(MAX_REQUESTS + 2):
        calls.check_tool(pb.CheckToolRequest(server="s", tool=f"t{number}").SerializeToString())
        assert calls.kept_requests <= MAX_REQUESTS
    assert calls.check_tool(pb.CheckToolRequest(server="s", tool="t").SerializeToString()) == first
    kept = calls.kept_requests
    for _ in range(2):
        with pytest.raises(InvalidName):
            calls.check_tool(pb.CheckToolRequest(server="s").SerializeToString())
    assert calls.kept_requests == kept
