"""Places for streams without an end: those that anybody may open take none of those that need a right."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing
from inspect import isasyncgen
from typing import TYPE_CHECKING, Any

import grpc

from callability.service.observability.call_metrics import CallMetrics
from callability.service.requests.errors import TooManyAtOnce
from callability.service.transport.edge import abort, refusal
from callability.service.transport.places import Places

if TYPE_CHECKING:
    from callability.service.transport.edge import Context, Handler


class Streams:
    """So many places for the streams of `open_methods`, and as many for all others.

    A connection has its share of them, as of the places of calls.
    """

    def __init__(self, limit: int, open_methods: Collection[str], metrics: CallMetrics) -> None:
        self._open_methods = frozenset(open_methods)
        self._open = Places(limit, "keeps", "streams that watch health")
        self._others = Places(limit, "keeps", "streams")
        self._metrics = metrics

    @property
    def in_progress(self) -> int:
        """How many are open."""
        return self._open.in_progress + self._others.in_progress

    def placed(self, handler: Any, method: str) -> Handler:
        """Return a handler that ends a stream for which there is no place, and goes on as the given one otherwise."""
        places = self._open if method in self._open_methods else self._others
        answer: Any = handler.stream_stream

        async def stream(request: Any, context: Context) -> None:
            connection = context.peer()
            try:
                places.take(connection)
            except TooManyAtOnce as error:
                self._metrics.refused(method, error.code.name, error.reason)
                refused = refusal(error)
            else:
                try:
                    await _written(answer(request, context), context)
                finally:
                    places.give_back(connection)
                return
            await abort(context, refused)

        return grpc.stream_stream_rpc_method_handler(stream, handler.request_deserializer, handler.response_serializer)


async def _written(replies: Any, context: Context) -> None:
    """Write the replies of a handler that yields them; any other writes them itself."""
    if not isasyncgen(replies):
        await replies
        return
    async with aclosing(replies):
        async for reply in replies:
            await context.write(reply)
