"""What Prometheus reads from a service about its calls, its callers and its certificate."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry

from callability.service.callers import WatchedCallers
from callability.service.metrics import CallMetrics
from callability.service.server import Port, Server
from callability.v1 import callability_service_pb2 as pb
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2 import GetPolicyRequest, ValidatePolicyResponse
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.bundles import checked_of
from support.callers import ALWAYS, bearer, tls_channel, token_entry, write_callers
from support.certificates import Authority
from support.checkout import ROOT
from support.running import serving
from support.services import LONG_CHECK, OFF, OPEN_SERVER, SWITCHED_OFF, reason_of
from support.waiting import eventually

PROMTOOL = shutil.which("promtool")


class Measured:
    """A service with its metrics."""

    def __init__(self, address: str, log: Path) -> None:
        self.address = address
        self._log = log

    @property
    def text(self) -> str:
        """What Prometheus reads."""
        url = re.search(r"metrics are on (\S+)", self._log.read_text())
        assert url is not None
        with urllib.request.urlopen(url[1], timeout=120) as answer:
            return str(answer.read().decode())

    def value(self, series: str) -> float:
        """Return the value of a series, 0 if there is none."""
        found = [line.rpartition(" ")[2] for line in self.text.splitlines() if line.startswith(f"{series} ")]
        return float(found[0]) if found else 0.0


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Measured]:
    """A service that anybody may ask."""
    log = tmp_path / "log"
    with serving("--metrics-address", "127.0.0.1:0", log=log) as address:
        yield Measured(address, log)


def _batch(*tools: int) -> pb.CheckToolsRequest:
    """Return a request about servers with so many tools that their user switched off."""
    request = pb.CheckToolsRequest()
    for number, count in enumerate(tools):
        server = request.servers.add(name=f"s{number}", facts=OPEN_SERVER)
        for tool in range(count):
            server.tools.add(name=f"t{tool}", facts=OFF)
    return request


def test_calls_are_counted_by_method_and_code_with_their_duration(measured: Measured) -> None:
    """A call that is refused has a code too."""
    with grpc.insecure_channel(measured.address) as channel:
        stub = CallabilityServiceStub(channel)
        for _ in range(3):
            stub.CheckTool(SWITCHED_OFF)
        with pytest.raises(grpc.RpcError):
            stub.CheckTool(pb.CheckToolRequest(tool="t"))
        PolicyServiceStub(channel).GetPolicy(GetPolicyRequest())
    assert measured.value('callability_calls_total{code="OK",method="CheckTool"}') == 3
    assert measured.value('callability_calls_total{code="INVALID_ARGUMENT",method="CheckTool"}') == 1
    assert measured.value('callability_calls_total{code="OK",method="GetPolicy"}') == 1
    assert measured.value('callability_call_seconds_count{method="CheckTool"}') == 3
    assert measured.value('callability_call_seconds_bucket{le="+Inf",method="CheckTool"}') == 3
    assert measured.value("callability_calls_in_progress") == 0
    assert measured.value("process_resident_memory_bytes") > 0


def test_verdicts_are_counted_by_status_and_rule_however_they_were_requested(measured: Measured) -> None:
    """One by one, in a batch, and in the same batch again, whose results are kept; each tool once."""
    series = 'callability_verdicts_total{question="callability",rule="user-off",status="disabled_by_user"}'
    with grpc.insecure_channel(measured.address) as channel:
        stub = CallabilityServiceStub(channel)
        stub.CheckTool(SWITCHED_OFF)
        assert measured.value(series) == 1
        for times in (1, 2, 3):
            stub.CheckTools(_batch(5, 700, 1))
            assert measured.value(series) == 1 + times * 706
        stub.CheckTools(_batch(5, 0))
        assert measured.value(series) == 1 + 3 * 706 + 5
        stub.CheckTools(pb.CheckToolsRequest(servers=[pb.ServerTools(name="u", tools=[pb.Tool(name="t")])]))
        nothing = 'callability_verdicts_total{question="callability",rule="",status="disabled_unknown"}'
        assert measured.value(nothing) == 1
        stub.ClassifyLoad(pb.ClassifyLoadRequest())
    assert measured.value("callability_batch_tools_count") == 5
    assert measured.value('callability_batch_tools_bucket{le="1"}') == 1
    assert measured.value("callability_batch_tools_sum") == 3 * 706 + 5 + 1
    assert 'callability_verdicts_total{question="load_outcome"' in measured.text


def test_refusals_callers_and_certificates_are_measured(tmp_path: Path) -> None:
    """By reason; edits of both by whether they were applied."""
    authority = Authority(tmp_path, "known")
    pair, log = authority.pair("server", days=30), tmp_path / "log"
    callers = write_callers(tmp_path, a={"tokens": [token_entry("secret")], "may": ["check"]})
    files = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key), "--callers", str(callers))
    with serving(*files, "--metrics-address", "127.0.0.1:0", log=log) as address:
        measured = Measured(address, log)
        with tls_channel(address, authority.path) as channel:
            with pytest.raises(grpc.RpcError):
                CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF)
            with pytest.raises(grpc.RpcError):
                PolicyServiceStub(channel).GetPolicy(GetPolicyRequest(), metadata=bearer("secret"))
        assert measured.value('callability_refused_calls_total{reason="NO_CREDENTIALS"}') == 1
        assert measured.value('callability_calls_total{code="UNAUTHENTICATED",method="CheckTool"}') == 1
        assert measured.value('callability_calls_total{code="PERMISSION_DENIED",method="GetPolicy"}') == 1
        first = measured.value("callability_certificate_expires_timestamp_seconds")
        assert measured.value('callability_caller_expires_timestamp_seconds{caller="a"}') > first > 0
        pair.replace_by(authority.pair("next", days=60))
        eventually(lambda: measured.value("callability_certificate_expires_timestamp_seconds") > first)
        assert measured.value('callability_certificate_edits_total{applied="true"}') == 1
        assert measured.value("callability_certificate_broken") == 0
        pair.certificate.write_text("")
        eventually(lambda: measured.value("callability_certificate_broken") == 1)
        write_callers(tmp_path, a={"tokens": [token_entry("secret", ALWAYS)], "may": []})
        eventually(lambda: measured.value("callability_callers_broken") == 1)
        assert measured.value('callability_callers_edits_total{applied="false"}') == 1


def test_calls_for_which_there_is_no_place_are_counted_as_refused(tmp_path: Path) -> None:
    """As many as the clients saw, whether all places were taken or the connection had its share."""
    log = tmp_path / "log"
    with serving("--max-concurrent-calls", "4", "--metrics-address", "127.0.0.1:0", log=log) as address:
        with grpc.insecure_channel(address) as channel:
            large = _batch(20_000)
            calls = [CallabilityServiceStub(channel).CheckTools.future(large) for _ in range(60)]
            errors = [error for each in calls if isinstance(error := each.exception(), grpc.RpcError)]
            reasons = Counter(map(reason_of, errors))
        measured = Measured(address, log)
        assert set(reasons) == {"TOO_MANY_CALLS"}
        assert measured.value('callability_refused_calls_total{reason="TOO_MANY_CALLS"}') == reasons.total()
        series = 'callability_calls_total{code="RESOURCE_EXHAUSTED",method="CheckTools"}'
        assert measured.value(series) == reasons.total()


def test_a_call_that_may_not_be_made_is_counted_once_while_all_places_are_taken(tmp_path: Path) -> None:
    """By the status that its caller gets: it needs no place."""
    callers = write_callers(tmp_path, a={"tokens": [token_entry("secret")], "may": ["check", "validate"]})
    limited, log = ("--max-concurrent-calls", "1", "--callers", str(callers)), tmp_path / "log"
    with (
        serving(*limited, "--metrics-address", "127.0.0.1:0", log=log) as address,
        grpc.insecure_channel(address) as channel,
    ):
        seen: Counter[str] = Counter()

        def reason(token: str) -> str:
            try:
                CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF, metadata=bearer(token) if token else ())
            except grpc.RpcError as error:
                seen[found := reason_of(error)] += 1
                return found
            return ""

        held: list[grpc.Future[ValidatePolicyResponse]] = []

        def is_full() -> bool:
            # A check that has ended holds no place any more.
            if not held or held[-1].done():
                held.append(PolicyServiceStub(channel).ValidatePolicy.future(LONG_CHECK, metadata=bearer("secret")))
            return reason("secret") == "TOO_MANY_CALLS"

        eventually(is_full)
        assert [reason(""), reason("wrong"), reason("")] == ["NO_CREDENTIALS", "TOKEN_UNKNOWN", "NO_CREDENTIALS"]
        measured = Measured(address, log)
        assert measured.value('callability_calls_total{code="UNAUTHENTICATED",method="CheckTool"}') == 3
        full = measured.value('callability_calls_total{code="RESOURCE_EXHAUSTED",method="CheckTool"}')
        assert full == seen["TOO_MANY_CALLS"]
        for each, number in seen.items():
            assert measured.value(f'callability_refused_calls_total{{reason="{each}"}}') == number
        held[-1].cancel()


def test_a_call_without_a_token_is_counted_once_when_the_service_has_stopped(tmp_path: Path) -> None:
    """As refused for the stop, like a call with a token."""
    registry = CollectorRegistry()
    callers = WatchedCallers(write_callers(tmp_path, a={"tokens": [token_entry("secret")], "may": ["check"]}))

    async def last_reason() -> str:
        port, calls = Port("127.0.0.1:0", callers=True), CallMetrics(registry)
        server = Server(checked_of("shipped"), port, callers=callers, calls=calls)
        await server.start()
        await server.drain()
        async with grpc.aio.insecure_channel(server.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF)
        await server.stop()
        return reason_of(caught.value)

    assert asyncio.run(last_reason()) == "SHUTTING_DOWN"
    samples = [sample for metric in registry.collect() for sample in metric.samples if sample.value]
    refused = [sample for sample in samples if sample.name == "callability_refused_calls_total"]
    assert [(each.labels, each.value) for each in refused] == [({"reason": "SHUTTING_DOWN"}, 1)]
    counted = [sample for sample in samples if sample.name == "callability_calls_total"]
    assert [(each.labels, each.value) for each in counted] == [({"method": "CheckTool", "code": "UNAVAILABLE"}, 1)]


@pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool (Debian's prometheus)")
def test_promtool_accepts_metrics_rules_and_their_tests(measured: Measured) -> None:
    """As Prometheus does."""
    with grpc.insecure_channel(measured.address) as channel:
        CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF)
    for arguments, given in (
        (("check", "rules", "ops/callability-alerts.yaml"), ""),
        (("test", "rules", "ops/callability-alerts-test.yaml"), ""),
        (("check", "metrics"), measured.text),
    ):
        assert PROMTOOL is not None
        done = subprocess.run(
            [PROMTOOL, *arguments], cwd=ROOT, input=given, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
