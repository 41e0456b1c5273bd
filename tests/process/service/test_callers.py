"""Callers of a service that knows them: who is refused, how, and that nobody else is affected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from callability.v1 import callability_service_pb2 as pb
from callability.v1 import policy_service_pb2 as policy_pb
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.callers import LONG_AGO, bearer, tls_channel, token_entry, write_callers
from support.certificates import Authority
from support.commands import callability
from support.running import serving
from support.services import SWITCHED_OFF, reason_of
from support.waiting import eventually

SECONDS = 120
RIGHTS = ["check", "explain", "policy", "validate", "watch"]
EXPLAIN = pb.ExplainToolRequest(server="s", server_facts=SWITCHED_OFF.server_facts, tool="t")


class Known:
    """A service over TLS that knows its callers, with its log."""

    def __init__(self, address: str, authority: Path, directory: Path) -> None:
        self.address = address
        self.authority = authority
        self.directory = directory

    @property
    def log(self) -> str:
        """What was logged up to now."""
        return (self.directory / "log").read_text()

    def outcome(self, method: str, request: Message, metadata: Any = (), **options: Any) -> tuple[str, str]:
        """Call a method, and return the code and the reason of how it ends."""
        with tls_channel(self.address, self.authority) as channel:
            stub: Any = PolicyServiceStub(channel) if "Policy" in method else CallabilityServiceStub(channel)
            try:
                getattr(stub, method)(request, metadata=metadata, **({"timeout": SECONDS} | options))
            except grpc.RpcError as error:
                call: Any = error
                is_ours = any(key == "grpc-status-details-bin" for key, _ in call.trailing_metadata())
                return call.code().name, reason_of(error) if is_ours else ""
        return "OK", ""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    """A service with three callers, and one of them with a token that has expired."""
    directory = tmp_path_factory.mktemp("known")
    authority = Authority(directory, "known")
    pair = authority.pair("server")
    callers = write_callers(
        directory,
        gateway={"tokens": [token_entry("gateway-token"), token_entry("next-token")], "may": ["check"]},
        people={"tokens": [token_entry("people-token")], "may": RIGHTS},
        former={"tokens": [token_entry("former-token", LONG_AGO)], "may": RIGHTS},
    )
    files = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key), "--callers", str(callers))
    with serving(*files, log=directory / "log") as address:
        yield Known(address, authority.path, directory)


@pytest.mark.parametrize(
    ("metadata", "outcome"),
    [
        ((), ("UNAUTHENTICATED", "NO_CREDENTIALS")),
        (bearer("other-token"), ("UNAUTHENTICATED", "TOKEN_UNKNOWN")),
        (bearer("former-token"), ("UNAUTHENTICATED", "TOKEN_EXPIRED")),
        ((("authorization", "Basic gateway-token"),), ("UNAUTHENTICATED", "TOKEN_MALFORMED")),
        (bearer("gateway-token"), ("OK", "")),
        (bearer("next-token"), ("OK", "")),
        (bearer("people-token"), ("OK", "")),
    ],
)
def test_a_call_is_answered_if_its_token_is_known_and_valid(
    metadata: Any, outcome: tuple[str, str], known: Known
) -> None:
    """Both tokens of a rotation are."""
    assert known.outcome("CheckTool", SWITCHED_OFF, metadata) == outcome


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("ExplainTool", EXPLAIN),
        ("GetPolicy", policy_pb.GetPolicyRequest()),
        ("ValidatePolicy", policy_pb.ValidatePolicyRequest()),
    ],
)
def test_a_caller_without_the_right_is_refused(method: str, request_: Message, known: Known) -> None:
    """It keeps the calls that it has the right to."""
    assert known.outcome(method, request_, bearer("gateway-token")) == ("PERMISSION_DENIED", "RIGHT_MISSING")
    assert known.outcome(method, request_, bearer("people-token")) == ("OK", "")
    assert known.outcome("CheckTool", SWITCHED_OFF, bearer("gateway-token")) == ("OK", "")


def test_health_needs_no_token_and_reflection_needs_any(known: Known) -> None:
    """Probes of a balancer have none; the contract is for those who may call something."""
    with tls_channel(known.address, known.authority) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        status = health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS).status
        assert status == health_pb2.HealthCheckResponse.SERVING
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        with pytest.raises(grpc.RpcError) as error:
            list(reflection.ServerReflectionInfo(iter([request]), timeout=SECONDS))
        assert reason_of(error.value) == "NO_CREDENTIALS"
        replies = reflection.ServerReflectionInfo(iter([request]), metadata=bearer("gateway-token"), timeout=SECONDS)
        assert [reply.WhichOneof("message_response") for reply in replies] == ["list_services_response"]


def test_no_token_appears_in_the_log(known: Known) -> None:
    """Neither a known one nor an unknown one, nor its SHA-256; the refusal does."""
    for token in ("gateway-token", "mistyped-token", "former-token"):
        known.outcome("CheckTool", SWITCHED_OFF, bearer(token))
    known.outcome("GetPolicy", policy_pb.GetPolicyRequest(), bearer("gateway-token"))
    eventually(lambda: "the token of the call is not known" in known.log)
    for token in ("gateway-token", "next-token", "people-token", "mistyped-token", "former-token"):
        assert token not in known.log
        assert token_entry(token)["sha256"] not in known.log


def test_a_program_reads_what_a_callers_file_says(tmp_path: Path) -> None:
    """Its callers, or the findings that refuse it, which are those of the text."""
    file = write_callers(
        tmp_path,
        a={"tokens": [token_entry("one")], "may": ["watch", "check"]},
        b={"tokens": [token_entry("two", expires=LONG_AGO)], "may": ["policy"]},
    )
    done = callability("callers", "check", str(file), "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr, found["accepted"], found["errors"], found["warnings"]) == (0, "", True, 0, 1)
    assert [each["code"] for each in found["findings"]] == ["expired-token"]
    assert found["callers"] == [
        {"name": "a", "tokens": 1, "certificates": 0, "rights": ["check", "watch"]},
        {"name": "b", "tokens": 1, "certificates": 0, "rights": ["policy"]},
    ]
    strict = callability("callers", "check", str(file), "--json", "--strict")
    assert (strict.returncode, json.loads(strict.stdout)["accepted"]) == (1, False)
    file.write_text('{"callers": {"a": {"may": ["check"]}}}')
    refused = callability("callers", "check", str(file), "--json")
    found = json.loads(refused.stdout)
    assert (refused.returncode, refused.stderr, found["accepted"], found["callers"]) == (1, "", False, [])
    assert [each["severity"] for each in found["findings"]] == ["error"] * found["errors"]


def test_an_edit_of_the_callers_takes_effect_and_a_bad_one_does_not(tmp_path: Path) -> None:
    """A token is replaced without a restart; a connection does not keep what its caller has lost."""
    log = tmp_path / "log"
    callers = write_callers(tmp_path, a={"tokens": [token_entry("one")], "may": ["check"]})
    with serving("--callers", str(callers), log=log) as address, grpc.insecure_channel(address) as channel:
        stub = CallabilityServiceStub(channel)

        def code(token: str) -> str:
            try:
                stub.CheckTool(SWITCHED_OFF, metadata=bearer(token), timeout=SECONDS)
            except grpc.RpcError as error:
                return str(error.code().name)
            return "OK"

        assert (code("one"), code("two")) == ("OK", "UNAUTHENTICATED")
        write_callers(tmp_path, a={"tokens": [token_entry("one"), token_entry("two")], "may": ["check"]})
        eventually(lambda: code("two") == "OK")
        assert code("one") == "OK"
        write_callers(tmp_path, a={"tokens": [token_entry("three")], "may": ["chek"]})
        eventually(lambda: "the edit of the callers is refused" in log.read_text())
        assert (code("one"), code("two"), code("three")) == ("OK", "OK", "UNAUTHENTICATED")
        write_callers(tmp_path, a={"tokens": [token_entry("two")], "may": ["check"]})
        eventually(lambda: code("one") == "UNAUTHENTICATED")
        assert code("two") == "OK"
