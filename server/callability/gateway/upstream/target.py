"""Where an upstream is reached, as the config says it."""

from __future__ import annotations

from callability.gateway.config import ServerConfig
from callability.gateway.upstream.http_client import HttpTarget
from callability.gateway.upstream.stdio_transport import StdioTarget

Target = StdioTarget | HttpTarget


def target_of(server: ServerConfig) -> Target:
    """Return the target of a server."""
    if server.command is not None:
        return StdioTarget(server.command, server.args, server.env, server.cwd)
    return HttpTarget(server.url or "", server.headers)
