"""The connections to upstream MCP servers: each has one owner, and one that fails harms no other."""

from callability.gateway.upstream.upstream import (
    Failure,
    HttpTarget,
    State,
    StdioTarget,
    Upstream,
    UpstreamError,
    UpstreamRefusal,
)

__all__ = ["Failure", "HttpTarget", "State", "StdioTarget", "Upstream", "UpstreamError", "UpstreamRefusal"]
