"""Lets a call pass if its caller is known and has the right to it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc

from callability import request_context
from callability.log_interval import LogInterval
from callability.log_output import fields
from callability.service.callers.authentication import Authentication, check_right
from callability.service.callers.callers_file import Caller
from callability.service.callers.right import Right, right_of
from callability.service.observability.call_metrics import CallMetrics
from callability.service.requests.errors import ServiceError, Unauthenticated
from callability.service.transport.client_certificates import ClientCertificates
from callability.service.transport.edge import abort, refusal, refusing

if TYPE_CHECKING:
    from callability.service.transport.edge import Context, Handler

_NO_TOKEN = "the call has no credentials: send `authorization: Bearer TOKEN`"
_logger = logging.getLogger(__name__)


class Guard:
    """Authenticates calls, except those of the `open` methods.

    `authentication` returns the current one, which knows callers; None if any caller may call anything. With
    `certificates`, every connection has one, which has to be valid, and by which a caller may be known.
    """

    def __init__(
        self,
        authentication: Callable[[], Authentication | None],
        *,
        certificates: ClientCertificates | None,
        open_methods: Collection[str],
        metrics: CallMetrics,
    ) -> None:
        self._metrics = metrics
        self._authentication = authentication
        self._certificates = certificates
        self._open = frozenset(open_methods)
        self._refusals = LogInterval()

    def guarded(self, details: grpc.HandlerCallDetails, handler: Handler) -> Handler | ServiceError:
        """Return the handler of a call, or the error of a call that is to be refused, which is not counted yet.

        A certificate is only known once the handler runs. A token is checked before that. The rights of a stream are
        checked again before each of its replies.
        """
        method = details.method
        knows = self._authentication() is not None
        if method in self._open or not (knows or self._certificates):
            return handler
        authorization = _authorization(details.invocation_metadata) if knows else None
        if authorization is None and self._certificates:
            by_certificate = partial(self._check_certificate, self._certificates, method)
            return _checked_first(handler, partial(self._end_refused, by_certificate, method))
        by_token = partial(self._check_token, authorization, method)
        try:
            by_token()
        except ServiceError as error:
            return error
        if handler.response_streaming:
            return _checked_first(handler, partial(self._end_refused, lambda _context: by_token(), method))
        return handler

    def refused(self, error: ServiceError, method: str) -> Handler:
        """Count a call that is refused, and return its handler."""
        self._note(error, method)
        return refusing(error)

    def _check_token(self, authorization: str | None, method: str) -> None:
        if authentication := self._authentication():
            if authorization is None:
                raise Unauthenticated("NO_CREDENTIALS", _NO_TOKEN)
            _permitted(authentication.by_token(authorization), right_of(method))

    def _check_certificate(self, certificates: ClientCertificates, method: str, context: Context) -> None:
        names = certificates.names(context)
        if authentication := self._authentication():
            _permitted(authentication.by_certificate(names), right_of(method))

    async def _end_refused(self, check: Callable[[Context], None], method: str, context: Context) -> None:
        try:
            check(context)
        except ServiceError as error:
            self._note(error, method)
            await abort(context, refusal(error))

    def _note(self, error: ServiceError, method: str) -> None:
        self._metrics.refused(method, error.code.name, error.reason)
        if happened := self._refusals.due(error.reason):
            words = "a call of %s is refused: %s (such calls since the last such line: %d)"
            about = fields(method=method.rpartition("/")[2], code=error.code.name, reason=error.reason)
            _logger.warning(words, method, error.message, happened, extra=about)


def _permitted(caller: Caller, right: Right | None) -> None:
    request_context.note(caller=caller.name)
    check_right(caller, right)


def _authorization(metadata: Any) -> str | None:
    for key, value in metadata:
        if key == "authorization":
            return str(value)
    return None


def _checked_first(handler: Any, check: Callable[[Context], Awaitable[None]]) -> Handler:
    """Return a handler that checks the caller before the request is read, and before each reply of a stream."""
    answer: Any = handler.stream_stream or handler.stream_unary

    async def stream(requests: Any, context: Context) -> AsyncIterator[Any]:
        await check(context)
        async with aclosing(answer(requests, context)) as replies:
            async for reply in replies:
                await check(context)
                yield reply

    async def single(requests: Any, context: Context) -> Any:
        await check(context)
        return await answer(requests, context)

    if handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(stream, handler.request_deserializer, handler.response_serializer)
    return grpc.stream_unary_rpc_method_handler(single, handler.request_deserializer, handler.response_serializer)
