"""Deciding in this process: the policy comes from a service by `WatchPolicy`, or from a bundle in a file."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread, Timer
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from callability.client.held_policy import BundleFile, HeldPolicy
from callability.client.hooks import ClientClosed, DecisionHook, GuardedHooks, InvalidRequest, PolicyUnavailable
from callability.client.replicas import Credentials, Method, Replicas, ReplicaState, Request, Response
from callability.kernel import limits
from callability.kernel.calls import LocalCalls, description
from callability.kernel.envelope import BundleRefused
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import policy_service_pb2 as policy_pb

PATH = "/callability.v1.PolicyService/WatchPolicy"
SILENT_BEATS = 2.5
"""After how many heartbeats without a message a replica counts as lost."""
FIRST_SECONDS = 5.0
"""How long to wait for the first message of a stream, the time to connect included."""
PAUSE_SECONDS = 0.2
"""The first pause after every replica failed; each further one is twice as long."""
MAX_PAUSE_SECONDS = 2.0
CLOSE_SECONDS = 10.0


class PolicyStream:
    """Keeps a policy current from a thread of its own; it moves on to the next replica if one is silent or lost."""

    def __init__(self, replicas: Replicas, held: HeldPolicy) -> None:
        self._replicas = replicas
        self._held = held
        self._closed = Event()
        self._lock = Lock()
        self._call: Any = None
        self._thread = Thread(target=self._follow, daemon=True, name="callability-policy")

    def open(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End, and wait for the thread."""
        self._closed.set()
        self._cancel()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _follow(self) -> None:
        pause = PAUSE_SECONDS
        while not self._closed.is_set():
            confirmed = False
            for replica in range(len(self._replicas.addresses)):
                # A replica that ends its stream after messages has stopped: the others come first.
                confirmed |= self._follow_replica(replica)
                if self._closed.is_set():
                    return
            pause = PAUSE_SECONDS if confirmed else min(2 * pause, MAX_PAUSE_SECONDS)
            self._closed.wait(pause)

    def _follow_replica(self, replica: int) -> bool:
        """Follow a replica until it is lost, and return whether it confirmed the policy."""
        confirmed, why, fault = False, "ended", ""
        channel = self._replicas.channel(replica)
        try:
            stream: Any = channel.unary_stream(PATH)
            request = policy_pb.WatchPolicyRequest(bundle_digest=self._held.digest).SerializeToString()
            call = stream(request, metadata=self._replicas.metadata())
            with self._lock:
                self._call = call
            if self._closed.is_set():
                call.cancel()
            for message in _unless_silent(call):
                confirmed |= self._take(message)
                self._replicas.saw(replica, ReplicaState.SERVING)
        except grpc.RpcError as error:
            why = error.code().name
            # What this client cancelled, it has a reason of its own for.
            fault = "" if error.code() is grpc.StatusCode.CANCELLED else f"{why}: {error.details()}"
        except PolicyUnavailable as error:
            why, fault = error.code, f"{error}: {error.details}" if error.details else str(error)
        except DecodeError:
            why = "an answer that cannot be read"
        finally:
            self._cancel()
            channel.close()
        if not self._closed.is_set():
            self._replicas.saw(replica, ReplicaState.DOWN, why)
            if fault:
                self._held.note_fault(f"{self._replicas.addresses[replica]}: {fault}")
        return confirmed

    def _take(self, message: policy_pb.WatchPolicyResponse) -> bool:
        if message.bundle:
            return self._held.accept(message.bundle, message.bundle_digest, rollback=True)
        if message.bundle_digest and message.bundle_digest == self._held.digest:
            self._held.confirm()
            return True
        if not self._held.has_refused(message.bundle_digest):
            self._replicas.hooks.log(logging.ERROR, "policy_not_sent", {"revision": message.revision})
        self._cancel()
        return False

    def _cancel(self) -> None:
        with self._lock:
            if self._call is not None:
                self._call.cancel()


