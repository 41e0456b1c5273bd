"""Deciding in this process: the policy comes from a service, or from a bundle in a file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from callability.client.bundle_file import BundleFile
from callability.client.credentials import Credentials
from callability.client.failure import ClientClosed, InvalidRequest, PolicyUnavailable
from callability.client.held_policy import HeldPolicy
from callability.client.hooks import GuardedHooks
from callability.client.method import Method, Request, Response
from callability.client.policy_stream import PolicyStream
from callability.client.replicas import Replicas
from callability.client.rotation import ReplicaState
from callability.kernel import limits
from callability.kernel.calls import LocalCalls
from callability.kernel.description import description
from callability.kernel.refusal import BundleRefused
from callability.v1 import callability_service_pb2 as pb

FIRST_SECONDS = 5.0
"""How long the first calls wait for a policy, counted from when the client was opened."""
MAX_AGE_SECONDS = 300.0
"""For how long a policy decides that nothing has confirmed, unless the caller says otherwise."""
LOOK_SECONDS = 0.01
"""How often a call in an event loop looks for the first policy."""
MANY_TOOLS = 500
"""Tools in a request that is decided beside the event loop, so that other tasks go on."""

_Answer = Callable[[LocalCalls, Any], Any]
_ANSWERS: Mapping[str, _Answer] = {
    "CheckTool": LocalCalls.check_tool,
    "CheckTools": LocalCalls.check_tools,
    "ExplainTool": LocalCalls.explain_tool,
    "ClassifyLoad": LocalCalls.classify_load,
    "ClassifyEnable": LocalCalls.classify_enable,
    "GetPolicy": lambda calls, _: description(calls.policy),
}


class Source(Protocol):
    """What keeps a policy current."""

    def open(self) -> None:
        """Begin."""

    def close(self) -> None:
        """End."""


class LocalDecisions:
    """Answers calls by the policy that is held, from any number of threads. Without a source, somebody gives it."""

    def __init__(self, held: HeldPolicy, source: Source | None, hooks: GuardedHooks) -> None:
        self.held = held
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
        with self._reported(method.name):
            calls = self.held.calls()
            try:
                response: Response = _ANSWERS[method.name](calls, request)
            except limits.InvalidRequest as error:
                raise InvalidRequest(str(error)) from error
            except BundleRefused as error:
                raise PolicyUnavailable("the policy contradicts itself", "INTERNAL") from error
            return response

    @contextmanager
    def _reported(self, method: str) -> Iterator[None]:
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
) -> LocalDecisions:
    """Return decisions by the policy of a service or of a bundle in a file; see `Client.local`.

    Raises:
        ValueError: an argument cannot be used.
        AddressRefused: an address cannot be used.
        MissingCryptography: there are `keys`, and the extra `bundle` is not installed.
    """
    if keys is not None:
        # Without keys, no cryptography is needed.
        import callability.kernel.signatures  # noqa: F401, PLC0415
    held = HeldPolicy(max_age_seconds, hooks, keep=keep, keys=keys)
    if isinstance(source, Path):
        return LocalDecisions(held, BundleFile(source, held, hooks, rollback=rollback), hooks)
    if keys is not None or rollback:
        raise ValueError("`keys` and `rollback` go with a bundle in a file")
    return LocalDecisions(held, PolicyStream(Replicas(source, credentials, 1.0, hooks), held), hooks)
