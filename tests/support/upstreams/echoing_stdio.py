"""An MCP server over stdio that repeats all that it was given, where its first argument says."""

import json
import os
import sys
from typing import Any

GIVEN = [*sys.argv, *os.environ.values()]
SAID = f"{' '.join(GIVEN)} {json.dumps(GIVEN)} {GIVEN!r}"


def write(message: object) -> None:
    """Write a line."""
    sys.stdout.write(f"{json.dumps(message)}\n")
    sys.stdout.flush()


def opening(how: str) -> dict[str, Any]:
    """Return what is said to the first request."""
    server = {"name": SAID if how == "name" else "telling", "version": "1"}
    version = SAID if how == "version" else "2025-11-25"
    result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    match how:
        case "error":
            return {"error": {"code": -32000, "message": SAID, "data": GIVEN}}
        case "shape":
            return {"result": {"protocolVersion": GIVEN}}
    return {"result": result}


def meanwhile(how: str) -> None:
    """Say what nobody asked for."""
    match how:
        case "notification":
            write({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": SAID}})
            write({"jsonrpc": "2.0", "method": f"notifications/{SAID}", "params": GIVEN})
            write({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": SAID}})
        case "request":
            write({"jsonrpc": "2.0", "id": SAID, "method": "sampling/createMessage", "params": {"messages": GIVEN}})
            write({"jsonrpc": "2.0", "id": SAID, "method": SAID})
        case "response":
            write({"jsonrpc": "2.0", "id": SAID, "result": {"content": GIVEN}})
        case "garbage":
            write(GIVEN)
            sys.stdout.write(f"{SAID}\n")


def answer(how: str, method: str) -> dict[str, Any]:
    """Return what is said to a request."""
    match method:
        case "initialize":
            return opening(how)
        case "tools/list" if how == "list":
            return {"result": {"tools": [{"name": GIVEN}]}}
        case "tools/list":
            return {"result": {"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]}}
        case "tools/call" if how == "result":
            return {"result": {"content": SAID}}
    return {"error": {"code": -32601, "message": SAID}}


def main() -> None:
    """Serve MCP 2025-11-25, as far as a gateway needs it."""
    how = sys.argv[1]
    sys.stderr.write(f"{SAID}\n")
    sys.stderr.flush()
    if how == "exit":
        sys.exit(3)
    for line in sys.stdin:
        request = json.loads(line)
        if "method" not in request:
            # Nothing is said to an answer: it would be answered, and so on for as long as the test takes.
            continue
        meanwhile(how)
        if "id" in request:
            write({"jsonrpc": "2.0", "id": request["id"], **answer(how, request["method"])})


main()
