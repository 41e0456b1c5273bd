"""Requests to a gateway over HTTP as they are on the wire, in both revisions of MCP, without a client in between."""

from __future__ import annotations

import json
from typing import Any

import httpx2

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_OWN = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


def modern(method: str, params: dict[str, Any], **headers: str) -> dict[str, Any]:
    """Return the keywords of a request of MCP 2026-07-28."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": {**_OWN}}}
    named = {"Mcp-Name": params["name"]} if "name" in params else {}
    own = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named}
    return {"json": message, "headers": {**ACCEPT, **own, **headers}}


def legacy(method: str, params: dict[str, Any], session: str, **headers: str) -> dict[str, Any]:
    """Return the keywords of a request in a session of MCP 2025-11-25."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    own = {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": session}
    return {"json": message, "headers": {**ACCEPT, **own, **headers}}


async def initialized(client: httpx2.AsyncClient, url: str, **headers: str) -> httpx2.Response:
    """Ask for a session of MCP 2025-11-25."""
    return await client.post(url, json=INITIALIZE, headers={**ACCEPT, **headers})


def answer_in(text: str) -> dict[str, Any]:
    """Return the last message of a body, which is JSON or an event stream."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    message: dict[str, Any] = json.loads(lines[-1] if lines else text)
    return message