def _unless_silent(call: Any) -> Iterator[policy_pb.WatchPolicyResponse]:
    """Yield the messages of a stream, and cancel it if none comes for too long."""
    seconds = FIRST_SECONDS
    while True:
        timer = Timer(seconds, call.cancel)
        timer.daemon = True
        timer.start()
        try:
            message = policy_pb.WatchPolicyResponse.FromString(next(call))
        except StopIteration:
            return
        finally:
            timer.cancel()
        yield message
        seconds = max(SILENT_BEATS * message.heartbeat_seconds, FIRST_SECONDS)


"""How long the first calls wait for a policy, counted from when the client was opened."""
MAX_AGE_SECONDS = 300.0
"""For how long a policy decides that nothing has confirmed, unless the caller says otherwise."""
LOOK_SECONDS = 0.01
"""How often a call in an event loop looks for the first policy."""
MANY_TOOLS = 500
"""Tools in a request that is decided beside the event loop, so that other tasks go on."""

_RECORDED = frozenset({"CheckTool", "ClassifyLoad", "ClassifyEnable"})
"""The decisions that a hook receives."""
_logger = logging.getLogger("callability.client")

_Answer = Callable[[LocalCalls, Any], Any]
_ANSWERS: Mapping[str, _Answer] = {
    "CheckTool": LocalCalls.check_tool,
    "CheckTools": LocalCalls.check_tools,
    "ExplainTool": LocalCalls.explain_tool,
    "ClassifyLoad": LocalCalls.classify_load,
    "ClassifyEnable": LocalCalls.classify_enable,
    "GetPolicy": lambda calls, _: description(calls.policy),
}


class LocalDecisions:
    """Answers calls by the policy that is held, from any number of threads. Without a source, somebody gives it."""

    def __init__(
        self,
        held: HeldPolicy,
        source: PolicyStream | BundleFile | None,
        hooks: GuardedHooks,
        decided: DecisionHook | None = None,
    ) -> None:
        self.held = held
        self._decided = decided
        self._source = source
        self._hooks = hooks
        self._lock = Lock()
        self._opened_at: float | None = None
        self._closed = False

    def open(self) -> None:
        """Read what is kept on disk, and begin to follow the source, unless that has been done.

        Raises:
            ClientClosed: the client was closed.
        """
        with self._lock:
            if self._closed:
                raise ClientClosed("the client is closed")
            if self._opened_at is None:
                self.held.load()
                if self._source is not None:
                    self._source.open()
                # Not before: if one of them fails, the next call tries again.
                self._opened_at = time.monotonic()

    def close(self) -> None:
        """Stop following the source."""
        with self._lock:
            was_open, self._closed = self._opened_at is not None and not self._closed, True
        if was_open and self._source is not None:
            self._source.close()

    @property
    def waits(self) -> float:
        """For how many seconds to wait for the first policy; 0 if there is one."""
        if self.held.accepted.is_set() or self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + FIRST_SECONDS - time.monotonic())

    def answer(self, method: Method[Request, Response], request: Request) -> Response:
        """Answer a call.

        Raises:
            PolicyUnavailable: there is no policy, or none that was confirmed recently enough.
            InvalidRequest: the request is refused.
        """
        with self._report_calls(method.name):
            calls, started = self.held.calls(), time.perf_counter()
            try:
                response: Response = _ANSWERS[method.name](calls, request)
            except limits.InvalidRequest as error:
                raise InvalidRequest(str(error)) from error
            except BundleRefused as error:
                raise PolicyUnavailable("the policy contradicts itself", "INTERNAL") from error
            if self._decided is not None and method.name in _RECORDED:
                self._hand_on(self._decided, method.name, request, response, time.perf_counter() - started)
            return response

    @staticmethod
    def _hand_on(decided: DecisionHook, method: str, request: Message, response: Message, seconds: float) -> None:
        try:
            decided(method, request.SerializeToString(), response.SerializeToString(), seconds)
        except Exception:
            _logger.exception("a hook failed at a decision of %s", method)

    @contextmanager
    def _report_calls(self, method: str) -> Iterator[None]:
        started, outcome = time.perf_counter(), "ok"
        with self._hooks.span(f"callability.{method}", {"method": method}):
            try:
                yield
            except (PolicyUnavailable, InvalidRequest) as error:
                outcome = "unavailable" if isinstance(error, PolicyUnavailable) else "invalid"
                raise
            finally:
                labels = {"method": method, "outcome": outcome}
                self._hooks.metric("callability_client_call_seconds", time.perf_counter() - started, labels)


