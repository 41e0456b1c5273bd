"""Translates a failure into the signals that the policy classifies (L-2); nothing is decided here."""

from __future__ import annotations

from callability.gateway.upstream import Failure
from callability.timeout_signature import timed_out_on_the_way
from callability.v1 import outcome_pb2 as pb
from callability.vocabulary import LoadFailure


def signals_of(failure: Failure, *, tries_left: int, retry_scheduled: bool) -> pb.LoadSignals:
    """Return the structured signals of one failure: no text, and of its body only the timeout signature (L-2, L-3)."""
    has_status = failure.kind is LoadFailure.HTTP_STATUS
    return pb.LoadSignals(
        phase=None if failure.phase is None else pb.LoadPhase.Value(f"LOAD_PHASE_{failure.phase.name}"),
        failure=pb.LoadFailure.Value(f"LOAD_FAILURE_{failure.kind.name}"),
        http_status=failure.status if has_status else None,
        timeout_signature=timed_out_on_the_way(failure.body),
        in_session=failure.in_session,
        tries_left=tries_left,
        retry_scheduled=retry_scheduled,
    )
