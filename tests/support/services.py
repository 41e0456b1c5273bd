"""A policy that is served from a directory that tests edit, and the errors of calls."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2 import GetPolicyRequest, GetPolicyResponse, PolicyFile, ValidatePolicyRequest
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.running import start

OPEN_SERVER = facts_pb2.ServerFacts(enabled=True, quarantined=False)
OFF = facts_pb2.ToolFacts(
    config_denied=False, approval=facts_pb2.Approval(record=facts_pb2.ApprovalRecord(disabled=True))
)
SWITCHED_OFF = pb.CheckToolRequest(server="s", server_facts=OPEN_SERVER, tool="t", tool_facts=OFF)
"""About a tool that its user switched off."""
_RULES = "".join(f"  - {{id: r{n}, when: {{tool.name: 'p{n}-*'}}, status: callable}}\n" for n in range(900))
_LONG = f"rules:\n{_RULES}  - {{id: all, status: callable}}\nwords: {{}}\n".encode()
LONG_CHECK = ValidatePolicyRequest(files=[PolicyFile(name="callability.yaml", data=_LONG)])
"""A policy whose check takes a second or more."""


class ServedPolicy:
    """A service of a policy in a directory, with its log and its metrics."""

    def __init__(
        self, directory: Path, address: str, channel: grpc.Channel, log: Path, metrics: str, process: int
    ) -> None:
        self.directory = directory
        self.process = process
        """Its id."""
        self.address = address
        self.channel = channel
        self._log = log
        self._metrics = metrics

    @property
    def rules(self) -> Path:
        """The rule file about tools."""
        return self.directory / "callability.yaml"

    @property
    def log(self) -> str:
        """What was logged up to now."""
        return self._log.read_text()

    @property
    def metrics(self) -> str:
        """What Prometheus reads."""
        with urllib.request.urlopen(self._metrics, timeout=120) as answer:
            return str(answer.read().decode())

    def policy(self) -> GetPolicyResponse:
        """Ask what is served."""
        return PolicyServiceStub(self.channel).GetPolicy(GetPolicyRequest())

    def rule(self) -> str:
        """Ask about a tool that its user switched off, and return the rule that decides."""
        return CallabilityServiceStub(self.channel).CheckTool(SWITCHED_OFF).verdict.rule

    def healthy(self) -> bool:
        """Whether health says SERVING."""
        health: Any = health_pb2_grpc.HealthStub(self.channel)
        return bool(health.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING)


@contextmanager
def served(directory: Path, *arguments: str) -> Iterator[ServedPolicy]:
    """Serve the policy in a directory, or in a bundle, by the real program."""
    log = directory.parent / "service.log"
    command = ("serve", "--policy", str(directory), "--address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
    with (
        log.open("w") as errors,
        start(*command, *arguments, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on "), log.read_text()
            metrics = next(word for word in log.read_text().split() if word.endswith("/metrics"))
            address = line.removeprefix("listening on ").strip()
            with grpc.insecure_channel(address) as channel:
                yield ServedPolicy(directory, address, channel, log, metrics, process.pid)
        finally:
            process.terminate()
            process.communicate(timeout=120)


def reason_of(error: grpc.RpcError) -> str:
    """Return the reason of an error of ours."""
    status = rpc_status.from_call(error)  # type: ignore[arg-type]  # every error of a stub is a call too
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "callability.v1"
    return str(info.reason)


def refused(stub_call: Any, request: Message) -> tuple[grpc.StatusCode, str, str]:
    """Make a call that is refused, and return the code, the reason and the text of its error."""
    with pytest.raises(grpc.RpcError) as caught:
        stub_call(request)
    return caught.value.code(), reason_of(caught.value), str(caught.value.details())


def varint(number: int) -> bytes:
    """Return a number as the wire format of protobuf has it."""
    low = number & 0x7F
    return bytes([low]) if number < 0x80 else bytes([low | 0x80]) + varint(number >> 7)
