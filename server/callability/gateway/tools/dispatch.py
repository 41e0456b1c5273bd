"""The gateway's own tools: how every transport lists them, and which one answers a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult, InputRequiredResult, Tool, ToolAnnotations

from callability.adapter import (
    DEFAULT_LIMIT,
    INCLUDE_DISABLED_SCHEMA,
    INCLUDE_DISABLED_SENTENCE,
    MAX_LIMIT,
    InvalidArgument,
    error_result,
    invalid_argument,
    unavailable,
)
from callability.client import PolicyUnavailable
from callability.contract.finding import as_code
from callability.gateway.catalog.catalog import Catalog
from callability.gateway.inventory import GatewayInventory
from callability.gateway.loading import Loads
from callability.gateway.meaning import Indexes
from callability.gateway.observability import FileStatus, Metrics
from callability.gateway.tools.call import KEEPS_CHANGING, LOOKS, ToolCalls
from callability.gateway.tools.catalog_tools import CatalogTools, Dialogs, NoDialogs
from callability.gateway.tools.decisions import AgentView, Commands, Decisions, Result
from callability.gateway.tools.discovery import SCHEMAS, WHOLE, Discovery, ServerList
from callability.gateway.tools.lock_report import LockReports
from callability.gateway.tools.preflight import Preflight
from callability.records.recorder import Recorder

if TYPE_CHECKING:
    from callability.records.shadow import Shadow


def _schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


TOOLS = (
    Tool(
        name="retrieve_tools",
        description=(
            "Find tools of all connected MCP servers by what they do; call them with `call_tool`. "
            + INCLUDE_DISABLED_SENTENCE
        ),
        input_schema=_schema(
            ["query"],
            query={"type": "string", "description": "What the tool should do, in a few words."},
            limit={"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
            include_disabled=dict(INCLUDE_DISABLED_SCHEMA),
            schemas={
                "type": "string",
                "enum": [*SCHEMAS],
                "default": "first",
                "description": (
                    f"Which tools have `inputSchema`: all, the first {WHOLE}, none. For others, search by name."
                ),
            },
        ),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    Tool(
        name="call_tool",
        description="Call a tool that `retrieve_tools` found. A refusal says why, and who can change that.",
        input_schema=_schema(
            ["name"],
            name={"type": "string", "description": "As `server:tool`."},
            arguments={"type": "object", "description": "By the tool's `inputSchema`."},
        ),
    ),
    Tool(
        name="upstream_servers",
        description=(
            "List the MCP servers behind this one, or get one: its state, and how many of its tools cannot be called"
            " and why."
        ),
        input_schema=_schema(
            [],
            operation={"type": "string", "enum": ["list", "get"], "default": "list"},
            name={"type": "string", "description": "Only for `get`."},
        ),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
)
"""`retrieve_tools`, `call_tool` and `upstream_servers`."""

_ID: dict[str, Any] = {"type": "string", "minLength": 1, "description": "The server's `id` from `search_servers`."}
CATALOG_TOOLS = (
    Tool(
        name="search_servers",
        description=(
            "Find MCP servers that can be connected, by their purpose, or list them all. `state`: whether it is"
            " connected. `authorization`: the user must authorize it. `unset`: variables that the operator must set"
            " first. Connects nothing."
        ),
        input_schema=_schema(
            [],
            query={"type": "string", "description": "The purpose of the server, in a few words. Default: all."},
            limit={
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_LIMIT,
                "default": DEFAULT_LIMIT,
                "description": "The maximum number of servers.",
            },
        ),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    Tool(
        name="enable_server",
        description=(
            "Connect a server that `search_servers` found. The answer comes when it is connected or has failed. The"
            " user may be asked to authorize it. Then find its tools with `retrieve_tools`. If the user declined, retry"
            " only if the user asks."
        ),
        input_schema=_schema(["id"], id=_ID),
    ),
    Tool(
        name="disable_server",
        description="Disconnect a server that `enable_server` connected, or cancel the attempt.",
        input_schema=_schema(["id"], id=_ID),
    ),
)
"""`search_servers`, `enable_server` and `disable_server`, for a gateway with a catalog."""


_OWN_TOOLS = frozenset(tool.name for tool in (*TOOLS, *CATALOG_TOOLS))
_READ_ONLY = frozenset({"retrieve_tools", "upstream_servers", "search_servers"})


@dataclass(frozen=True, slots=True)
class _OwnCall:
    """A call of one of the gateway's own tools."""

    tool: str
    arguments: Mapping[str, Any]
    meta: Mapping[str, Any] | None
    progress: ProgressFnT | None
    dialogs: Dialogs

    @property
    def opts_in(self) -> bool:
        """Whether it asks for tools that cannot be called."""
        return self.tool == "retrieve_tools" and self.arguments.get("include_disabled") is True


