"""One `tools/call`: its request, why there is no answer to it, and what the log says of that."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    CallToolRequest,
    CallToolRequestParams,
)
from pydantic import Field, ValidationError
from pydantic_core import from_json

from callability.finding import listed, shown
from callability.gateway.upstream.authorization import is_not_renewed
from callability.gateway.upstream.failure import CLOSED, NOT_MCP, NOT_SENT, Failure, UpstreamError
from callability.gateway.upstream.list_fault import UnreadAnswer
from callability.gateway.upstream.secrets import Secrets
from callability.log_output import fields

MOST_REPORTED = 1000
"""What one connection reports of its calls."""
_NOT_JSON = Failure("cannot be given these arguments: JSON has no form for them", executed=False)
_SDK_SSE = "SSE stream "
_logger = logging.getLogger("callability.gateway.upstream")
_SDK_CLOSED = (CONNECTION_CLOSED, "Connection closed")


class _CallParams(CallToolRequestParams):
    """With metadata as a plain map: from its own kind of map the library drops the keys whose value is null."""

    meta: dict[str, Any] | None = Field(alias="_meta", default=None)  # type: ignore[assignment]


class _Call(CallToolRequest):
    params: _CallParams


class CallReport:
    """Logs what the answers to calls of one connection have that the operator should know, once for each tool."""

    def __init__(self, name: str, secrets: Secrets) -> None:
        self._name = name
        self._secrets = secrets
        self._logged: set[tuple[str, str]] = set()

    def odd(self, tool: str, places: Sequence[str]) -> None:
        """Report members of an answer that could not be read."""
        if new := [place for place in places if self._is_new(tool, place)]:
            self._log("`%s` answered a call of %s with what MCP does not allow: %s", tool, listed(new))

    def refused(self, tool: str, failure: Failure) -> None:
        """Report a failure if it is a refusal of access."""
        if (failure.is_denial or is_not_renewed(failure)) and self._is_new(tool, failure.words):
            self._log("`%s` refused a call of %s: it %s", tool, failure.words)

    def _is_new(self, tool: str, what: str) -> bool:
        if (tool, what) in self._logged or len(self._logged) == MOST_REPORTED:
            return False
        self._logged.add((tool, what))
        return True

    def _log(self, words: str, tool: str, what: str) -> None:
        # The name of a tool may be a secret.
        called = self._secrets.masked(shown(tool))
        _logger.warning(words, self._name, called, what, extra=fields(server=self._name))


def call_request(
    server: str, tool: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None
) -> CallToolRequest:
    """Return the request, if JSON and the SDK can write it; on the transport it would end the connection.

    Raises:
        UpstreamError: JSON cannot hold a value (NaN, half a character), or there are too many levels.
    """
    plain = None if arguments is None else dict(arguments)
    params = {"name": tool, "arguments": plain} | ({"_meta": dict(meta)} if meta else {})
    try:
        json.dumps(params, ensure_ascii=False, allow_nan=False).encode()
        request = _Call(params=_CallParams.model_validate(params))
        request.model_dump(mode="json")
    except (TypeError, ValueError, RecursionError):
        raise UpstreamError(server, _NOT_JSON, NOT_SENT) from None
    return request


def answer_failure(error: MCPError | ValidationError, *, over_http: bool, text: bytes = b"") -> Failure | None:
    """Return why there is no answer that can be read; None for an error that the upstream answered with.

    The SDK's words about an HTTP body are none that a server sends; `text` is what arrived of it.
    """
    if isinstance(error, ValidationError):
        return Failure(NOT_MCP, exception=type(error).__name__)
    if not over_http:
        unread = error.data.text if isinstance(error.data, UnreadAnswer) else None
        return None if unread is None else Failure(_not_mcp(unread), exception=type(error).__name__)
    if error.code == PARSE_ERROR or (error.code == CONNECTION_CLOSED and error.message.startswith(_SDK_SSE)):
        return Failure(_not_mcp(text), exception=type(error).__name__)
    return CLOSED if error.args[:2] == _SDK_CLOSED else None


def _not_mcp(text: bytes) -> str:
    """Return what is wrong with an answer as a whole, as far as its text shows it."""
    try:
        message = from_json(text)
    except ValueError:
        return NOT_MCP
    odd = _odd_member(message) if isinstance(message, dict) else "it is not an object"
    return f"{NOT_MCP}: {odd}" if odd else NOT_MCP


def _odd_member(message: dict[str, Any]) -> str:
    error = message.get("error")
    if message.get("jsonrpc") != "2.0":
        return "its `jsonrpc` is not `2.0`"
    if "result" in message:
        return "" if isinstance(message["result"], dict) else "its `result` is not an object"
    if not isinstance(error, dict):
        return "its `error` is not an object" if "error" in message else "it has no `result`"
    if type(error.get("code")) is not int:
        return "its `error.code` is not a whole number"
    return "" if isinstance(error.get("message"), str) else "its `error.message` is not text"
