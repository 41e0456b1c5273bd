"""Asking a remote service from asyncio: a channel and a health watch for each replica."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from typing import Any

import grpc

from callability.client import health
from callability.client.failure import ClientClosed, PolicyUnavailable
from callability.client.method import Method, Request, Response
from callability.client.replicas import PAUSE_SECONDS, Failed, Replicas, Sending
from callability.client.rotation import ReplicaState


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
                result = await self._sent(channels[sending.replica], sending)
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
            await asyncio.gather(*map(_flushed, channels))
        finally:
            for channel in channels:
                await channel.close()

    async def _sent(self, channel: grpc.aio.Channel, sending: Sending) -> bytes | Failed:
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
            return Failed(error.code(), error.details() or "")
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
                await self._followed(replica, patient=patient)
            except grpc.aio.AioRpcError as error:
                pause = self.replicas.unwatched(replica, error.code())
            except PolicyUnavailable:
                self.replicas.unwatched(replica, grpc.StatusCode.UNAUTHENTICATED)
            except asyncio.CancelledError:
                if self._closed or _task_is_cancelled():
                    raise
                renewed = True
                continue
            await asyncio.sleep(pause)

    async def _followed(self, replica: int, *, patient: bool) -> None:
        """Read the health of a replica until the stream ends. A `patient` stream begins when there is a connection.

        After a failed call the stream is not patient, so that a replica which is gone is found to be down.
        """
        assert self._channels is not None
        stream: Any = self._channels[replica].unary_stream(health.WATCH)
        metadata = self.replicas.metadata()
        call = self._watching[replica] = stream(health.REQUEST, metadata=metadata, wait_for_ready=patient)
        self._track(call)
        try:
            async for response in call:
                self.replicas.saw(replica, health.state_in(response))
        finally:
            call.cancel()


def _task_is_cancelled() -> bool:
    """Say whether somebody cancelled the current task, and not only the call for which it waits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _flushed(channel: grpc.aio.Channel) -> None:
    """Wait for the end of a call whose deadline has passed: before it, gRPC reports the end of what was cancelled."""
    late: Any = channel.unary_unary(health.WATCH)
    with suppress(grpc.aio.AioRpcError):
        await late(b"", timeout=0)
