"""Asking a remote service, from asyncio and from threads: a channel and a health watch for each replica."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from threading import Event, Lock, Thread
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from callability.client.hooks import ClientClosed, PolicyUnavailable
from callability.client.replicas import (
    PAUSE_SECONDS,
    FailedCall,
    Method,
    Replicas,
    ReplicaState,
    Request,
    Response,
    Sending,
)

WATCH = "/grpc.health.v1.Health/Watch"
SERVICE = "callability.v1.CallabilityService"
"""The service whose health is watched."""
_STATES = {1: ReplicaState.SERVING, 2: ReplicaState.DOWN}


def _message(name: str, field_type: descriptor_pb2.FieldDescriptorProto.Type.ValueType) -> Any:
    # A pool of its own: `grpcio-health-checking` registers the same names in the default one.
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="callability.health", syntax="proto3")
    field = file.message_type.add(name=name).field.add(name="value", number=1)
    field.type, field.label = field_type, descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"callability.health.{name}"))


_Request = _message("HealthCheckRequest", descriptor_pb2.FieldDescriptorProto.TYPE_STRING)
_Response = _message("HealthCheckResponse", descriptor_pb2.FieldDescriptorProto.TYPE_INT32)

REQUEST: bytes = _Request(value=SERVICE).SerializeToString()
"""A `HealthCheckRequest` about the service, encoded."""


def state_in(response: bytes) -> ReplicaState:
    """Return the state that an encoded `HealthCheckResponse` reports; one that is not known counts as no report."""
    return _STATES.get(_Response.FromString(response).value, ReplicaState.UNKNOWN)


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
                result = self._send(channels[sending.replica], sending)
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

    def _send(self, channel: grpc.Channel, sending: Sending) -> bytes | FailedCall:
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
            return FailedCall(error.code(), error.details() or "")
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
                self._follow(replica, channel, patient=patient)
            except grpc.RpcError as error:
                code = error.code()
                if code is grpc.StatusCode.CANCELLED:
                    renewed = True
                    continue
                pause = self.replicas.note_unwatched(replica, code)
            except PolicyUnavailable:
                self.replicas.note_unwatched(replica, grpc.StatusCode.UNAUTHENTICATED)
            except ValueError:
                return  # the channel was closed
            self._closed.wait(pause)

    def _follow(self, replica: int, channel: grpc.Channel, *, patient: bool) -> None:
        """Read the health of a replica until the stream ends. A `patient` stream begins when there is a connection.

        After a failed call the stream is not patient, so that a replica which is gone is found to be down.
        """
        stream: Any = channel.unary_stream(WATCH)
        metadata = self.replicas.metadata()
        call = self._watching[replica] = stream(REQUEST, metadata=metadata, wait_for_ready=patient)
        if self._closed.is_set():
            call.cancel()
        for response in call:
            self.replicas.saw(replica, state_in(response))


class AsyncioRemote:
    """Calls replicas from one event loop, the one in which the first call is made."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas = replicas
        self._channels: tuple[grpc.aio.Channel, ...] | None = None
        self._watches: dict[int, asyncio.Task[None]] = {}
        self._watching: dict[int, Any] = {}
        self._calls: set[Any] = set()
        self._closed = False
        replicas.renew = self._renew

    @property
    def replica_states(self) -> dict[str, ReplicaState]:
        """The state of each replica by its address."""
        return self.replicas.states

    def open(self) -> tuple[grpc.aio.Channel, ...]:
        """Begin to connect and to watch, unless that has been done.

        Raises:
            ClientClosed: the client was closed.
        """
        if self._closed:
            raise ClientClosed("the client is closed")
        if self._channels is None:
            self._channels = tuple(map(self.replicas.asyncio_channel, range(len(self.replicas.addresses))))
            for replica in range(len(self._channels)):
                task = asyncio.create_task(self._watch(replica), name="watching the health of a replica")
                self._watches[replica] = task
        return self._channels

    async def call(self, method: Method[Request, Response], request: Request) -> Response:
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
                result = await self._send(channels[sending.replica], sending)
                try:
                    sending = steps.send(result)
                except StopIteration as end:
                    response: Response = end.value
                    return response

    async def close(self) -> None:
        """End the calls under way, the watches and the connections, and wait until gRPC has ended them.

        What ends later would be an error of the next event loop in the process.
        """
        self._closed = True
        for task in self._watches.values():
            task.cancel()
        await asyncio.gather(*self._watches.values(), return_exceptions=True)
        channels, self._channels = self._channels or (), None
        for call in [*self._calls]:
            call.cancel()
        try:
            await asyncio.gather(*map(_await_end, channels))
        finally:
            for channel in channels:
                await channel.close()

    async def _send(self, channel: grpc.aio.Channel, sending: Sending) -> bytes | FailedCall:
        try:
            if sending.pause:
                await asyncio.sleep(sending.pause)
            method: Any = channel.unary_unary(sending.path)
            call = method(
                sending.data,
                timeout=sending.seconds,
                metadata=tuple(sending.metadata),
                wait_for_ready=sending.patient,
            )
            self._track(call)
            answer: bytes = await call
        except grpc.aio.AioRpcError as error:
            return FailedCall(error.code(), error.details() or "")
        except (asyncio.CancelledError, grpc.aio.UsageError):
            if self._closed and not _task_is_cancelled():
                raise ClientClosed("the client was closed during the call") from None
            raise
        return answer

    def _track(self, call: Any) -> None:
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    def _renew(self, replica: int) -> None:
        call = self._watching.get(replica)
        if call is not None:
            call.cancel()

    async def _watch(self, replica: int) -> None:
        renewed = False
        while True:
            pause, patient, renewed = PAUSE_SECONDS, not renewed, False
            try:
                await self._follow(replica, patient=patient)
            except grpc.aio.AioRpcError as error:
                pause = self.replicas.note_unwatched(replica, error.code())
            except PolicyUnavailable:
                self.replicas.note_unwatched(replica, grpc.StatusCode.UNAUTHENTICATED)
            except asyncio.CancelledError:
                if self._closed or _task_is_cancelled():
                    raise
                renewed = True
                continue
            await asyncio.sleep(pause)

    async def _follow(self, replica: int, *, patient: bool) -> None:
        """Read the health of a replica until the stream ends. A `patient` stream begins when there is a connection.

        After a failed call the stream is not patient, so that a replica which is gone is found to be down.
        """
        assert self._channels is not None
        stream: Any = self._channels[replica].unary_stream(WATCH)
        metadata = self.replicas.metadata()
        call = self._watching[replica] = stream(REQUEST, metadata=metadata, wait_for_ready=patient)
        self._track(call)
        try:
            async for response in call:
                self.replicas.saw(replica, state_in(response))
        finally:
            call.cancel()


def _task_is_cancelled() -> bool:
    """Say whether somebody cancelled the current task, and not only the call for which it waits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _await_end(channel: grpc.aio.Channel) -> None:
    """Wait for the end of a call whose deadline has passed: before it, gRPC reports the end of what was cancelled."""
    late: Any = channel.unary_unary(WATCH)
    with suppress(grpc.aio.AioRpcError):
        await late(b"", timeout=0)
