"""The adapter as a library: what an agent reads about a failed load (L-7), and about enabling a server (E-9)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from callability.adapter import NEUTRAL, enable_result, load_messages, load_status
from callability.contract.vocabulary import EnableStatus, LoadStatus
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import outcome_pb2
from support.judging import stub_of, text_of

LOADS: dict[str, dict[str, Any]] = {
    "up": {"phase": "LOAD_PHASE_LIST", "failure": "LOAD_FAILURE_NONE"},
    "slow": {"phase": "LOAD_PHASE_CONNECT", "failure": "LOAD_FAILURE_TIMEOUT"},
    "slower": {"httpStatus": 503},
    "again": {"phase": "LOAD_PHASE_CONNECT", "failure": "LOAD_FAILURE_TIMEOUT", "retryScheduled": True},
    "locked": {"httpStatus": 403},
    "gone": {"phase": "LOAD_PHASE_CONNECT", "failure": "LOAD_FAILURE_REFUSED"},
    "lost": {"httpStatus": 404},
}
REASONS = {
    "gone": "the connection was refused.",
    "lost": "answered\nwith HTTP 404",
    "locked": "answered with HTTP 403",
    "slow": "did not answer in time",
}
TRIED = {"known": True, "wasConnected": False, "credentials": "ENABLE_CREDENTIALS_COMPLETE", "callableTools": False}
NO_DIALOG, DECLINED = "ENABLE_AUTHORIZATION_NO_DIALOG", "ENABLE_AUTHORIZATION_DECLINED"
FREE = TRIED | {"authorization": "ENABLE_AUTHORIZATION_NOT_NEEDED"}
ENABLES: dict[str, dict[str, Any]] = {
    "unknown_server": {"known": False},
    "already_enabled": {"known": True, "wasConnected": True},
    "missing_credentials": TRIED | {"credentials": "ENABLE_CREDENTIALS_MISSING"},
    "enabled": FREE | {"ended": "ENABLE_END_CONNECTED", "callableTools": True},
    "declined": TRIED | {"authorization": DECLINED, "ended": "ENABLE_END_FAILED"},
    "authorization_required": TRIED | {"authorization": NO_DIALOG, "ended": "ENABLE_END_FAILED"},
    "cancelled": FREE | {"ended": "ENABLE_END_CANCELLED"},
    "connect_failed": FREE | {"ended": "ENABLE_END_FAILED"},
}
"""For each status, facts that have it."""


def _load(signals: Mapping[str, Any]) -> pb.ClassifyLoadResponse:
    request = json_format.ParseDict({"signals": signals}, pb.ClassifyLoadRequest())

    async def ask() -> pb.ClassifyLoadResponse:
        return await stub_of().ClassifyLoad(request)

    return asyncio.run(ask())


def _enable(facts: Mapping[str, Any]) -> pb.ClassifyEnableResponse:
    request = json_format.ParseDict({"facts": facts}, pb.ClassifyEnableRequest())

    async def ask() -> pb.ClassifyEnableResponse:
        return await stub_of().ClassifyEnable(request)

    return asyncio.run(ask())


def _messages(*servers: str) -> dict[LoadStatus, str]:
    return load_messages({server: _load(LOADS[server]) for server in servers}, REASONS, phrases={})


def _result(status: str, **options: Any) -> dict[str, Any]:
    return enable_result(_enable(ENABLES[status]), "git", phrases={}, **options)


def test_each_status_of_a_load_has_a_message_of_its_own() -> None:
    """Starting up lists the servers, needs attention lists each with its reason, a denial says who can grant access."""
    messages = _messages("up", "slow", "slower", "locked", "gone", "lost")
    assert list(messages) == [LoadStatus.TRANSIENT, LoadStatus.DENIED, LoadStatus.PERMANENT]
    assert messages[LoadStatus.TRANSIENT].startswith('Starting up: "slow", "slower". ')
    assert messages[LoadStatus.DENIED].startswith('Access denied: "locked". ')
    assert f"Only the operator can {NEUTRAL['grant_access']}." in messages[LoadStatus.DENIED]
    gone = '"gone" (the connection was refused), "lost" (answered with HTTP 404)'
    assert messages[LoadStatus.PERMANENT].startswith(f"Needs attention: {gone}. ")
    assert NEUTRAL["check_server"] in messages[LoadStatus.PERMANENT]
    assert _messages("up") == {}


def test_a_retry_is_promised_only_for_the_servers_with_one() -> None:
    """L-7: those without one are listed separately."""
    [text] = _messages("slow", "again").values()
    with_one, without = text.split('Starting up: "slow".')
    assert with_one.startswith('Will retry automatically. Starting up: "again". ')
    assert "retry" not in without


def test_a_denial_is_never_called_a_start() -> None:
    """Spec B: it is not a start, and there is no new try."""
    [messages] = _messages("locked").values()
    assert "starting" not in messages
    assert "Retrying does not help." in messages


def test_every_server_is_named_whatever_the_author_wrote() -> None:
    """Also if the service has no words that this version knows."""
    response = _load(LOADS["gone"])
    response.words.message = "Ask the operator."
    assert load_messages({"gone": response}, {}, phrases={}) == {"permanent": '"gone": Ask the operator.'}
    newer = _load(LOADS["up"])
    newer.verdict.status = 99  # type: ignore[assignment]  # a number of a later version
    assert load_status(newer) is LoadStatus.PERMANENT
    assert load_messages({"{x}": newer}, {}, phrases={}) == {
        "permanent": 'Tools are not available from "{x}". Tell the user.'
    }


@pytest.mark.parametrize("status", list(EnableStatus))
def test_an_enable_says_whether_the_server_is_connected(status: EnableStatus) -> None:
    """Table C: error result, text and structured content."""
    result = _result(status)
    assert list(result) == ["content", "structuredContent", "isError"]
    assert result["isError"] is status.error
    assert result["structuredContent"] == {
        "status": status.value,
        "server": "git",
        "tools_changed": int(status == "enabled"),
    }
    text = text_of(result)
    assert text.startswith(f"Connected: {status}. " if status.connected else f"Not connected: {status}. ")
    assert text.endswith("Do not claim that it is connected or call its tools.") is not status.connected
    assert '"git"' in text
    assert "{" not in text


def test_an_enable_says_what_is_missing_locked_or_wrong() -> None:
    """Each variable by name, each lock with who can lift it, part B's status with its reason."""
    missing = text_of(_result("missing_credentials", variables=("TOKEN", "KEY")))
    assert 'needs variables that are not set: "TOKEN", "KEY".' in missing
    locked = enable_result(
        _enable(ENABLES["enabled"] | {"callableTools": False}),
        "git",
        phrases={},
        locks={"pending_approval": "Ask the user to approve it."},
    )
    assert "none of its tools can be called. pending_approval: Ask the user to approve it. " in text_of(locked)
    assert locked["isError"] is False
    failed = text_of(_result("connect_failed", load=_load(LOADS["locked"]), reason="answered with HTTP 403."))
    assert "could not be connected: answered with HTTP 403 (denied)." in failed


