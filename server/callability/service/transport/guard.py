"""Lets a call pass if its caller is known and has the right to it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection
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
from callability.service.transport.edge import abort, refusal, refusing

if TYPE_CHECKING:
    from callability.service.transport.edge import Context, Handler

_NO_CREDENTIALS = "the call has no credentials"
_NO_TOKEN = f"{_NO_CREDENTIALS}: send `authorization: Bearer TOKEN`"
_NO_CERTIFICATE = f"{_NO_CREDENTIALS}: send `authorization: Bearer TOKEN`, or connect with a client certificate"
_logger = logging.getLogger(__name__)


class Guard:
    """Authenticates calls, except those of the `open` methods.

    `authentication` returns the current one, which knows callers; None if any caller may call anything. With
    `certificates`, a caller may also be known by the certificate of its connection, which gRPC has verified.
    """

    def __init__(
        self,
        authentication: Callable[[], Authentication | None],
        *,
        certificates: bool,
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

        A certificate is only known once the handler runs. A token is checked before anything of the request is read.
        """
        authentication = self._authentication()
        method = details.method
        if authentication is None or method in self._open:
            return handler
        authorization = _authorization(details.invocation_metadata)
        if authorization is None and self._certificates:
            return self._by_certificate(handler, authentication, method)
        try:
            if authorization is None:
                raise Unauthenticated("NO_CREDENTIALS", _NO_TOKEN)
            _permitted(authentication.by_token(authorization), right_of(method))
        except ServiceError as error:
            return error
        return handler

    def refused(self, error: ServiceError, method: str) -> Handler:
        """Count a call that is refused, and return its handler."""
        self._note(error, method)
        return refusing(error)

    def _by_certificate(self, handler: Handler, authentication: Authentication, method: str) -> Handler:
        def check(context: Context) -> None:
            names = context.peer_identities() or ()
            if not names:
                raise Unauthenticated("NO_CREDENTIALS", _NO_CERTIFICATE)
            _permitted(authentication.by_certificate(names), right_of(method))

        async def refused(context: Context) -> bool:
            try:
                check(context)
            except ServiceError as error:
                self._note(error, method)
                await abort(context, refusal(error))
            return False

        return _checked_first(handler, refused)

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


def _checked_first(handler: Any, refused: Callable[[Context], Any]) -> Handler:
    """Return a handler that ends the call if it is refused, before its request is read, and goes on otherwise."""
    answer: Any = handler.stream_stream or handler.stream_unary

    async def stream(requests: Any, context: Context) -> AsyncIterator[Any]:
        await refused(context)
        async for reply in answer(requests, context):
            yield reply

    async def single(requests: Any, context: Context) -> Any:
        await refused(context)
        return await answer(requests, context)

    if handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(stream, handler.request_deserializer, handler.response_serializer)
    return grpc.stream_unary_rpc_method_handler(single, handler.request_deserializer, handler.response_serializer)
