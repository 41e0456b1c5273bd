"""A call of a service with several replicas, without its transport: who is asked, and what an outcome means."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError

from callability import request_context
from callability.client.credentials import Credentials, Options
from callability.client.failure import FINAL, InvalidRequest, PolicyUnavailable, no_answer
from callability.client.hooks import GuardedHooks, Metadata
from callability.client.method import Method, Request, Response
from callability.client.rotation import ReplicaState, Rotation
from callability.request_context import REQUEST_ID

_LOST = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
"""Codes after which a replica is not asked first until it says that it serves."""
_UNREADABLE = "an answer that cannot be read"
ATTEMPT_SECONDS = 2.0
"""The deadline of one attempt; a call takes at most twice as long."""
PAUSE_SECONDS = 0.5
"""How long to wait before the health of a replica is read again after an error."""
UNSUPPORTED_SECONDS = 60.0
"""How long to wait if the replica has no health service."""


@dataclass(frozen=True, slots=True)
class Sending:
    """An attempt to send: to which replica, what, for how long, whether to wait for a connection, and how long to pause
    first.
    """

    replica: int
    path: str
    data: bytes
    seconds: float
    metadata: Metadata
    patient: bool
    pause: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of an attempt without an answer."""

    code: grpc.StatusCode
    details: str


