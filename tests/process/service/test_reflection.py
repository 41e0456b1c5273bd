"""Health and reflection: for raw clients, in both versions, and with malformed requests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2 as pb

from support.go_client import OUT_OF_REACH, run_in_shell
from support.running import Service, service
from support.services import reason_of

VERSIONS = ("v1", "v1alpha")
SERVICE = "callability.v1.CallabilityService"


def _info(channel: grpc.Channel, version: str) -> Any:
    return channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")


def _replies(
    channel: grpc.Channel, version: str, *requests: pb.ServerReflectionRequest
) -> list[pb.ServerReflectionResponse]:
    replies = _info(channel, version)(request.SerializeToString() for request in requests)
    return [pb.ServerReflectionResponse.FromString(reply) for reply in replies]


def _files(reply: pb.ServerReflectionResponse) -> list[str]:
    encoded = reply.file_descriptor_response.file_descriptor_proto
    return [descriptor_pb2.FileDescriptorProto.FromString(each).name for each in encoded]


def _malformed(channel: grpc.Channel, version: str) -> None:
    list(_info(channel, version)(iter([b"\xff\xff\xff"])))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("symbol", "file"),
    [
        (f"{SERVICE}.CheckTool", "callability/v1/callability_service.proto"),
        (SERVICE, "callability/v1/callability_service.proto"),
        ("callability.v1.PolicyService.GetPolicy", "callability/v1/policy_service.proto"),
        ("callability.v1.ToolVerdict", "callability/v1/verdict.proto"),
        ("callability.v1.ToolVerdict.status", "callability/v1/verdict.proto"),
        ("callability.v1.ToolStatus", "callability/v1/verdict.proto"),
        ("grpc.health.v1.Health.Check", "grpc_health/v1/health.proto"),
    ],
)
def test_reflection_finds_the_file_of_a_symbol(version: str, symbol: str, file: str, channel: grpc.Channel) -> None:
    """Of services, methods, messages, fields and enums; the files that it imports come with it."""
    [reply] = _replies(channel, version, pb.ServerReflectionRequest(host="h", file_containing_symbol=symbol))
    files = _files(reply)
    assert (files[0], len(files)) == (file, len(set(files)))
    assert (reply.valid_host, reply.original_request.file_containing_symbol) == ("h", symbol)
    if file.endswith("callability_service.proto"):
        assert {"callability/v1/facts.proto", "callability/v1/verdict.proto"} < set(files)


@pytest.mark.parametrize("version", VERSIONS)
def test_reflection_answers_each_request_of_a_stream(version: str, channel: grpc.Channel) -> None:
    """An unknown name gets an answer, and the stream continues."""
    replies = _replies(
        channel,
        version,
        pb.ServerReflectionRequest(list_services=""),
        pb.ServerReflectionRequest(file_containing_symbol=f"{SERVICE}.Nothing"),
        pb.ServerReflectionRequest(file_containing_symbol=""),
        pb.ServerReflectionRequest(file_by_filename="callability/v1/facts.proto"),
        pb.ServerReflectionRequest(file_by_filename="nothing.proto"),
        pb.ServerReflectionRequest(all_extension_numbers_of_type="callability.v1.ToolVerdict"),
        pb.ServerReflectionRequest(
            file_containing_extension=pb.ExtensionRequest(
                containing_type="callability.v1.ToolVerdict", extension_number=1
            )
        ),
        pb.ServerReflectionRequest(),
    )
    assert {each.name for each in replies[0].list_services_response.service} == {
        SERVICE,
        "callability.v1.PolicyService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    not_found, invalid = (code.value[0] for code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT))
    assert [each.error_response.error_code for each in replies] == [
        0, not_found, not_found, 0, not_found, 0, not_found, invalid
    ]  # fmt: skip
    assert _files(replies[3]) == ["callability/v1/facts.proto"]
    assert replies[5].all_extension_numbers_response.base_type_name == "callability.v1.ToolVerdict"


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    """A service of its own, so that nothing else writes to its log."""
    with service("--log-level", "warning") as started:
        yield started


def test_bytes_that_are_no_request_are_refused_by_health_and_reflection_too(running: Service) -> None:
    """With a reason, and without a log line."""
    bad = b"\xff\xff\xff"
    with grpc.insecure_channel(running.address) as channel:
        check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        watch: Any = channel.unary_stream("/grpc.health.v1.Health/Watch")
        calls: list[Callable[[], object]] = [
            partial(check, bad),
            partial(check, bytes(10_000)),
            lambda: list(watch(bad)),
        ]
        calls += [partial(_malformed, channel, version) for version in VERSIONS]
        for call in calls:
            with pytest.raises(grpc.RpcError) as caught:
                call()
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert reason_of(caught.value) in {"REQUEST_MALFORMED", "REQUEST_TOO_LARGE"}
        with pytest.raises(grpc.RpcError) as unknown:
            check(health_pb2.HealthCheckRequest(service="nobody").SerializeToString())
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
    running.process.terminate()
    assert running.process.communicate(timeout=120)[1] == ""


@pytest.mark.skipif(shutil.which("go") is None, reason="the Go toolchain is not on this machine")
def test_grpcurl_describes_a_method(tmp_path: Path, address: str) -> None:
    """And calls it, without any file of the contract."""
    go = f"GOBIN={tmp_path} GOFLAGS=-mod=mod go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
    installed = run_in_shell(go, tmp_path)
    if installed.returncode and any(phrase in installed.stderr for phrase in OUT_OF_REACH):
        pytest.skip("grpcurl is neither on this machine nor within its reach")
    assert installed.returncode == 0, installed.stderr

    def grpcurl(*arguments: str) -> str:
        command = [str(tmp_path / "grpcurl"), "-plaintext", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    described = grpcurl(address, "describe", f"{SERVICE}.CheckTool")
    assert described.startswith(f"{SERVICE}.CheckTool is a method:")
    assert ".callability.v1.CheckToolRequest" in described
    assert SERVICE in grpcurl(address, "list")
    assert '"rule"' in grpcurl("-d", '{"server": "s", "tool": "t"}', address, f"{SERVICE}/CheckTool")
