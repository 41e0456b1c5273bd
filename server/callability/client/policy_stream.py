"""Following `WatchPolicy`, at one replica after the other."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from threading import Event, Lock, Thread, Timer
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from callability.client.failure import PolicyUnavailable
from callability.client.held_policy import HeldPolicy
from callability.client.replicas import Replicas
from callability.client.rotation import ReplicaState
from callability.v1 import policy_service_pb2 as pb

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
                confirmed |= self._followed(replica)
                if self._closed.is_set():
                    return
            pause = PAUSE_SECONDS if confirmed else min(2 * pause, MAX_PAUSE_SECONDS)
            self._closed.wait(pause)

    def _followed(self, replica: int) -> bool:
        """Follow a replica until it is lost, and return whether it confirmed the policy."""
        confirmed, why = False, "ended"
        channel = self._replicas.channel(replica)
        try:
            stream: Any = channel.unary_stream(PATH)
            request = pb.WatchPolicyRequest(bundle_digest=self._held.digest).SerializeToString()
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
        except PolicyUnavailable as error:
            why = error.code
        except DecodeError:
            why = "an answer that cannot be read"
        finally:
            self._cancel()
            channel.close()
        if not self._closed.is_set():
            self._replicas.saw(replica, ReplicaState.DOWN, why)
        return confirmed

    def _take(self, message: pb.WatchPolicyResponse) -> bool:
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


def _unless_silent(call: Any) -> Iterator[pb.WatchPolicyResponse]:
    """Yield the messages of a stream, and cancel it if none comes for too long."""
    seconds = FIRST_SECONDS
    while True:
        timer = Timer(seconds, call.cancel)
        timer.daemon = True
        timer.start()
        try:
            message = pb.WatchPolicyResponse.FromString(next(call))
        except StopIteration:
            return
        finally:
            timer.cancel()
        yield message
        seconds = max(SILENT_BEATS * message.heartbeat_seconds, FIRST_SECONDS)
