"""Traces of the real programs, as a collector receives them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider

from callability.client import BlockingClient
from callability.otel import TracingHooks
from callability.v1.callability_service_pb2 import CheckToolRequest
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.commands import callability
from support.gateways import READ, call, client_with, http_gateway_process, retrieve, shelf, write_config
from support.otlp_collector import Collector, collector
from support.running import serving
from support.services import SWITCHED_OFF
from support.waiting import eventually

CHECK = "callability.v1.CallabilityService/CheckTool"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the programs send their traces to."""
    with collector() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def _received(spans: Collector, number: int) -> None:
    eventually(lambda: len(spans.spans) >= number)


def test_a_call_of_a_service_is_a_span_of_the_trace_of_its_caller(spans: Collector) -> None:
    """With the names of the RPC conventions; it is an error only if the service is to blame."""
    with serving("--traces") as address, grpc.insecure_channel(address) as channel:
        check = CallabilityServiceStub(channel).CheckTool
        check(SWITCHED_OFF, metadata=(("traceparent", TRACEPARENT), ("x-request-id", "r-1"), ("baggage", "a=secret")))
        with pytest.raises(grpc.RpcError):
            check(CheckToolRequest(tool="t"), metadata=(("traceparent", "00-not-a-trace"),))
        _received(spans, 2)
    first, second = spans.spans
    assert (first.program, first.name, first.kind) == ("callability-service", CHECK, "SPAN_KIND_SERVER")
    assert (first.trace, first.parent, first.is_error) == (TRACE, PARENT, False)
    assert first.attributes == {
        "rpc.system.name": "grpc",
        "rpc.method": CHECK,
        "rpc.response.status_code": "OK",
        "callability.request_id": "r-1",
        "callability.status": "disabled_by_user",
        "callability.rule": "user-off",
    }
    assert (second.parent, second.is_error) == ("", False)
    assert second.trace != TRACE
    assert second.attributes["rpc.response.status_code"] == "INVALID_ARGUMENT"
    assert second.attributes["callability.reason"] == "NAME_EMPTY"
    assert "secret" not in spans.written


def test_the_span_of_a_client_is_the_parent_of_that_of_the_service(spans: Collector) -> None:
    """The client's spans go to the tracer of its program."""
    provider = TracerProvider(shutdown_on_exit=False)
    with serving("--traces", "--workers", "2") as address:
        with (
            BlockingClient.remote([address], hooks=TracingHooks(tracer_provider=provider)) as policy,
            provider.get_tracer("test").start_as_current_span("of the proxy") as outer,
        ):
            policy.check_tool(SWITCHED_OFF)
        _received(spans, 1)
    [of_service] = spans.spans
    assert of_service.trace == f"{outer.get_span_context().trace_id:032x}"
    assert of_service.parent not in ("", f"{outer.get_span_context().span_id:016x}")


def test_a_call_through_a_gateway_is_one_trace_from_agent_to_server(spans: Collector, tmp_path: Path) -> None:
    """The agent's `traceparent` is in its `_meta`; nothing of the trace is in an answer."""
    answers: list[str] = []

    async def story() -> None:
        async with client_with(url, None) as client:
            answers.append(json.dumps(await retrieve(client, "read", include_disabled=True)))
            meta: Any = {"traceparent": TRACEPARENT}
            arguments = {"name": "it:read_file", "arguments": {"path": "very-secret"}}
            given = await client.call_tool("call_tool", arguments, meta=meta)
            answers.append(given.model_dump_json())
            answers.append((await call(client, "it:nothing")).model_dump_json())

    config = write_config(tmp_path, {"it": shelf(tmp_path, "it", READ)})
    with (
        serving("--traces") as address,
        http_gateway_process(config, "--traces", "--policy-address", address) as url,
    ):
        asyncio.run(story())
        eventually(lambda: {"tools/call read_file", "tools/call call_tool"} <= {each.name for each in spans.spans})
        eventually(lambda: "callability-service" in {each.program for each in spans.spans if each.trace == TRACE})
    to_server = spans.named("tools/call read_file", "CLIENT")
    of_trace = {each.span: each for each in spans.spans if each.trace == TRACE}
    of_gateway = of_trace[to_server.parent]
    assert (of_gateway.name, of_gateway.parent) == ("tools/call call_tool", PARENT)
    of_service = [each for each in of_trace.values() if each.program == "callability-service"]
    assert {each.name for each in of_service} == {CHECK}
    for each in of_service:
        of_client = of_trace[each.parent]
        assert (of_client.name, of_client.kind, of_client.parent) == (CHECK, "SPAN_KIND_CLIENT", of_gateway.span)
        assert of_client.attributes["server.address"] == "127.0.0.1"
        assert each.attributes["callability.request_id"] == of_gateway.attributes["callability.request_id"]
    assert to_server.attributes["mcp.method.name"] == "tools/call"
    assert to_server.attributes["gen_ai.operation.name"] == "execute_tool"
    assert to_server.attributes["gen_ai.tool.name"] == "read_file"
    assert to_server.attributes["callability.server"] == "it"
    assert "very-secret" not in spans.written
    for part in (TRACE, PARENT, to_server.span, of_gateway.span):
        assert part not in "".join(answers)


@pytest.mark.parametrize(
    ("variable", "value", "wanted"),
    [
        ("OTEL_TRACES_EXPORTER", "console", "`otlp` or `none`"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "`grpc` or `http/protobuf`"),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_exporter_that_there_is_not_refuses_the_start(
    variable: str, value: str, wanted: str, workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exit code 2, before anything listens."""
    monkeypatch.setenv(variable, value)
    done = callability("serve", "--traces", "--workers", workers, "--address", "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"callability: `${variable}` must be {wanted}, and is `{value}`\n"


def test_a_collector_that_is_gone_holds_up_no_answer_and_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last spans are given up soon."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    with serving("--traces") as address, BlockingClient.remote([address]) as policy:
        assert policy.check_tool(SWITCHED_OFF).verdict.rule
