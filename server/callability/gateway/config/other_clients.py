"""Keys that well-known MCP clients have in their configs, and what to write here in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callability.document import Node, Scalar

URL_KEYS = frozenset({"httpUrl", "serverUrl"})
"""What others call `url`."""
SERVERS_KEYS = frozenset({"servers", "context_servers", "mcp_servers"})
"""What others call `mcpServers`."""

_INSTEAD_OF_SSE = "write `type: http`, with the server's address for streamable HTTP: often `/mcp` in place of `/sse`"
_ASKS_NOBODY = "leave it out: the gateway asks for no confirmation; `disabled_tools` lists the tools that it refuses"
_OF_SERVERS: Mapping[str, str] = {
    **dict.fromkeys(URL_KEYS, "write `url`"),
    "alwaysAllow": _ASKS_NOBODY,
    "autoApprove": _ASKS_NOBODY,
    "disabledTools": "write `disabled_tools`",
    "enabledTools": "write `enabled_tools`",
    "envFile": "leave it out: write the variables under `env`, as `NAME: ${NAME}` where the gateway has them",
    "excludeTools": "write `disabled_tools`",
    "includeTools": "write `enabled_tools`",
    "oauth": "only servers in `catalog` may have `oauth`: move the server there, or write a token in `headers`",
    "timeout": "write `deadlines: {call_seconds: SECONDS}`",
    "transport": "write `type`",
}
_OF_FILE: Mapping[str, str] = {
    **dict.fromkeys(SERVERS_KEYS, "write `mcpServers`"),
    "inputs": "leave it out: the gateway does not prompt for values; write `${NAME}` for an environment variable",
}


def hint_for_key(key: str, node: Node, *, of_server: bool, in_catalog: bool = False) -> str:
    """Return what to write in place of another client's key, of a server or of the file; empty if it is none."""
    if of_server and key == "disabled":
        return _enabled(node, in_catalog=in_catalog)
    if of_server and key == "transport" and isinstance(node, Scalar) and node.value == "sse":
        return _INSTEAD_OF_SSE
    return (_OF_SERVERS if of_server else _OF_FILE).get(key, "")


def hint_for_sse(key: Any, node: Node) -> tuple[str, str] | None:
    """Return what is wrong with `type: sse`, and what to write; None if that is not what stands there."""
    if key == "type" and isinstance(node, Scalar) and node.value == "sse":
        return (
            "a transport that MCP has replaced by streamable HTTP and that the gateway does not speak",
            _INSTEAD_OF_SSE,
        )
    return None


def _enabled(node: Node, *, in_catalog: bool) -> str:
    if in_catalog:
        return "leave it out: a server of the catalog is connected when an agent enables it"
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return f"write `enabled: {str(not node.value).lower()}`"
    return "write `enabled`, with `true` or `false`"
