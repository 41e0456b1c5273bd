"""Runs the demonstration: a policy service, a gateway that asks it, real MCP servers behind it, and a client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult

from demo.narration import Narration
from demo.scene import COUNTS, LOCKED, set_up

COMMAND = (sys.executable, "-m", "callability")


@contextmanager
def serving(log: Path) -> Iterator[str]:
    """Run the policy service and yield its address."""
    command = [*COMMAND, "serve", "--address", "127.0.0.1:0"]
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as service,
    ):
        try:
            line = service.stdout.readline() if service.stdout else ""
            if not line.startswith("listening on "):
                raise SystemExit(f"the policy service did not start:\n{log.read_text()}")
            yield line.removeprefix("listening on ").strip()
        finally:
            service.terminate()
            service.communicate(timeout=30)


async def told(client: Client, tool: str, **arguments: Any) -> tuple[CallToolResult, dict[str, Any]]:
    """Call a tool of the gateway, and return its result and the object in it."""
    result = await client.call_tool(tool, arguments)
    content = result.structured_content
    return result, content if isinstance(content, dict) else {}


def text_of(result: CallToolResult) -> str:
    """Return the texts of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


async def story(client: Client, narration: Narration) -> None:
    """Live through what an agent lives through."""
    await _normal_discovery(client, narration)
    await _discovery_of_locked(client, narration)
    await _notice(client, narration)
    await _rejections(client, narration)
    await _server_list(client, narration)
    await _real_call(client, narration)
    await _switching(client, narration)


async def _normal_discovery(client: Client, narration: Narration) -> None:
    narration.step("An agent looks for a tool", "What cannot be called is not there, byte for byte.")
    _, found = await told(client, "retrieve_tools", query="undo commit changes", limit=3)
    narration.said("retrieve_tools", "undo commit changes")
    names = [tool["name"] for tool in found["tools"]]
    narration.shown({"tools": names, "total": found["total"]})
    narration.check("only callable tools, and no trace of others", set(names) & set(LOCKED), set())
    narration.check("the answer has nothing but tools and total", list(found), ["tools", "total"])


async def _discovery_of_locked(client: Client, narration: Narration) -> None:
    narration.step("It asks again with include_disabled", "Now it sees what exists, why not, and who can change that.")
    _, found = await told(
        client, "retrieve_tools", query="git reset commit add checkout log time", limit=10, include_disabled=True
    )
    narration.said("retrieve_tools", "git reset commit add checkout log time, include_disabled: true")
    narration.shown({"disabled": found["disabled"], "remediation": found["remediation"]})
    statuses = {entry["name"]: entry["status"] for entry in found["disabled"]}
    for name, status in LOCKED.items():
        narration.check(f"{name} is {status}", statuses.get(name), status)
    shown = {entry["name"] for entry in found["disabled"] if "description" in entry}
    narration.check(
        "no text of an unreviewed tool is shown", shown, {"git:git_reset", "git:git_commit", "git:git_checkout"}
    )


async def _notice(client: Client, narration: Narration) -> None:
    narration.step("It finds nothing callable", "One sentence tells it that something exists, without the entries.")
    _, found = await told(client, "retrieve_tools", query="reset")
    narration.said("retrieve_tools", "reset")
    narration.shown(found)
    narration.check("no tools, and a notice", (found["tools"], "notice" in found), ([], True))
    narration.check("the notice says how to go on", "`include_disabled: true`" in found.get("notice", ""), True)


async def _rejections(client: Client, narration: Narration) -> None:
    narration.step(
        "It calls tools that are locked", "Each answers with its own reason, its own way out, and its owner."
    )
    for name, status in LOCKED.items():
        result, rejected = await told(client, "call_tool", name=name)
        narration.said("call_tool", name)
        narration.said("  answer:", text_of(result))
        narration.check(f"{name} is rejected as {status}", (result.is_error, rejected.get("status")), (True, status))


async def _server_list(client: Client, narration: Narration) -> None:
    narration.step("It looks at the servers", "Counts where something is locked; a server without locks gains no byte.")
    _, found = await told(client, "upstream_servers")
    narration.said("upstream_servers", "list")
    for server in found["servers"]:
        narration.said("  ", json.dumps(server))
    narration.check("every tool is counted once", {one["name"]: one.get("tools") for one in found["servers"]}, COUNTS)


async def _real_call(client: Client, narration: Narration) -> None:
    narration.step("It calls a tool that can be called", "The call goes to the real server, and its answer comes back.")
    result, _ = await told(client, "call_tool", name="time:get_current_time", arguments={"timezone": "UTC"})
    narration.said("call_tool", "time:get_current_time")
    narration.said("  answer:", " ".join(text_of(result).split()))
    answered = json.loads(text_of(result)) if not result.is_error else {}
    narration.check("the time server answered", answered.get("timezone"), "UTC")


async def _switching(client: Client, narration: Narration) -> None:
    narration.step(
        "It switches servers on", "Servers of the catalog are its own to switch; the answer is what came of it."
    )
    _, found = await told(client, "search_servers")
    narration.said("search_servers", "")
    narration.shown(found)
    states = {server["id"]: (server["state"], server.get("unset")) for server in found["servers"]}
    narration.check("none is connected", states, {"calendar": ("absent", None), "weather": ("absent", ["WEATHER_KEY"])})
    for server, status in (
        ("weather", "missing_credentials"),
        ("calendar", "enabled"),
        ("calendar", "already_enabled"),
    ):
        result, answer = await told(client, "enable_server", id=server)
        narration.said("enable_server", server)
        narration.said("  answer:", text_of(result))
        narration.check(f"{server}: {status}", answer.get("status"), status)
    result, _ = await told(client, "call_tool", name="calendar:get_current_time", arguments={"timezone": "UTC"})
    narration.check("a tool of the calendar can be called", result.is_error, False)
    result, _ = await told(client, "disable_server", id="calendar")
    narration.said("disable_server", text_of(result))
    _, found = await told(client, "retrieve_tools", query="current time", limit=100)
    narration.check("its tools are gone", [tool for tool in found["tools"] if tool["server"] == "calendar"], [])


async def main() -> int:
    """Set the scene, tell the story, and return the exit code."""
    narration = Narration()
    with tempfile.TemporaryDirectory(prefix="callability-demo-") as temporary:
        directory = Path(temporary)
        config, log = set_up(directory), directory / "gateway.log"
        with serving(directory / "service.log") as address, log.open("w") as errlog:
            arguments = [*COMMAND[1:], "gateway", "--config", str(config), "--policy-address", address]
            narration.said("policy service", f"listening on {address}")
            narration.said("gateway", f"in front of {', '.join(COUNTS)}, over stdio")
            parameters = StdioServerParameters(command=COMMAND[0], args=arguments)
            async with Client(stdio_client(parameters, errlog=errlog)) as client:
                await story(client, narration)
        if narration.failures:
            sys.stderr.write(log.read_text())
    narration.end()
    return 1 if narration.failures else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
