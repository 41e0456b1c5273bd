"""The streams of `WatchPolicy`: the policy that is served, each one that replaces it, and heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from callability.kernel.calls import parsed
from callability.service.calls.callability_calls import CallabilityCalls
from callability.service.calls.served_policy import ServedPolicy
from callability.service.requests.errors import ShuttingDown
from callability.v1 import policy_service_pb2 as pb

HEARTBEAT_SECONDS = 5
"""Seconds without a change after which a watcher gets a message that confirms the policy."""
ENDING = 1.0
"""Seconds that the streams have to end when the service stops."""


class PolicyWatches:
    """Streams a served policy to any number of watchers. Each gets the newest when it can read: none needs a queue."""

    def __init__(self, served: ServedPolicy) -> None:
        self._served = served
        self._stopping = asyncio.Event()
        self._left = 0
        self._none_left = asyncio.Event()
        self._none_left.set()
        # The largest reply is encoded once for all watchers.
        self._encoded: tuple[CallabilityCalls, bytes] | None = None

    async def follow(self, data: bytes) -> AsyncGenerator[bytes, None]:
        """Yield a `WatchPolicyResponse` for the policy that is served, and after each change or heartbeat.

        Raises:
            InvalidRequest: the request is malformed.
            ShuttingDown: the service stops.
        """
        known = parsed(pb.WatchPolicyRequest, data).bundle_digest
        self._left += 1
        self._none_left.clear()
        try:
            while not self._stopping.is_set():
                calls, replaced = self._served.calls, self._served.replaced
                yield self._with_bundle(calls) if calls.policy.digest != known else _reply(calls)
                known = calls.policy.digest
                if self._served.replaced is replaced:
                    await self._change(replaced)
            raise ShuttingDown
        finally:
            self._left -= 1
            if not self._left:
                self._none_left.set()

    async def end(self) -> None:
        """End every stream with `ShuttingDown`, and wait until they have ended, for at most `ENDING` seconds."""
        self._stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING):
                await self._none_left.wait()

    async def _change(self, replaced: asyncio.Event) -> None:
        """Wait until the policy is replaced, the service stops or a heartbeat is due."""
        waits = [asyncio.create_task(each.wait()) for each in (replaced, self._stopping)]
        try:
            await asyncio.wait(waits, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    def _with_bundle(self, calls: CallabilityCalls) -> bytes:
        if self._encoded is None or self._encoded[0] is not calls:
            self._encoded = calls, _reply(calls, calls.bundle)
        return self._encoded[1]


def _reply(calls: CallabilityCalls, bundle: bytes = b"") -> bytes:
    return pb.WatchPolicyResponse(
        revision=calls.revision,
        bundle_digest=calls.policy.digest,
        bundle=bundle,
        heartbeat_seconds=HEARTBEAT_SECONDS,
    ).SerializeToString()