class Gateway:
    """Answers the tools for one agent; each answer depends only on the inventory and the policy.

    `latest` returns the gateway that currently answers the agent: after an edit, what waits is answered there.
    `changed_definitions` returns how many tools of a server have changed since a person or the gateway saw them.
    """

    def __init__(
        self,
        inventory: GatewayInventory,
        decisions: Decisions,
        phrases: Commands,
        file_status: FileStatus,
        metrics: Metrics,
        agent: str = "",
        catalog: Catalog | None = None,
        loads: Loads | None = None,
        indexes: Indexes | None = None,
        latest: Callable[[], Gateway] | None = None,
        changed_definitions: Callable[[str], int] = lambda server: 0,
        recorder: Recorder | None = None,
        shadow: Shadow | None = None,
    ) -> None:
        self._latest = current = latest or (lambda: self)
        loads = loads or Loads()
        self._metrics = metrics
        self._file_status = file_status
        self._inventory = inventory
        view = AgentView(agent, inventory, decisions, phrases, loads)
        self._discovery = Discovery(view, file_status, indexes)
        self._calls = ToolCalls(view, metrics, lambda: current()._calls, recorder, shadow)
        self.lock_reports = LockReports(view, self._calls)
        """Why the agent can or cannot call a tool, for people."""
        self.preflight = Preflight(view)
        """Whether tools that the agent needs can be called now."""
        self._servers = ServerList(view, file_status, changed_definitions)
        self._catalog_tools = (
            CatalogTools(catalog, view, lambda: current()._catalog_tools) if catalog is not None else None
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The gateway's own tools; those about the catalog only if the agent may see a server of it (FR-007)."""
        return (*TOOLS, *CATALOG_TOOLS) if self._catalog_tools is not None and self._catalog_tools.switches else TOOLS

    def sees(self, server: str) -> bool:
        """Say whether the agent may see a server, if it is there."""
        return self._inventory.sees(server)

    async def answer(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        progress: ProgressFnT | None = None,
        dialogs: Dialogs | None = None,
    ) -> CallToolResult | InputRequiredResult:
        """Answer a call of one of the gateway's tools; the result says what is wrong with it.

        `meta` goes with the call of an upstream's tool, `progress` takes reports of how a call goes on, and `dialogs`
        can ask the agent's user; without them nobody is asked.
        """
        called = _OwnCall(tool, arguments, meta, progress, dialogs or NoDialogs())
        answer = await self._current_answer(called)
        outcome = _outcome(tool, answer)
        self._metrics.count_answer(tool if tool in _OWN_TOOLS else "unknown", outcome)
        if called.opts_in and outcome == "answered":
            self._metrics.opted_in()
        return answer if isinstance(answer, InputRequiredResult) else CallToolResult.model_validate(answer)

    async def _current_answer(self, called: _OwnCall) -> Result | CallToolResult | InputRequiredResult:
        """Return an answer that shows nothing that an edit has taken from the agent while it was made."""
        gateway = self
        for _ in range(LOOKS):
            answer = await gateway._answer_of(called)
            latest = self._latest()
            if latest is gateway or not latest._replaces(called):
                return answer
            gateway = latest
        return error_result(KEEPS_CHANGING)

    def _replaces(self, called: _OwnCall) -> bool:
        """Return whether a call that an earlier gateway answered is answered here instead: if that changes nothing.

        An enable that was waited for is not repeated, unless its server does not exist for the agent any more.
        """
        if called.tool in _READ_ONLY:
            return True
        server = called.arguments.get("id")
        return called.tool == "enable_server" and isinstance(server, str) and not self.sees(server)

    async def _answer_of(self, called: _OwnCall) -> Result | CallToolResult | InputRequiredResult:
        tools = [each.name for each in self.tools]
        catalog_tools = self._catalog_tools if called.tool in tools else None
        arguments, progress = called.arguments, called.progress
        try:
            match called.tool:
                case "retrieve_tools":
                    return await self._discovery.retrieve_tools(arguments)
                case "call_tool" if awaited := self._file_status.config_awaited:
                    return error_result(f"Not called. {awaited}")
                case "call_tool":
                    return await self._calls.call_tool(arguments, meta=called.meta, progress=progress)
                case "upstream_servers":
                    return await self._servers.upstream_servers(arguments)
                case "enable_server" if catalog_tools is not None:
                    return await catalog_tools.enable_server(arguments, called.dialogs, progress)
                case "disable_server" if catalog_tools is not None:
                    return await catalog_tools.disable_server(arguments)
                case "search_servers" if catalog_tools is not None:
                    return await catalog_tools.search_servers(arguments)
            if ":" in called.tool:
                return error_result(f"Not called: {as_code(called.tool)} is called with `call_tool`, as its `name`.")
            return error_result(f"Not done: the tools are {', '.join(f'`{each}`' for each in tools)}.")
        except InvalidArgument as error:
            return invalid_argument(error)
        except PolicyUnavailable as error:
            self._metrics.no_verdict()
            return unavailable(str(error))


def _outcome(tool: str, answer: Result | CallToolResult | InputRequiredResult) -> str:
    """Return how a call of one of the gateway's tools ended, for metrics."""
    match answer:
        case InputRequiredResult():
            return "dialog"
        case CallToolResult():
            return "error" if answer.is_error else "answered"
        case _ if not answer.get("isError"):
            return "answered"
        case _:
            rejected = tool == "call_tool" and (answer.get("structuredContent") or {}).get("status")
            return "rejected" if rejected else "error"