class Replicas:
    """The replicas of a service: their addresses and states, and what is reported about them.

    Raises:
        ValueError: there is no address, or one is given twice; or a deadline is not above zero.
        AddressRefused: an address cannot be used.
    """

    def __init__(
        self, addresses: Sequence[str], credentials: Credentials, attempt_seconds: float, hooks: GuardedHooks
    ) -> None:
        if isinstance(addresses, str) or not addresses:
            raise ValueError("`addresses` must be a list with at least one address")
        if len({*addresses}) < len(addresses):
            raise ValueError("an address is given twice")
        if not attempt_seconds > 0:
            raise ValueError("`attempt_seconds` must be above zero")
        self.addresses = tuple(addresses)
        self.options: tuple[Options, ...] = tuple(credentials.options(address) for address in addresses)
        self.credentials = credentials
        self.hooks = hooks
        self._seconds = attempt_seconds
        self._rotation = Rotation(len(self.addresses))
        self.renew: Callable[[int], None] = lambda _: None
        """Called when the health of a replica has to be read again."""

    @property
    def states(self) -> dict[str, ReplicaState]:
        """The state of each replica, by its address."""
        return dict(zip(self.addresses, self._rotation.states, strict=True))

    def channel(self, replica: int) -> grpc.Channel:
        """Return a channel to a replica, for threads."""
        credentials = self.credentials.of_channel
        if credentials is None:
            return grpc.insecure_channel(self.addresses[replica], options=self.options[replica])
        return grpc.secure_channel(self.addresses[replica], credentials, options=self.options[replica])

    def asyncio_channel(self, replica: int) -> grpc.aio.Channel:
        """Return a channel to a replica, for the current event loop."""
        credentials = self.credentials.of_channel
        if credentials is None:
            return grpc.aio.insecure_channel(self.addresses[replica], options=self.options[replica])
        return grpc.aio.secure_channel(self.addresses[replica], credentials, options=self.options[replica])

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of an attempt.

        Raises:
            PolicyUnavailable: the function that returns the token failed.
        """
        try:
            return tuple(self.credentials.metadata())
        except Exception as error:
            self.hooks.log(logging.ERROR, "token_unreadable", {"error": type(error).__name__})
            raise PolicyUnavailable("the token for the policy service cannot be read", "UNAUTHENTICATED") from error

    def saw(self, replica: int, state: ReplicaState, why: str = "") -> None:
        """Note the state of a replica, and report a change."""
        if not self._rotation.saw(replica, state):
            return
        address = self.addresses[replica]
        level = logging.INFO if state in {ReplicaState.SERVING, ReplicaState.UNKNOWN} else logging.WARNING
        self.hooks.log(level, f"replica_{state}", {"replica": address, **({"why": why} if why else {})})
        self.hooks.metric(
            "callability_client_replica_serving", float(state is ReplicaState.SERVING), {"replica": address}
        )

    def unwatched(self, replica: int, code: grpc.StatusCode) -> float:
        """Note that the health of a replica cannot be read, and return after how many seconds to try again."""
        if code is grpc.StatusCode.UNIMPLEMENTED:
            self.saw(replica, ReplicaState.UNKNOWN)
            return UNSUPPORTED_SECONDS
        self.saw(replica, ReplicaState.DOWN, code.name)
        return PAUSE_SECONDS

    def calling(
        self, method: Method[Request, Response], request: Request
    ) -> Generator[Sending, bytes | Failed, Response]:
        """Yield each attempt of a call, take its outcome, and return the answer.

        Raises:
            PolicyUnavailable: no attempt had an answer.
            InvalidRequest: the request is refused.
        """
        started, outcome = time.perf_counter(), "ok"
        about = {"method": method.name, "path": method.path.removeprefix("/")}
        with self.hooks.span(f"callability.{method.name}", about) as metadata:
            try:
                with_id = (*metadata, (REQUEST_ID, request_context.current_id()))
                return (yield from self._attempts(method, request.SerializeToString(), with_id))
            except (PolicyUnavailable, InvalidRequest) as error:
                outcome = "unavailable" if isinstance(error, PolicyUnavailable) else "invalid"
                raise
            except GeneratorExit:
                outcome = "cancelled"
                raise
            finally:
                labels = {"method": method.name, "outcome": outcome}
                self.hooks.metric("callability_client_call_seconds", time.perf_counter() - started, labels)

    def _attempts(
        self, method: Method[Request, Response], data: bytes, metadata: Metadata
    ) -> Generator[Sending, bytes | Failed, Response]:
        failed: Failed | None = None
        result: bytes | Failed | None = None
        ends = time.monotonic() + 2 * self._seconds
        for attempt in self._rotation.attempts():
            seconds = self._seconds
            if attempt.pause:
                seconds = min(seconds, ends - time.monotonic() - attempt.pause)
                if seconds <= 0 or not (isinstance(result, Failed) and result.code is grpc.StatusCode.UNAVAILABLE):
                    break
            with_token = (*self.metadata(), *metadata)
            result = yield Sending(
                attempt.replica, method.path, data, seconds, with_token, attempt.patient, attempt.pause
            )
            if isinstance(result, bytes):
                try:
                    response = method.response.FromString(result)
                except DecodeError:
                    result = Failed(grpc.StatusCode.INTERNAL, _UNREADABLE)
                else:
                    self._count(method.name, attempt.replica, "OK")
                    return response
            self._count(method.name, attempt.replica, result.code.name)
            waited = attempt.patient and result.code is grpc.StatusCode.DEADLINE_EXCEEDED
            # That no connection was made in time says less than why the first attempt failed. That the request is about
            # another policy says most: then it is built again.
            says_more = (
                failed is not None and failed.code is grpc.StatusCode.FAILED_PRECONDITION and result.code not in FINAL
            )
            failed = failed if failed and (waited or says_more) else result
            if result.code in FINAL:
                break
            self._failed(attempt.replica, method.name, result)
        assert failed is not None
        raise no_answer(failed.code, failed.details)

    def _count(self, method: str, replica: int, code: str) -> None:
        labels = {"method": method, "replica": self.addresses[replica], "code": code}
        self.hooks.metric("callability_client_attempts_total", 1, labels)

    def _failed(self, replica: int, method: str, failed: Failed) -> None:
        address = self.addresses[replica]
        self.hooks.log(
            logging.WARNING, "attempt_failed", {"method": method, "replica": address, "code": failed.code.name}
        )
        usable = self._rotation.states[replica] in {ReplicaState.SERVING, ReplicaState.UNKNOWN}
        if failed.code in _LOST and usable:
            self.saw(replica, ReplicaState.SUSPECT, failed.code.name)
            self.renew(replica)
