"""The id of a request: from the caller to the log and back, and the line about each call."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from callability.client import BlockingClient, request_id
from callability.v1.callability_service_pb2 import CheckToolRequest
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.callers import bearer, token_entry, write_callers
from support.running import children_of, service, serving
from support.services import LONG_CHECK, SWITCHED_OFF
from support.waiting import eventually

JSON = ("--log-format", "json", "--log-calls")


def _lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def _calls(log: Path, number: int) -> list[dict[str, Any]]:
    """Return the lines about calls, as soon as there are so many."""

    def found() -> list[dict[str, Any]]:
        # The last line may not be whole yet.
        return [line for line in map(_read, log.read_text().splitlines()) if "method" in line]

    eventually(lambda: len(found()) >= number)
    return found()


def _read(line: str) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}
    return read


def _checking(process: int) -> list[int]:
    """Return the processes in which a service checks policies; one that is only being started is not one yet."""
    lines = {each: Path(f"/proc/{each}/cmdline") for each in children_of(process)}
    return [int(each) for each, line in lines.items() if line.exists() and b"validation" in line.read_bytes()]


def _id_in(metadata: Any) -> list[str]:
    return [value for key, value in metadata or () if key == "x-request-id"]


def test_the_id_that_a_caller_sends_is_returned_after_the_reply_and_logged(tmp_path: Path) -> None:
    """It is in no reply; one that a log cannot take is replaced, and a caller that sends none gets one."""
    log = tmp_path / "log"
    with serving(*JSON, log=log) as address, grpc.insecure_channel(address) as channel:
        check = CallabilityServiceStub(channel).CheckTool
        returned = []
        for given in ("r-1", "not usable", None):
            reply, call = check.with_call(SWITCHED_OFF, metadata=(("x-request-id", given),) if given else ())
            returned += _id_in(call.trailing_metadata())
            assert returned[-1].encode() not in reply.SerializeToString()
        assert returned[0] == "r-1"
        assert [len(each) for each in returned[1:]] == [32, 32]
        lines = _calls(log, 3)
    assert [line["request_id"] for line in lines] == returned
    assert [(line["level"], line["method"], line["code"]) for line in lines] == [("info", "CheckTool", "OK")] * 3
    assert all(line["milliseconds"] > 0 for line in lines)
    assert all({"time", "logger", "message"} <= line.keys() for line in _lines(log))


def test_a_refused_call_returns_its_id_and_is_logged_with_the_reason(tmp_path: Path) -> None:
    """One that is invalid, and one whose caller is not known; no token is in the log."""
    log = tmp_path / "log"
    callers = write_callers(tmp_path, clerk={"tokens": [token_entry("secret-token")], "may": ["check"]})
    with serving(*JSON, "--callers", str(callers), log=log) as address, grpc.insecure_channel(address) as channel:
        check = CallabilityServiceStub(channel).CheckTool
        for number, metadata in enumerate((bearer("secret-token"), bearer("secret-other"), ())):
            with pytest.raises(grpc.RpcError) as caught:
                check(CheckToolRequest(tool="t"), metadata=(*metadata, ("x-request-id", f"r-{number}")))
            assert _id_in(caught.value.trailing_metadata()) == [f"r-{number}"]
        lines = _calls(log, 3)
    ended = {line["request_id"]: line for line in lines if line["logger"].endswith("service.metrics")}
    assert {name: (line["code"], line["reason"], line.get("caller")) for name, line in ended.items()} == {
        "r-0": ("INVALID_ARGUMENT", "NAME_EMPTY", "clerk"),
        "r-1": ("UNAUTHENTICATED", "TOKEN_UNKNOWN", None),
        "r-2": ("UNAUTHENTICATED", "NO_CREDENTIALS", None),
    }
    assert "secret" not in log.read_text()


@pytest.mark.parametrize("how", ["cancels it", "has a deadline"])
def test_a_call_that_its_client_gives_up_is_logged_without_a_reason(how: str, tmp_path: Path) -> None:
    """The service refused nothing: it checks a policy for longer than the client waits."""
    log = tmp_path / "log"
    timeout = 10.0 if how == "has a deadline" else None
    with service(*JSON, log=log) as running, grpc.insecure_channel(running.address) as channel:
        grpc.channel_ready_future(channel).result(timeout=120)
        call = PolicyServiceStub(channel).ValidatePolicy.future(LONG_CHECK, timeout=timeout)

        def is_held_up() -> bool:
            checking = _checking(running.process.pid)
            for each in checking:
                os.kill(each, signal.SIGSTOP)
            return bool(checking)

        eventually(is_held_up)
        if how == "cancels it":
            call.cancel()
        else:
            assert call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        [line] = [each for each in _calls(log, 1) if each["logger"].endswith("service.metrics")]
    assert (line["method"], line["code"]) == ("ValidatePolicy", "CANCELLED")
    assert "reason" not in line


def test_a_client_sends_the_id_of_its_request(tmp_path: Path) -> None:
    """Or a new one for each call."""
    log = tmp_path / "log"
    with serving(*JSON, log=log) as address, BlockingClient.remote([address]) as policy:
        with request_id("r-1"):
            policy.check_tool(SWITCHED_OFF)
            policy.check_tool(SWITCHED_OFF)
        policy.check_tool(SWITCHED_OFF)
        policy.check_tool(SWITCHED_OFF)
        ids = [line["request_id"] for line in _calls(log, 4)]
    assert ids[:2] == ["r-1", "r-1"]
    assert len({*ids}) == 3


def test_the_lines_of_workers_have_their_number(tmp_path: Path) -> None:
    """Those of the supervisor have none."""
    log = tmp_path / "log"
    with serving(*JSON, "--workers", "2", log=log) as address, BlockingClient.remote([address]) as policy:
        policy.check_tool(SWITCHED_OFF)
        [line] = _calls(log, 1)
        assert line["worker"] in {1, 2}
        assert {each.get("worker") for each in _lines(log)} <= {None, 1, 2}


def test_calls_have_no_lines_unless_they_are_requested(tmp_path: Path) -> None:
    """In text, a line of a call is one of the log."""
    for arguments, number in (((), 0), (("--log-calls",), 1)):
        log = tmp_path / "log"
        with serving(*arguments, log=log) as address, grpc.insecure_channel(address) as channel:
            CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF, metadata=(("x-request-id", "r-1"),))
        lines = [line for line in log.read_text().splitlines() if "CheckTool" in line]
        assert len(lines) == number
        assert all(line.endswith("(caller -, request r-1)") for line in lines)
