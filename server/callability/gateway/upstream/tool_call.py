"""One `tools/call`: its request, its answer as it is passed on, and why there is none."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import mcp_types
from mcp import MCPError
from pydantic import BaseModel, Field, PrivateAttr, TypeAdapter, ValidationError
from pydantic_core import from_json

from callability.contract.finding import as_code, list_names
from callability.gateway.upstream.authorization import is_not_renewed
from callability.gateway.upstream.failure import CLOSED, NOT_MCP, NOT_SENT, Failure, UnreadAnswer, UpstreamError
from callability.gateway.upstream.target import Secrets
from callability.process.logs import fields

LEFT_OUT = "callability/left_out"
"""The key in `_meta` under which an answer names the optional members that were left out of it."""
MOST_SHOWN = 4096
"""Characters that are passed on of a block that cannot be read."""
_RESERVED = "io.modelcontextprotocol/"
_READ_HERE = frozenset({"resultType", "_meta", "content", "isError", "structuredContent"})
_BLOCKS: Mapping[str, type[mcp_types.ContentBlock]] = {
    "text": mcp_types.TextContent,
    "image": mcp_types.ImageContent,
    "audio": mcp_types.AudioContent,
    "resource_link": mcp_types.ResourceLink,
    "resource": mcp_types.EmbeddedResource,
}
_TRUTH: TypeAdapter[bool] = TypeAdapter(bool)


class PassedOn(mcp_types.CallToolResult):
    """An answer that was read.

    A client refuses a whole answer for one member that is not as MCP says. So a block that cannot be read becomes a
    text that names the member and has the block as JSON, and an optional member that cannot be read is left out.
    """

    _wire: dict[str, Any] = PrivateAttr(default_factory=dict)
    _odd: tuple[str, ...] = PrivateAttr(default=())

    @property
    def wire(self) -> dict[str, Any]:
        """The answer as a client gets it, with the members that MCP does not define."""
        return self._wire

    @property
    def odd(self) -> tuple[str, ...]:
        """The members that could not be read, such as `content[1].type`."""
        return self._odd

    @classmethod
    def of(cls, result: Mapping[str, Any], masked: Callable[[str], str]) -> PassedOn:
        """Read the result of a call; `masked` hides secrets in what the gateway itself says of it."""
        reading = _Reading(masked)
        wire = {name: value for name, value in result.items() if name not in _READ_HERE}
        blocks = tuple(reading.blocks(result.get("content")))
        wire["content"] = [block for block, _ in blocks]
        if (structured := result.get("structuredContent")) is not None:
            wire["structuredContent"] = structured
        if (failed := reading.is_error(result.get("isError"))) is not None:
            wire["isError"] = failed
        if meta := reading.meta(result.get("_meta")):
            wire["_meta"] = meta
        content = [model for _, model in blocks]
        answer = cls(content=content, structured_content=structured, is_error=bool(failed), _meta=meta or None)
        answer._wire, answer._odd = wire, tuple(reading.odd)
        return answer


class _Unreadable(Exception):
    """A member without which its block says nothing cannot be read; the text is its place."""


class _Reading:
    """The reading of one result."""

    def __init__(self, masked: Callable[[str], str]) -> None:
        self._masked = masked
        self.odd: list[str] = []
        self._left_out: list[str] = []

    def blocks(self, given: object) -> Iterator[tuple[dict[str, Any], mcp_types.ContentBlock]]:
        """Yield each block as a client gets it, and as it is read."""
        if not isinstance(given, list):
            if given is not None:
                yield self._unread("content", given)
            return
        for index, block in enumerate(given):
            try:
                yield self._block(f"content[{index}]", block)
            except _Unreadable as unreadable:
                yield self._unread(str(unreadable), block)

    def is_error(self, given: object) -> bool | None:
        """Return whether the call failed; what cannot be read may say so."""
        if given is None:
            return None
        try:
            return _TRUTH.validate_python(given)
        except ValidationError:
            self._leave_out("isError")
            return True

    def meta(self, given: object) -> dict[str, Any]:
        """Return the metadata without what MCP reserves for the connection, such as the name of the server."""
        kept: dict[str, Any] = {}
        if isinstance(given, dict):
            kept = {key: value for key, value in given.items() if not key.startswith(_RESERVED)}
        elif given is not None:
            self._leave_out("_meta")
        return kept | ({LEFT_OUT: self._left_out} if self._left_out else {})

    def _block(self, place: str, given: object) -> tuple[dict[str, Any], mcp_types.ContentBlock]:
        """Raise `_Unreadable` for a block that says nothing without what is odd in it."""
        if not isinstance(given, dict):
            raise _Unreadable(place)
        kind = given.get("type")
        model = _BLOCKS.get(kind) if isinstance(kind, str) else None
        if model is None:
            raise _Unreadable(f"{place}.type")
        block = self._object(place, given, model)
        return block, model.model_validate(block, by_name=False)

    def _object(self, place: str, given: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
        """Return an object without the optional members that are null or cannot be read."""
        fields = {info.alias or name: info for name, info in model.model_fields.items()}
        kept = {name: value for name, value in given.items() if value is not None or name not in fields}
        if isinstance(annotations := kept.get("annotations"), dict):
            kept["annotations"] = self._object(f"{place}.annotations", annotations, mcp_types.Annotations)
        if model is mcp_types.EmbeddedResource and isinstance(resource := kept.get("resource"), dict):
            contents = (
                mcp_types.BlobResourceContents if resource.get("blob") is not None else mcp_types.TextResourceContents
            )
            kept["resource"] = self._object(f"{place}.resource", resource, contents)
        try:
            model.model_validate(kept, strict=True, by_name=False)
        except ValidationError as error:
            for name in dict.fromkeys(str(fault["loc"][0]) for fault in error.errors()):
                if fields[name].is_required():
                    raise _Unreadable(f"{place}.{name}") from None
                self._leave_out(f"{place}.{name}")
                del kept[name]
        return kept

    def _leave_out(self, place: str) -> None:
        self.odd.append(place)
        self._left_out.append(place)

    def _unread(self, place: str, given: object) -> tuple[dict[str, Any], mcp_types.ContentBlock]:
        """Return a block in place of one that cannot be read."""
        self.odd.append(place)
        # Text by text, and then as a whole: JSON escapes what a text has escaped itself.
        written = self._masked(json.dumps(_map_texts(given, self._masked), ensure_ascii=False))
        cut = written if len(written) <= MOST_SHOWN else f"{written[:MOST_SHOWN]}…"
        text = f"The gateway cannot read `{place}` of this answer. It came as: {cut}"
        return {"type": "text", "text": text}, mcp_types.TextContent(text=text)


def _map_texts(given: object, change: Callable[[str], str]) -> object:
    """Return a JSON value with each of its texts changed."""
    if isinstance(given, str):
        return change(given)
    if isinstance(given, dict):
        return {change(name): _map_texts(value, change) for name, value in given.items()}
    return [_map_texts(each, change) for each in given] if isinstance(given, list) else given


MOST_REPORTED = 1000
"""What one connection reports of its calls."""
_NOT_JSON = Failure("cannot be given these arguments: JSON has no form for them", executed=False)
_SDK_SSE = "SSE stream "
_logger = logging.getLogger("callability.gateway.upstream")
_SDK_CLOSED = (mcp_types.CONNECTION_CLOSED, "Connection closed")


class _CallParams(mcp_types.CallToolRequestParams):
    """With metadata as a plain map: from its own kind of map the library drops the keys whose value is null."""

    meta: dict[str, Any] | None = Field(alias="_meta", default=None)  # type: ignore[assignment]


class _Call(mcp_types.CallToolRequest):
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
            self._log("`%s` answered a call of %s with what MCP does not allow: %s", tool, list_names(new))

    def report_refusal(self, tool: str, failure: Failure) -> None:
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
        called = self._secrets.mask(as_code(tool))
        _logger.warning(words, self._name, called, what, extra=fields(server=self._name))


def call_request(
    server: str, tool: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None
) -> mcp_types.CallToolRequest:
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
    if error.code == mcp_types.PARSE_ERROR or (
        error.code == mcp_types.CONNECTION_CLOSED and error.message.startswith(_SDK_SSE)
    ):
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
