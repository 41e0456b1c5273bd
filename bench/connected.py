"""Upstreams that have listed their tools, without a process behind them."""

from __future__ import annotations

from collections.abc import Iterable

from callability.gateway.upstream.connection import State
from callability.gateway.upstream.listing import UpstreamTool
from callability.gateway.upstream.target import StdioTarget
from callability.gateway.upstream.upstream import Upstream


class _Connected(Upstream):
    """An upstream that counts as connected, and is never opened.

    It is the gateway's own class with another state, so that it has whatever a gateway reads of an upstream.
    """

    @property
    def state(self) -> State:
        """Always connected."""
        return "connected"


def connected(name: str, tools: Iterable[UpstreamTool]) -> Upstream:
    """Return an upstream that has listed these tools."""
    return _Connected(name, StdioTarget("true"), tools=tuple(tools))
