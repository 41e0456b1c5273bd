"""A call of a service with several replicas, without its transport: which one is asked, and what an outcome means."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, repeat
from threading import Lock
from typing import Generic, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from callability.client.hooks import GuardedHooks, InvalidRequest, Metadata, PolicyUnavailable
from callability.process import logs
from callability.process.address import DIRECT, check_loopback, check_service_address, is_loopback
from callability.process.logs import REPORT, REQUEST_ID
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import policy_service_pb2

PATIENCE_SECONDS = 5.0
"""How long after a replica was lost a second attempt waits for a connection to it: it may be starting again."""

REFUSED_PAUSES = (0.1, 0.2, 0.4, 0.8)
"""Seconds before each further attempt at the only address, if it refuses calls; the last one repeats."""


FINAL = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
"""The codes after which no other replica is asked: it would give the same answer."""


def no_answer(code: grpc.StatusCode, details: str) -> PolicyUnavailable | InvalidRequest:
    """Return the error for a call that ended with a code other than OK."""
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidRequest(details)
    return PolicyUnavailable(f"the policy service gave no answer ({code.name})", code.name, details)


class ReplicaState(StrEnum):
    """What is known of a replica."""

    UNKNOWN = "unknown"
    """Its health has not been read: it is asked like one that serves."""
    SERVING = "serving"
    """It says that it serves."""
    DOWN = "down"
    """It cannot be reached, or says that it does not serve."""
    SUSPECT = "suspect"
    """It did not answer in time, and has not said since that it serves."""


_USABLE = frozenset({ReplicaState.UNKNOWN, ReplicaState.SERVING})


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """An attempt of a call: the replica to ask, whether to wait until it is connected, and the seconds to pause first.

    One with a pause is only for a call that was refused.
    """

    replica: int
    patient: bool
    pause: float = 0.0


class Rotation:
    """The states of replicas, by their number, and whose turn it is. It may be used from several threads."""

    def __init__(self, replicas: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._turn = 0
        self._states = [ReplicaState.UNKNOWN] * replicas
        self._lost_at = [clock()] * replicas

    @property
    def states(self) -> tuple[ReplicaState, ...]:
        """The state of each replica."""
        with self._lock:
            return tuple(self._states)

    def attempts(self) -> Iterator[CallAttempt]:
        """Return the two attempts of a call. They go to different replicas, if there are two.

        The only replica may be a load balancer, which passes on the refusals of a replica that stops. So there are
        further attempts at it without an end, unless it has been away for longer.
        """
        with self._lock:
            self._turn = (self._turn + 1) % len(self._states)
            turns = [(self._turn + step) % len(self._states) for step in range(len(self._states))]
            order = sorted(turns, key=lambda replica: self._states[replica] not in _USABLE)
            first, second = order[0], order[1 % len(order)]
            waits = self._clock() - self._lost_at[second] < PATIENCE_SECONDS
            patient = waits or self._states[second] in _USABLE
            pauses = chain(REFUSED_PAUSES, repeat(REFUSED_PAUSES[-1])) if first == second and patient else ()
            both = (CallAttempt(first, patient=False), CallAttempt(second, patient=patient))
            return chain(both, (CallAttempt(second, patient=True, pause=pause) for pause in pauses))

    def saw(self, replica: int, state: ReplicaState) -> bool:
        """Note the state of a replica, and return whether it is another than before."""
        with self._lock:
            before = self._states[replica]
            if before in _USABLE and state not in _USABLE:
                self._lost_at[replica] = self._clock()
            self._states[replica] = state
            return before is not state


_PLAIN = "what a proxy sends would not be encrypted: give `Credentials(channel=grpc.ssl_channel_credentials(...))`"
_OPTIONS = (
    # The answer about 20,000 tools may have more than the 4 MiB that gRPC accepts by default.
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A second attempt goes to another replica. gRPC's own would go to the same one, within the same deadline.
    ("grpc.enable_retries", 0),
    # Finds a connection that a network dropped silently. A server takes more than one ping in five minutes for abuse.
    ("grpc.keepalive_time_ms", 310_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)

Options = tuple[tuple[str, int | str], ...]
"""Options of a gRPC channel."""


_TOKEN = re.compile(r"[!-~]+")


class UnusableToken(ValueError):
    """A token that no header can have. Its text does not show it."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a client. Without `channel` nothing is encrypted, and only this machine can be asked.

    Args:
        channel: TLS, from `grpc.ssl_channel_credentials`, with a client certificate for mutual TLS.
        call: credentials of each call, such as those of `grpc.metadata_call_credentials`; they need `channel`.
        token: a bearer token, or a function that returns the current one. It is called for each attempt and must not
            block.
        server_name: the name in the certificate of the service, if it is not that of its address.

    Raises:
        ValueError: `call` or `server_name` is given without `channel`.
    """

    channel: grpc.ChannelCredentials | None = None
    call: grpc.CallCredentials | None = None
    token: str | Callable[[], str] | None = None
    server_name: str = ""

    def __post_init__(self) -> None:
        if self.channel is None and (self.call is not None or self.server_name):
            raise ValueError("`call` and `server_name` go with `channel`")

    def __repr__(self) -> str:
        return f"Credentials(encrypted={self.channel is not None}, token={'given' if self.token else None})"

    def metadata(self) -> Sequence[tuple[str, str]]:
        """Return the metadata of one attempt.

        Raises:
            UnusableToken: no header can have the token.
        """
        if self.token is None:
            return ()
        # A file that holds a token often ends with a line break.
        token = (self.token if isinstance(self.token, str) else self.token()).strip()
        if not _TOKEN.fullmatch(token):
            raise UnusableToken("it must have one or more visible ASCII characters, and no others")
        return (("authorization", f"Bearer {token}"),)

    @property
    def of_channel(self) -> grpc.ChannelCredentials | None:
        """The credentials of a channel; None: it is not encrypted."""
        if self.channel is None or self.call is None:
            return self.channel
        return grpc.composite_channel_credentials(self.channel, self.call)

    def options(self, address: str) -> Options:
        """Return the options of a channel to an address.

        Raises:
            AddressRefused: the address is none, or is another machine's and nothing would be encrypted.
        """
        host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
        if self.channel is None or address.startswith("unix:"):
            check_service_address(address, _PLAIN)
        elif is_loopback(host):
            check_loopback(address, "")
        named = (("grpc.ssl_target_name_override", self.server_name),) if self.server_name else ()
        direct = (DIRECT,) if address.startswith("unix:") or is_loopback(host) else ()
        return (*_OPTIONS, *direct, *named)


PLAIN = Credentials()
"""No credentials: a service on this machine that asks for none."""


Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """A unary call: its name, its path on the wire, and its messages."""

    name: str
    path: str
    request: type[Request]
    response: type[Response]


_CALLABILITY = pb.DESCRIPTOR.services_by_name["CallabilityService"].full_name
_POLICY = policy_service_pb2.DESCRIPTOR.services_by_name["PolicyService"].full_name

CHECK_TOOL = Method("CheckTool", f"/{_CALLABILITY}/CheckTool", pb.CheckToolRequest, pb.CheckToolResponse)
CHECK_TOOLS = Method("CheckTools", f"/{_CALLABILITY}/CheckTools", pb.CheckToolsRequest, pb.CheckToolsResponse)
EXPLAIN_TOOL = Method("ExplainTool", f"/{_CALLABILITY}/ExplainTool", pb.ExplainToolRequest, pb.ExplainToolResponse)
CLASSIFY_LOAD = Method("ClassifyLoad", f"/{_CALLABILITY}/ClassifyLoad", pb.ClassifyLoadRequest, pb.ClassifyLoadResponse)
CLASSIFY_ENABLE = Method(
    "ClassifyEnable", f"/{_CALLABILITY}/ClassifyEnable", pb.ClassifyEnableRequest, pb.ClassifyEnableResponse
)
GET_POLICY = Method(
    "GetPolicy", f"/{_POLICY}/GetPolicy", policy_service_pb2.GetPolicyRequest, policy_service_pb2.GetPolicyResponse
)


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
class FailedCall:
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
            PolicyUnavailable: the function that returns the token failed, or no header can have the token.
        """
        try:
            return tuple(self.credentials.metadata())
        except UnusableToken as error:
            self.hooks.log(logging.ERROR, "token_unreadable", {"error": str(error)})
            reason = "the token for the policy service cannot be sent"
            raise PolicyUnavailable(reason, "UNAUTHENTICATED", str(error)) from error
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

    def note_unwatched(self, replica: int, code: grpc.StatusCode) -> float:
        """Note that the health of a replica cannot be read, and return after how many seconds to try again."""
        if code is grpc.StatusCode.UNIMPLEMENTED:
            self.saw(replica, ReplicaState.UNKNOWN)
            return UNSUPPORTED_SECONDS
        self.saw(replica, ReplicaState.DOWN, code.name)
        return PAUSE_SECONDS

    def calling(
        self, method: Method[Request, Response], request: Request
    ) -> Generator[Sending, bytes | FailedCall, Response]:
        """Yield each attempt of a call, take its outcome, and return the answer.

        Raises:
            PolicyUnavailable: no attempt had an answer.
            InvalidRequest: the request is refused.
        """
        started, outcome = time.perf_counter(), "ok"
        about = {"method": method.name, "path": method.path.removeprefix("/")}
        with self.hooks.span(f"callability.{method.name}", about) as metadata:
            try:
                of_report = ((REPORT, "1"),) if logs.is_report() else ()
                with_id = (*metadata, (REQUEST_ID, logs.current_id()), *of_report)
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
    ) -> Generator[Sending, bytes | FailedCall, Response]:
        failed: FailedCall | None = None
        result: bytes | FailedCall | None = None
        ends = time.monotonic() + 2 * self._seconds
        for attempt in self._rotation.attempts():
            seconds = self._seconds
            if attempt.pause:
                seconds = min(seconds, ends - time.monotonic() - attempt.pause)
                if seconds <= 0 or not (isinstance(result, FailedCall) and result.code is grpc.StatusCode.UNAVAILABLE):
                    break
            with_token = (*self.metadata(), *metadata)
            result = yield Sending(
                attempt.replica, method.path, data, seconds, with_token, attempt.patient, attempt.pause
            )
            if isinstance(result, bytes):
                try:
                    response = method.response.FromString(result)
                except DecodeError:
                    result = FailedCall(grpc.StatusCode.INTERNAL, _UNREADABLE)
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
            self._note_failure(attempt.replica, method.name, result)
        assert failed is not None
        raise no_answer(failed.code, failed.details)

    def _count(self, method: str, replica: int, code: str) -> None:
        labels = {"method": method, "replica": self.addresses[replica], "code": code}
        self.hooks.metric("callability_client_attempts_total", 1, labels)

    def _note_failure(self, replica: int, method: str, failed: FailedCall) -> None:
        address = self.addresses[replica]
        self.hooks.log(
            logging.WARNING, "attempt_failed", {"method": method, "replica": address, "code": failed.code.name}
        )
        usable = self._rotation.states[replica] in {ReplicaState.SERVING, ReplicaState.UNKNOWN}
        if failed.code in _LOST and usable:
            self.saw(replica, ReplicaState.SUSPECT, failed.code.name)
            self.renew(replica)
