"""The steps: what an agent finds, what is refused, who unlocks it, and the same call again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from mcp import Client
from mcp_types import CallToolResult

from demo import person
from demo.narration import Narration
from demo.scene import COUNTS, FREEZE, LOCKED, Scene

APPLIED_SECONDS = 120.0
"""How long an edit may take until the gateway has applied it."""


def text_of(result: CallToolResult) -> str:
    """Return the texts of a result, in one line."""
    return " ".join(" ".join(block.text for block in result.content if block.type == "text").split())


@dataclass(frozen=True, slots=True)
class Story:
    """An agent that is connected to the gateway, and the people around it."""

    client: Client
    narration: Narration
    scene: Scene
    environment: dict[str, str]

    async def play(self) -> None:
        """Play every step, in order."""
        await self._discovery()
        await self._locked_tools()
        repository = str(self.scene.repository)
        await self._unlocked_by_user("git:git_commit", {"repo_path": repository, "message": "A second commit"})
        await self._approved("git:git_add", {"repo_path": repository, "files": ["plan.txt"]})
        await self._policy_edited("git:git_create_branch", {"repo_path": repository, "branch_name": "release"})
        await self._catalog()

    async def _call(self, tool: str, **arguments: Any) -> tuple[CallToolResult, dict[str, Any]]:
        """Call a tool of the gateway, and return its result and the object in it."""
        result = await self.client.call_tool(tool, arguments)
        content = result.structured_content if isinstance(result.structured_content, dict) else {}
        if tool == "retrieve_tools" and not result.is_error:
            content = json.loads(text_of(result))
        self.narration.returned(content or {"text": text_of(result)})
        return result, content

    async def _discovery(self) -> None:
        self.narration.step("Discovery: the agent finds only the tools that it can call")
        self.narration.says("agent", 'retrieve_tools "undo commit changes"')
        _, found = await self._call("retrieve_tools", query="undo commit changes", limit=3)
        names = [tool["name"] for tool in found["tools"]]
        self.narration.says("gateway", f"{', '.join(names)} ({found['total']} tools)")
        self.narration.check("no locked tool is in the answer", set(names) & set(LOCKED), set())
        self.narration.check("the answer is the same as without locked tools", list(found), ["tools", "total"])
        self.narration.says("agent", 'retrieve_tools "reset"')
        _, found = await self._call("retrieve_tools", query="reset")
        self.narration.says("gateway", found.get("notice", "nothing"))
        self.narration.check("no tool, and a notice", (found["tools"], "notice" in found), ([], True))
        self.narration.check("the notice names the flag", "include_disabled" in found.get("notice", ""), True)

    async def _locked_tools(self) -> None:
        self.narration.step("Locked tools on request: each has a status, and says who can lift the lock")
        query = "git reset commit add checkout branch log time"
        self.narration.says("agent", f'retrieve_tools "{query}", include_disabled: true')
        _, found = await self._call("retrieve_tools", query=query, limit=10, include_disabled=True)
        statuses = {entry["name"]: entry["status"] for entry in found["disabled"]}
        for name, status in LOCKED.items():
            rejected, content = await self._call("call_tool", name=name)
            self.narration.says("gateway", f"{name:24}{status:20} lifted by: {content.get('lifted_by')}")
            self.narration.check(f"{name} is {status}", statuses.get(name), status)
            refusal = rejected.is_error, content.get("status")
            self.narration.check("a call is rejected with the same status", refusal, (True, status))
        await self._undetermined()
        shown = {entry["name"].partition(":")[2] for entry in found["disabled"] if "description" in entry}
        wanted = {"git_reset", "git_commit", "git_checkout", "git_create_branch"}
        self.narration.check("no text of an unreviewed tool is shown", shown, wanted)
        _, servers = await self._call("upstream_servers")
        counts = {server["name"]: server.get("tools") for server in servers["servers"]}
        self.narration.check("every tool is counted once", counts, COUNTS)

    async def _undetermined(self) -> None:
        """Show what the agent reads where the gateway could not read a fact."""
        text = await self._refused("git:git_checkout", {})
        self.narration.check("it says what could not be read", "approval" in text, True)

    async def _unlocked_by_user(self, tool: str, arguments: dict[str, Any]) -> None:
        self.narration.step("A tool that the user disabled: the printed command enables it")
        command = person.command_in(await self._refused(tool, arguments))
        self._run(command)
        await self._succeeds(tool, arguments)
        log = self._git("log", "--format=%s")
        self.narration.check("the commit is there", log, ["A second commit", "The first commit"])

    async def _approved(self, tool: str, arguments: dict[str, Any]) -> None:
        self.narration.step("A tool that nobody has reviewed: the printed command approves it")
        command = person.command_in(await self._refused(tool, arguments))
        printed = self._run(command)
        self.narration.check("the command shows the tool before it asks", "Adds file contents" in printed, True)
        await self._succeeds(tool, arguments)
        self.narration.check("the file is staged", self._git("diff", "--staged", "--name-only"), ["plan.txt"])

    async def _policy_edited(self, tool: str, arguments: dict[str, Any]) -> None:
        self.narration.step("A tool that a rule locks: the operator removes the rule while the gateway runs")
        await self._refused(tool, arguments)
        rules = self.scene.policy / "callability.yaml"
        person.replace(rules, FREEZE, "")
        self.narration.says(
            "operator", f"removes rule `branch-freeze` from {rules.name}; the gateway proves and applies the new policy"
        )
        await self._succeeds(tool, arguments)
        self.narration.check("the branch is there", "release" in " ".join(self._git("branch", "--list")), True)

    async def _catalog(self) -> None:
        self.narration.step("A server of the catalog: the agent enables it by itself")
        _, found = await self._call("search_servers")
        states = {server["id"]: (server["state"], server.get("unset")) for server in found["servers"]}
        wanted = {"calendar": ("absent", None), "weather": ("absent", ["WEATHER_KEY"])}
        self.narration.check("no server of the catalog is connected", states, wanted)
        _, content = await self._call("enable_server", id="weather")
        self.narration.check("a variable is not set", content.get("status"), "missing_credentials")
        self.narration.says("agent", "enable_server calendar")
        result, content = await self._call("enable_server", id="calendar")
        self.narration.says("gateway", text_of(result))
        self.narration.check("the calendar is connected", content.get("status"), "enabled")
        self.narration.says("agent", "call_tool calendar:get_current_time")
        result, _ = await self._call("call_tool", name="calendar:get_current_time", arguments={"timezone": "UTC"})
        answered = json.loads(text_of(result)) if not result.is_error else {}
        self.narration.says("server", str(answered.get("datetime")))
        self.narration.check("the new server answers", answered.get("timezone"), "UTC")
        _, content = await self._call("enable_server", id="calendar")
        self.narration.check("a second enable changes nothing", content.get("status"), "already_enabled")
        await self._call("disable_server", id="calendar")
        _, found = await self._call("retrieve_tools", query="current time", limit=100)
        servers = {tool["server"] for tool in found["tools"]}
        self.narration.check(
            "once it is disabled, its tools are gone", ("calendar" in servers, "time" in servers), (False, True)
        )

    async def _refused(self, tool: str, arguments: dict[str, Any]) -> str:
        """Call a locked tool, and return the text of its rejection."""
        self.narration.says("agent", f"call_tool {tool}")
        result, content = await self._call("call_tool", name=tool, arguments=arguments)
        self.narration.says("gateway", text_of(result))
        self.narration.check(f"{tool} is refused", (result.is_error, content.get("status")), (True, LOCKED[tool]))
        return text_of(result)

    async def _succeeds(self, tool: str, arguments: dict[str, Any]) -> None:
        """Call the tool until the gateway has applied the edit: as long as it is refused, a call does nothing."""
        self.narration.says("agent", f"call_tool {tool}")
        end = time.monotonic() + APPLIED_SECONDS
        result = await self.client.call_tool("call_tool", {"name": tool, "arguments": arguments})
        while result.is_error and result.structured_content and time.monotonic() < end:
            await asyncio.sleep(0.2)
            result = await self.client.call_tool("call_tool", {"name": tool, "arguments": arguments})
        self.narration.says("server", text_of(result))
        self.narration.check(f"the same call of {tool} succeeds", result.is_error, False)

    def _run(self, command: str) -> str:
        """Let a person run a command that the gateway printed, and return what it prints."""
        self.narration.runs(command)
        done = person.run(command, self.environment)
        if done.returncode:
            self.narration.says("command", done.stderr)
        self.narration.check(f"`{command}` exits with 0", done.returncode, 0)
        return done.stdout

    def _git(self, *arguments: str) -> list[str]:
        command = ["git", "-C", str(self.scene.repository), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]
