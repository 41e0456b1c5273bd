"""An MCP server over stdio with the tools that a JSON file lists; a call answers with the tool's name and arguments.

It is written without the SDK, whose import takes a second: tests run hundreds of these. It speaks MCP 2026-07-28.
"""

import json
import sys
from pathlib import Path
from typing import Any

ABOUT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
OPENING = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": False}}, **ABOUT}


def called(params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call."""
    content_object = {"called": params["name"], "with": params.get("arguments"), "nothing": None}
    content = [{"type": "text", "text": f"{params['name']} was called"}]
    return {"content": content, "structuredContent": content_object, "resultType": "complete"}


def outcome(method: str, params: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a request is answered with."""
    match method:
        case "server/discover":
            return {"result": OPENING}
        case "tools/list":
            return {"result": {"tools": tools, **ABOUT}}
        case "tools/call":
            return {"result": called(params)}
    return {"error": {"code": -32601, "message": "Method not found"}}


def main(listed: list[dict[str, Any]]) -> None:
    """Serve until standard input ends."""
    tools = [{"inputSchema": {"type": "object"}} | each for each in listed]
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            answer = outcome(request["method"], request.get("params") or {}, tools)
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
