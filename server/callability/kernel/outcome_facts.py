"""From the signals of a load and the facts of an enable, as the contract has them, to the facts of rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from callability.kernel.error_text import signals_in_text
from callability.kernel.states import attempt_facts, can_fail, http_facts
from callability.v1 import outcome_pb2 as pb
from callability.vocabulary import (
    UNKNOWN,
    EnableAuthorization,
    EnableCredentials,
    EnableEnd,
    LoadFailure,
    LoadPhase,
    LoadStatus,
)

_FIRST_ERROR = 400


def _names(wire: Iterable[tuple[str, int]], prefix: str, names: type[StrEnum]) -> Mapping[int, str]:
    return {number: names(name.removeprefix(prefix).lower()) for name, number in wire if number}


_PHASES = _names(pb.LoadPhase.items(), "LOAD_PHASE_", LoadPhase)
_FAILURES = _names(pb.LoadFailure.items(), "LOAD_FAILURE_", LoadFailure)
_LOAD_STATUSES = _names(pb.LoadStatus.items(), "LOAD_STATUS_", LoadStatus)
_CREDENTIALS = _names(pb.EnableCredentials.items(), "ENABLE_CREDENTIALS_", EnableCredentials)
_AUTHORIZATIONS = _names(pb.EnableAuthorization.items(), "ENABLE_AUTHORIZATION_", EnableAuthorization)
_ENDS = _names(pb.EnableEnd.items(), "ENABLE_END_", EnableEnd)


def load_facts(signals: pb.LoadSignals, error_text: str) -> dict[str, str]:
    """Return every fact of a load by name; the text is looked at only where the signals say nothing (L-2)."""
    if error_text and not any(signals.HasField(name) for name in ("phase", "failure", "http_status")):
        found = signals_in_text(error_text)
        found.MergeFrom(signals)
        signals = found
    failure, http = _failure(signals)
    phase = _PHASES.get(signals.phase, UNKNOWN)
    http_class, http_status = http
    return {
        "load.phase": phase if phase == UNKNOWN or can_fail(failure, phase) else UNKNOWN,
        "load.failure": failure,
        "load.http_class": http_class,
        "load.http_status": http_status,
        "load.timeout_signature": _boolean(signals.timeout_signature),
        "load.in_session": _boolean(signals.in_session),
        "load.tries_left": _boolean(signals.tries_left > 0),
        "load.retry_scheduled": _boolean(signals.retry_scheduled),
    }


def enable_facts(facts: pb.EnableFacts) -> dict[str, str]:
    """Return every fact of an enable by name."""
    load_status = _LOAD_STATUSES.get(facts.load_status, UNKNOWN) if facts.HasField("load_status") else UNKNOWN
    expired = _boolean(facts.dialog_expired) if facts.HasField("dialog_expired") else UNKNOWN
    authorization, ended = _AUTHORIZATIONS.get(facts.authorization, UNKNOWN), _ENDS.get(facts.ended, UNKNOWN)
    return {
        "enable.known": _boolean(facts.known) if facts.HasField("known") else UNKNOWN,
        "enable.was_connected": _boolean(facts.was_connected) if facts.HasField("was_connected") else UNKNOWN,
        "enable.credentials": _CREDENTIALS.get(facts.credentials, UNKNOWN),
        **attempt_facts(authorization, ended, load_status, expired),
        "enable.callable_tools": _boolean(facts.callable_tools) if facts.HasField("callable_tools") else UNKNOWN,
    }


def _failure(signals: pb.LoadSignals) -> tuple[str, tuple[str, str]]:
    """Return the failure, and the class and the number of the HTTP status if there is one.

    An error status is the failure, whatever was seen after it: a server that answered did not time out.
    """
    failure = _FAILURES.get(signals.failure, UNKNOWN)
    has_status = signals.HasField("http_status")
    if has_status and (signals.http_status >= _FIRST_ERROR or failure in {LoadFailure.HTTP_STATUS, UNKNOWN}):
        return LoadFailure.HTTP_STATUS, http_facts(signals.http_status)
    if failure in {LoadFailure.HTTP_STATUS, UNKNOWN}:
        return failure, (UNKNOWN, UNKNOWN)
    return failure, ("none", "none")


def _boolean(value: bool) -> str:
    return str(value).lower()