def test_a_retry_is_the_users_word() -> None:
    """E-9: after a decline, a cancellation and without a dialog."""
    assert "Retry only if the user asks." in text_of(_result("declined"))
    assert "Retry only if the user asks." in text_of(_result("cancelled"))
    assert "from a client that can." in text_of(_result("authorization_required"))
    assert "Continue with the user's original request." in text_of(_result("enabled"))


def test_a_status_of_a_later_version_is_no_connection() -> None:
    """Whatever its words are."""
    newer = _enable(ENABLES["enabled"])
    newer.verdict.status = 99  # type: ignore[assignment]  # a number of a later version
    result = enable_result(newer, "git", phrases={})
    assert (result["isError"], result["structuredContent"]["status"]) == (True, "connect_failed")
    assert "connected now" not in text_of(result)


@given(server=st.text(max_size=300), reason=st.text(max_size=50), variable=st.text(max_size=50))
def test_names_and_reasons_never_break_a_text(server: str, reason: str, variable: str) -> None:
    """Quoted and cut, in one line, and no placeholder in them is filled in."""
    failed = enable_result(_enable(ENABLES["connect_failed"]), server, phrases={}, reason=reason)
    assert text_of(failed).isprintable() or not reason.isprintable()
    assert "\n" not in text_of(failed)
    missing = enable_result(_enable(ENABLES["missing_credentials"]), server, phrases={}, variables=[variable])
    assert json.dumps(variable[:128]) in text_of(missing)
    message = load_messages({server: _load(LOADS["gone"])}, {server: reason}, phrases={})
    assert json.dumps(server[:128]) in message[LoadStatus.PERMANENT]


def test_a_placeholder_in_a_reason_is_not_filled() -> None:
    """Filled-in text is never searched for placeholders."""
    messages = load_messages({"gone": _load(LOADS["gone"])}, {"gone": "{check_server} {servers}"}, phrases={})
    assert '"gone" ({check_server} {servers})' in messages[LoadStatus.PERMANENT]


def test_words_of_another_status_are_not_used() -> None:
    """A service that sends them has another version."""
    response = _enable(ENABLES["declined"])
    response.words.status = outcome_pb2.ENABLE_STATUS_ENABLED
    assert "The policy service gives no reason." in text_of(enable_result(response, "git", phrases={}))