class BlockingLocal:
    """Decides for callers in threads."""

    replica_states: Mapping[str, ReplicaState] = {}

    def __init__(self, decisions: LocalDecisions) -> None:
        self.decisions = decisions

    def open(self) -> None:
        """Begin to follow the policy."""
        self.decisions.open()

    def call(self, method: Method[Request, Response], request: Request) -> Response:
        """Answer a call; the first ones wait for a policy."""
        self.decisions.open()
        if seconds := self.decisions.waits:
            self.decisions.held.accepted.wait(seconds)
        return self.decisions.answer(method, request)

    def close(self) -> None:
        """Stop following the policy."""
        self.decisions.close()


class AsyncioLocal:
    """Decides for callers in an event loop."""

    replica_states: Mapping[str, ReplicaState] = {}

    def __init__(self, decisions: LocalDecisions) -> None:
        self.decisions = decisions

    def open(self) -> None:
        """Begin to follow the policy."""
        self.decisions.open()

    async def call(self, method: Method[Request, Response], request: Request) -> Response:
        """Answer a call; the first ones wait for a policy."""
        self.decisions.open()
        while seconds := self.decisions.waits:
            # Not in threads: the first calls would take all those that the event loop has for others.
            await asyncio.sleep(min(seconds, LOOK_SECONDS))
            self.decisions.open()
        if isinstance(request, pb.CheckToolsRequest) and _tools(request) > MANY_TOOLS:
            return await asyncio.to_thread(self.decisions.answer, method, request)
        return self.decisions.answer(method, request)

    async def close(self) -> None:
        """Stop following the policy."""
        await asyncio.to_thread(self.decisions.close)


def _tools(request: pb.CheckToolsRequest) -> int:
    return sum(len(server.tools) for server in request.servers)


def local_decisions(
    source: Path | Sequence[str],
    max_age_seconds: float,
    keep: Path | None,
    credentials: Credentials,
    keys: Mapping[str, bytes] | None,
    hooks: GuardedHooks,
    *,
    rollback: bool,
    decided: DecisionHook | None = None,
) -> LocalDecisions:
    """Return decisions by the policy of a service or of a bundle in a file; see `Client.local`.

    Raises:
        ValueError: an argument cannot be used.
        AddressRefused: an address cannot be used.
        MissingCryptography: there are `keys`, and the extra `bundle` is not installed.
    """
    if isinstance(source, str) or (not isinstance(source, Path) and not source):
        raise ValueError("`source` must be the path of a bundle as a `Path`, or a list with at least one address")
    if keys is not None:
        keys = _trusted_keys(keys)
    held = HeldPolicy(max_age_seconds, hooks, keep=keep, keys=keys)
    if isinstance(source, Path):
        return LocalDecisions(held, BundleFile(source, held, hooks, rollback=rollback), hooks, decided)
    if keys is not None or rollback:
        raise ValueError("`keys` and `rollback` go with a bundle in a file")
    return LocalDecisions(held, PolicyStream(Replicas(source, credentials, 1.0, hooks), held), hooks, decided)


def _trusted_keys(keys: Mapping[str, bytes]) -> Mapping[str, bytes]:
    # Without keys, no cryptography is needed.
    from callability.kernel.signatures import UnusableKey, trusted_key  # noqa: PLC0415

    try:
        return {key_id: trusted_key(key, key_id) for key_id, key in keys.items()}
    except UnusableKey as error:
        raise ValueError(str(error)) from None
