"""An MCP server over stdio of an earlier revision, which takes `server/discover` as its first argument says.

It adds each request that it reads to the file of its second argument, after a line `start` for each of its starts.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

ABOUT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "older", "version": "1"},
}
TOOLS = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("pid", "exit")]}


def note(line: str) -> None:
    """Add a line to the record."""
    with Path(sys.argv[2]).open("a") as record:
        record.write(f"{line}\n")


def say(request: dict[str, Any], **outcome: Any) -> None:
    """Answer a request."""
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)


def refuse(request: dict[str, Any]) -> None:
    """Refuse a request."""
    say(request, error={"code": -32601, "message": "not before `initialize`"})


def discover(how: str, request: dict[str, Any]) -> None:
    """Take the request that an earlier revision does not have."""
    match how:
        case "exits":
            sys.exit(101)
        case "says why and exits":
            print("fatal: expected initialize", flush=True)
            sys.exit(101)
        case "refuses it and exits":
            refuse(request)
            sys.exit(101)
        case "closes":
            os.close(1)
            sys.stdin.read()
            sys.exit()
        case "refuses it":
            refuse(request)


def main() -> None:
    """Serve until stdin ends, or at once not at all, if there is a file beside the record that says so."""
    how = sys.argv[1]
    note("start")
    if Path(f"{sys.argv[2]}.off").exists():
        sys.exit(3)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        note(request["method"])
        match request["method"]:
            case "server/discover":
                discover(how, request)
            case "initialize":
                say(request, result=ABOUT)
            case "tools/list":
                say(request, result=TOOLS)
            case "tools/call" if request["params"]["name"] == "exit":
                sys.exit(7)
            case "tools/call":
                say(request, result={"content": [{"type": "text", "text": str(os.getpid())}]})
            case _:
                refuse(request)


if __name__ == "__main__":
    main()
