"""Filters the messages of an upstream on their way to the SDK, which refuses a whole result for one odd member."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import Context
from types import TracebackType
from typing import Any

import anyio
from mcp.client import Transport
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse
from pydantic import BaseModel, Field

AS_IT_CAME = "callability/as_it_came"
"""Where the SDK passes on a result as it came: among the members of what stands in for it, in `_meta` of a list."""
_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_CHECKED = frozenset({"$schema", "properties", "required", "type"})
"""The members of a schema that the SDK checks, although nothing is decided by them here."""
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"

_Item = SessionMessage | Exception


class WholeResult(BaseModel):
    """A result that the SDK passes on as it came."""

    as_it_came: dict[str, Any] = Field(alias="callability/as_it_came")


@asynccontextmanager
async def filtered(transport: Transport) -> AsyncGenerator[TransportStreams]:
    """Enter a transport, and yield its streams without the messages over which the SDK would end the connection.

    What the SDK gets of a result is valid as far as the gateway neither shows nor decides by what is odd.
    """
    async with transport as (incoming, outgoing):
        yield _Checked(incoming), outgoing


class _Checked:
    """A stream of the SDK's own kind: it has the context of the latest message's sender."""

    def __init__(self, stream: ReadStream[_Item]) -> None:
        self._stream = stream

    @property
    def last_context(self) -> Context | None:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> _Item:
        while _ends_connection(item := await self._stream.receive()):
            pass
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            item.message.result = _stand_in(item.message.result)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Checked:
        return self

    async def __anext__(self) -> _Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Checked:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)


def _ends_connection(item: _Item) -> bool:
    """Say whether a progress is a whole number beyond any floating-point number, to which the SDK converts it."""
    message = item.message if isinstance(item, SessionMessage) else None
    params = (message.params or {}) if isinstance(message, JSONRPCNotification) else {}
    numbers = (params.get("progress"), params.get("total"))
    return any(isinstance(number, int) and abs(number) > sys.float_info.max for number in numbers)


def _stand_in(result: dict[str, Any]) -> dict[str, Any]:
    """Return what the SDK gets in place of a result, whichever request it answers."""
    handshake: dict[str, Any] = {key: result[key] for key in ("protocolVersion", "supportedVersions") if key in result}
    versions = handshake.get("supportedVersions")
    if isinstance(versions, list):
        handshake["supportedVersions"] = [version for version in versions if isinstance(version, str)]
    meta = result.get("_meta")
    kept = {key: value for key, value in meta.items() if key != _SERVER_INFO} if isinstance(meta, dict) else {}
    return {
        **_COMPLETE,
        **handshake,
        "capabilities": _capabilities(result.get("capabilities")),
        "serverInfo": {"name": "", "version": ""},
        "content": [],
        "_meta": kept,
        AS_IT_CAME: result,
        **(list_stand_in(result) if "tools" in result else {}),
    }


def _capabilities(given: object) -> dict[str, Any]:
    """Return the capability by which the gateway decides: whether changes of the tools are announced."""
    tools = given.get("tools") if isinstance(given, dict) else None
    announced = isinstance(tools, dict) and tools.get("listChanged") is True
    return {"tools": {"listChanged": announced}} if isinstance(tools, dict) else {}


def list_stand_in(result: dict[str, Any]) -> dict[str, Any]:
    """Return what stands in for a list of tools: their names, and which of their arguments go into headers."""
    tools = result["tools"]
    cursor = {"nextCursor": result["nextCursor"]} if "nextCursor" in result else {}
    if isinstance(tools, list):
        tools = [_listed(tool) for tool in tools if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    return {**cursor, "tools": tools, "_meta": {AS_IT_CAME: result}}


def _listed(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema")
    kept = {key: value for key, value in schema.items() if key not in _CHECKED} if isinstance(schema, dict) else {}
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if isinstance(properties, dict):
        kept["properties"] = {key: value for key, value in properties.items() if isinstance(value, dict)}
    return {"name": tool["name"], "inputSchema": {**kept, "type": "object"}}
