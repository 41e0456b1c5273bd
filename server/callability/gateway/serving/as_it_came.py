"""Writes the answer of an upstream as it came: the library would leave out nulls and what MCP does not define."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import CallToolResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from callability.gateway.upstream import PassedOn

_ANSWER: ContextVar[PassedOn | None] = ContextVar("answer", default=None)


def noted(answer: CallToolResult) -> CallToolResult:
    """Note the answer to the current request if it is an upstream's, and return what the library writes around it."""
    if not isinstance(answer, PassedOn):
        return answer
    _ANSWER.set(answer)
    return CallToolResult(content=[], is_error=answer.is_error)


async def as_it_came(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
    """Write the answer that was noted, with what the protocol adds to it."""
    if ctx.method != "tools/call":
        return await call_next(ctx)
    outer = _ANSWER.set(None)
    try:
        envelope = await call_next(ctx)
        answer = _ANSWER.get()
    finally:
        _ANSWER.reset(outer)
    if answer is None or not isinstance(envelope, dict):
        return envelope
    wire = answer.wire if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else _for_earlier(answer.wire)
    meta = {**wire.get("_meta", {}), **envelope.get("_meta", {})}
    return {**envelope, **wire, **({"_meta": meta} if meta else {})}


def _for_earlier(wire: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as a client of an earlier revision reads it, in which only an object is structured content."""
    structured = wire.get("structuredContent", {})
    if isinstance(structured, dict):
        return wire
    kept = {name: value for name, value in wire.items() if name != "structuredContent"}
    text = {"type": "text", "text": json.dumps(structured, ensure_ascii=False)}
    return {**kept, "content": kept["content"] or [text]}
