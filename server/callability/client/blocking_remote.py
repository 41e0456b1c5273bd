"""Asking a remote service from threads: a channel and a health watch for each replica."""

from __future__ import annotations

from contextlib import closing
from threading import Event, Lock, Thread
from typing import Any

import grpc

from callability.client import health
from callability.client.failure import ClientClosed, PolicyUnavailable
from callability.client.method import Method, Request, Response
from callability.client.replicas import PAUSE_SECONDS, Failed, Replicas, Sending
from callability.client.rotation import ReplicaState

CLOSE_SECONDS = 10.0
"""How long to wait for the threads that watch."""


class BlockingRemote:
    """Calls replicas from any number of threads."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas = replicas
        self._lock = Lock()
        self._channels: tuple[grpc.Channel, ...] | None = None
        self._threads: list[Thread] = []
        self._watching: dict[int, Any] = {}
        self._closed = Event()
        replicas.renew = self._renew

    @property
    def replica_states(self) -> dict[str, ReplicaState]:
        """The state of each replica by its address."""
        return self.replicas.states

    def open(self) -> tuple[grpc.Channel, ...]:
        """Begin to connect and to watch, unless that has been done.

        Raises:
            ClientClosed: the client was closed.
        """
        with self._lock:
            if self._closed.is_set():
                raise ClientClosed("the client is closed")
            if self._channels is None:
                self._channels = tuple(map(self.replicas.channel, range(len(self.replicas.addresses))))
                for replica, channel in enumerate(self._channels):
                    thread = Thread(target=self._watch, args=(replica, channel), daemon=True, name="callability-health")
                    self._threads.append(thread)
                    thread.start()
            return self._channels

    def call(self, method: Method[Request, Response], request: Request) -> Response:
        """Make a call, by the attempts that `Rotation.attempts` returns.

        Raises:
            PolicyUnavailable: there is no answer.
            InvalidRequest: the request is refused.
            ClientClosed: the client was closed.
        """
        channels = self.open()
        with closing(self.replicas.calling(method, request)) as steps:
            sending = next(steps)
            while True:
                result = self._sent(channels[sending.replica], sending)
                try:
                    sending = steps.send(result)
                except StopIteration as end:
                    response: Response = end.value
                    return response

    def close(self) -> None:
        """End the calls under way, the watches and the connections."""
        with self._lock:
            self._closed.set()
            channels, self._channels = self._channels or (), ()
        for call in tuple(self._watching.values()):
            call.cancel()
        for channel in channels:
            channel.close()
        for thread in self._threads:
            thread.join(CLOSE_SECONDS)

    def _sent(self, channel: grpc.Channel, sending: Sending) -> bytes | Failed:
        if sending.pause and self._closed.wait(sending.pause):
            raise ClientClosed("the client was closed during the call")
        try:
            call: Any = channel.unary_unary(sending.path)
            answer: bytes = call(
                sending.data,
                timeout=sending.seconds,
                metadata=tuple(sending.metadata),
                wait_for_ready=sending.patient,
            )
        except grpc.RpcError as error:
            if self._closed.is_set():
                raise ClientClosed("the client was closed during the call") from None
            return Failed(error.code(), error.details() or "")
        except ValueError:
            if self._closed.is_set():
                raise ClientClosed("the client was closed during the call") from None
            raise
        return answer

    def _renew(self, replica: int) -> None:
        call = self._watching.get(replica)
        if call is not None:
            call.cancel()

    def _watch(self, replica: int, channel: grpc.Channel) -> None:
        renewed = False
        while not self._closed.is_set():
            pause, patient, renewed = PAUSE_SECONDS, not renewed, False
            try:
                self._followed(replica, channel, patient=patient)
            except grpc.RpcError as error:
                code = error.code()
                if code is grpc.StatusCode.CANCELLED:
                    renewed = True
                    continue
                pause = self.replicas.unwatched(replica, code)
            except PolicyUnavailable:
                self.replicas.unwatched(replica, grpc.StatusCode.UNAUTHENTICATED)
            except ValueError:
                return  # the channel was closed
            self._closed.wait(pause)

    def _followed(self, replica: int, channel: grpc.Channel, *, patient: bool) -> None:
        """Read the health of a replica until the stream ends. A `patient` stream begins when there is a connection.

        After a failed call the stream is not patient, so that a replica which is gone is found to be down.
        """
        stream: Any = channel.unary_stream(health.WATCH)
        metadata = self.replicas.metadata()
        call = self._watching[replica] = stream(health.REQUEST, metadata=metadata, wait_for_ready=patient)
        if self._closed.is_set():
            call.cancel()
        for response in call:
            self.replicas.saw(replica, health.state_in(response))
