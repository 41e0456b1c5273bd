"""Keeps the nulls in the metadata of an upstream's answer, which the library leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import CallToolResult, EmbeddedResource

_ANSWER: ContextVar[CallToolResult | None] = ContextVar("answer", default=None)


def note(answer: CallToolResult) -> None:
    """Note the answer to the current request, as it came."""
    _ANSWER.set(answer)


async def nulls_kept(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
    """Put back the nulls that the library left out of the answer that was noted."""
    if ctx.method != "tools/call":
        return await call_next(ctx)
    outer = _ANSWER.set(None)
    try:
        written = await call_next(ctx)
        answer = _ANSWER.get()
    finally:
        _ANSWER.reset(outer)
    return written if answer is None or not isinstance(written, dict) else _with_nulls(written, answer)


def _with_nulls(written: dict[str, Any], answer: CallToolResult) -> dict[str, Any]:
    blocks = written.get("content", [])
    for block, given in zip(blocks, answer.content, strict=True):
        _put_back(block, given.meta)
        if isinstance(given, EmbeddedResource):
            _put_back(block["resource"], given.resource.meta)
    _put_back(written, answer.meta)
    return written


def _put_back(written: dict[str, Any], given: Mapping[str, Any] | None) -> None:
    if given and None in given.values():
        written["_meta"] = {**given, **written.get("_meta", {})}
