"""The gateway's own tools: the dispatch of a call, discovery, calls of upstream tools and the server list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult, InputRequiredResult, Tool

from callability.adapter import (
    InvalidArgument,
    JudgedTool,
    checked_arguments,
    discovery,
    error_result,
    rejection,
    tool_result,
    unavailable,
    unknown_tool,
)
from callability.gateway.catalog import Catalog
from callability.gateway.inventory.index_cache import Indexes
from callability.gateway.inventory.inventory import Inventory, KnownServer, Texts
from callability.gateway.inventory.tool_index import SearchDocument
from callability.gateway.loading import Loads
from callability.gateway.observability.call_log import logged
from callability.gateway.observability.file_status import FileStatus
from callability.gateway.observability.metrics import Metrics
from callability.gateway.policy_client.call import PolicyUnavailable
from callability.gateway.tools.arguments import text_of, undeclared
from callability.gateway.tools.catalog_tools import CatalogTools
from callability.gateway.tools.decisions import Decisions
from callability.gateway.tools.definitions import CATALOG_TOOLS, TOOLS
from callability.gateway.tools.dialogs import Dialogs, NoDialogs
from callability.gateway.tools.remedies import Commands
from callability.gateway.tools.servers import server_entry, unknown_server
from callability.gateway.upstream import NOT_SENT, Connection, Failure, Upstream, UpstreamError, UpstreamRefusal
from callability.tool_name import MAX_BYTES, byte_length

LOOKS = 3
"""How often a tool is judged anew because its server lists others meanwhile."""
READ_SECONDS = 10.0
"""How long a call waits until a change of the tools that its server announced is read."""
SETTLE_SECONDS = 2.0
"""How long discovery waits for the same."""
_UNREAD = Failure("announced a change of its tools and does not list them")

Result = dict[str, Any]
"""An MCP `CallToolResult` as JSON."""


class Gateway:
    """Answers the tools for one agent; each answer is a function of the inventory and of the policy alone."""

    def __init__(
        self,
        inventory: Inventory,
        decisions: Decisions,
        phrases: Commands,
        file_status: FileStatus,
        metrics: Metrics,
        agent: str = "",
        catalog: Catalog | None = None,
        loads: Loads | None = None,
    ) -> None:
        self._agent = agent
        self._loads = loads or Loads()
        self._catalog_tools = (
            CatalogTools(catalog, inventory, decisions, phrases, self._loads) if catalog is not None else None
        )
        self._inventory = inventory
        self._decisions = decisions
        self._phrases = phrases
        self._file_status = file_status
        self._metrics = metrics
        self._indexes = Indexes()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The gateway's own tools; those about the catalog only where the agent may see a server of it (FR-007)."""
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
        """Answer a call of one of the gateway's tools; whatever is wrong with it is told in the result.

        `meta` goes with the call of an upstream's tool, `progress` is told how a call goes on, and `dialogs` are what
        the agent's user can be query by; without them nobody can.
        """
        answer = await self._answered(tool, arguments, meta, progress, dialogs or NoDialogs())
        return answer if isinstance(answer, InputRequiredResult) else CallToolResult.model_validate(answer)

    async def _answered(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any] | None,
        progress: ProgressFnT | None,
        dialogs: Dialogs,
    ) -> Result | CallToolResult | InputRequiredResult:
        tools = [each.name for each in self.tools]
        catalog_tools = self._catalog_tools if tool in tools else None
        try:
            match tool:
                case "retrieve_tools":
                    return await self.retrieve_tools(arguments)
                case "call_tool":
                    return await self.call_tool(arguments, meta=meta, progress=progress)
                case "upstream_servers":
                    return await self.upstream_servers(arguments)
                case "enable_server" if catalog_tools is not None:
                    return await catalog_tools.enable_server(arguments, dialogs, progress)
                case "disable_server" if catalog_tools is not None:
                    return await catalog_tools.disable_server(arguments)
                case "search_servers" if catalog_tools is not None:
                    return await catalog_tools.search_servers(arguments)
            return error_result(f"Not done: this server has the tools {', '.join(f'`{each}`' for each in tools)}.")
        except InvalidArgument as error:
            return error_result(f"Not done: {error}.")
        except PolicyUnavailable as error:
            return unavailable(str(error))

    async def retrieve_tools(self, arguments: Mapping[str, Any]) -> Result:
        """Find tools by a query (A.4).

        Raises:
            InvalidArgument: an argument is not as the schema says.
            PolicyUnavailable: the service gave no answer.
        """
        undeclared(arguments, "query", "limit", "include_disabled")
        query = checked_arguments(arguments)
        if query.include_disabled:
            self._metrics.opted_in()
        await self._settled()
        # From here on nothing is read that an upstream could have said after it was judged.
        known = self._inventory.known_servers()
        open_servers = [name for name, it in known.items() if it.config.enabled and not it.config.quarantined]
        not_loaded = tuple(self._loads.messages(open_servers, self._phrases.about_any()).values())
        judgement = await self._decisions.judge(known.values())
        found = await self._found(known, judgement.callable, query.query, query.limit)
        found_locked: tuple[str, ...] = ()
        if query.include_disabled or not found:
            searchable = [tool for tool in judgement.searchable if known[tool.server].by_name.get(tool.tool)]
            found_locked = await self._found(known, searchable, query.query)
        answer = discovery(
            judgement,
            query.query,
            found=found,
            found_locked=found_locked,
            texts=Texts(known),
            phrases=self._phrases.about_any(),
            limit=query.limit,
            include_disabled=query.include_disabled,
            not_loaded=not_loaded,
        )
        return tool_result(answer)

    async def call_tool(
        self,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        progress: ProgressFnT | None = None,
    ) -> Result | CallToolResult:
        """Call a tool of an upstream, or say why it cannot be called (A.5).

        Raises:
            InvalidArgument: an argument is not as the schema says.
            PolicyUnavailable: the service gave no answer; nothing was called.
        """
        undeclared(arguments, "name", "arguments")
        name = text_of(arguments, "name")
        given = arguments.get("arguments")
        if given is not None and not isinstance(given, dict):
            raise InvalidArgument("`arguments` must be an object")
        server, colon, tool = name.partition(":")
        if not colon or not tool or server not in self._inventory.servers:
            return await self._unknown(name)
        return await logged(self._agent, server, tool, self._called(server, tool, given, meta, progress))

    async def _called(
        self,
        server: str,
        tool: str,
        given: Mapping[str, Any] | None,
        meta: Mapping[str, Any] | None,
        progress: ProgressFnT | None,
    ) -> Result | CallToolResult:
        try:
            allowed = await self._allowed(server, tool)
            if allowed is None:
                return await self._unknown(f"{server}:{tool}")
            if isinstance(allowed, dict):
                return allowed
            upstream, connection = allowed
            return await upstream.call(tool, given, on=connection, meta=meta, progress=progress)
        except UpstreamError as error:
            said = f" It said: {error.message}" if isinstance(error, UpstreamRefusal) and error.message else ""
            return error_result(f"Not done: server {error}.{said}{self._again(server)}")

    def _again(self, server: str) -> str:
        """Say how a server of the catalog that has lost its connection gets one: a call dials none (E-4)."""
        upstream = self._inventory.upstream(server) if self._inventory.is_joined(server) else None
        lost = upstream is not None and upstream.state == "failed"
        return " It can be connected again by `enable_server`." if lost else ""

    async def upstream_servers(self, arguments: Mapping[str, Any]) -> Result:
        """List the servers, or look at one of them, with the counts of their tools (A.6).

        Raises:
            InvalidArgument: an argument is not as the schema says.
        """
        undeclared(arguments, "operation", "name")
        operation = text_of(arguments, "operation", default="list")
        if operation not in {"list", "get"}:
            raise InvalidArgument(f"`operation` must be `list` or `get`, and is `{operation[:128]}`")
        servers = self._inventory.known_servers()
        if operation == "get":
            name = text_of(arguments, "name")
            if name not in servers:
                return unknown_server(name, servers)
            servers = {name: servers[name]}
        elif arguments.get("name") is not None:
            raise InvalidArgument("`name` goes with the operation `get`")
        answer: dict[str, Any] = {}
        try:
            counts = await self._decisions.counts(servers.values())
        except PolicyUnavailable as error:
            counts, answer["policy"] = {}, f"{error}: there are no counts"
        # One of the catalog may have been switched off meanwhile.
        there = [server for server in servers if server in self._inventory.servers]
        if operation == "get" and not there:
            return unknown_server(name, self._inventory.servers)
        entries = [
            server_entry(self._inventory, server, counts.get(server), self._loads.outcome(server)) for server in there
        ]
        listed: dict[str, Any] = {"server": entries[0]} if operation == "get" else {"servers": entries}
        if messages := self._loads.messages(servers, self._phrases.about_any()):
            listed["loading"] = {str(status): said for status, said in messages.items()}
        return tool_result(listed | answer | self._file_status.messages())

    async def _allowed(self, server: str, tool: str) -> tuple[Upstream, Connection] | Result | None:
        """Return where a tool may be called, its rejection, or None for a tool that does not exist.

        The tool that is called is the one that was judged: what a connection lists that was opened meanwhile, and what
        the server announced, is read and judged before. Nothing is opened for a tool that is not known, nor before the
        policy lets the call through.

        Raises:
            UpstreamError: the server is not connected and cannot be.
            PolicyUnavailable: the service gave no answer.
        """
        upstream = self._inventory.upstream(server)
        if upstream is not None and tool not in self._inventory.known(server).by_name:
            try:
                await upstream.opened()
            except UpstreamError as error:
                return self._not_connected(server, error)
            await self._settle(upstream)
        for _ in range(LOOKS):
            if server not in self._inventory.servers:
                return None
            known = self._inventory.known(server)
            exists = byte_length(tool) <= MAX_BYTES if upstream is None else tool in known.by_name
            if not exists:
                return None
            response = await self._decisions.check(known, tool)
            refusal = known.refusals.get(f"{server}:{tool}", "")
            refused = rejection(response, server, tool, phrases=self._phrases.about(server, tool), refusal=refusal)
            if refused:
                return refused
            if upstream is None:
                return error_result(f"Not done: server `{server}` is switched off in the config of the gateway.")
            connection = await self._read(upstream)
            still = server in self._inventory.servers and self._inventory.known(server) is known
            if still and known.connected:
                return upstream, connection
        return error_result(f"Not done: server `{server}` changes its tools again and again; the call was not sent.")

    async def _read(self, upstream: Upstream) -> Connection:
        """Connect, and read what the server announced about its tools.

        Raises:
            UpstreamError: it cannot be connected, or does not list its tools in time.
        """
        connection = await upstream.connected()
        await self._settle(upstream)
        return connection

    async def _settle(self, upstream: Upstream) -> None:
        """Read what the server announced about its tools.

        Raises:
            UpstreamError: it does not list its tools in time.
        """
        if not upstream.is_settled:
            try:
                async with asyncio.timeout(READ_SECONDS):
                    await upstream.tools_current()
            except TimeoutError:
                raise UpstreamError(upstream.name, _UNREAD, NOT_SENT) from None

    def _not_connected(self, server: str, error: UpstreamError) -> Result:
        """Return the answer to a call of a tool that is not known, of a server that is not connected (A.4)."""
        messages = self._loads.messages([server], self._phrases.about(server)).values()
        why = " ".join(messages) or f"It {error.failure.words}.{self._again(server)}"
        return error_result(
            f"Not done: server `{server}` is not connected, so that it is not known whether it has this tool; the call"
            f" was not sent. {why}"
        )

    async def _unknown(self, name: str) -> Result:
        judgement = await self._decisions.judge(self._inventory.known_servers().values())
        return unknown_tool(name, (tool.name for tool in judgement.callable))

    async def _settled(self) -> None:
        """Wait for the servers that open for the first time, and a little for those that open or list again."""
        upstreams = [self._inventory.upstream(server) for server in self._inventory.servers]
        waiting = [
            _settling(upstream, self._loads)
            for upstream in upstreams
            if upstream
            and ((not upstream.is_settled and not upstream.is_restless) or self._loads.is_pending(upstream.name))
        ]
        await asyncio.gather(*waiting)

    async def _found(
        self, known: Mapping[str, KnownServer], tools: Iterable[JudgedTool], query: str, limit: int | None = None
    ) -> tuple[str, ...]:
        """Search some tools and nothing else; of a tool whose text is not known, its names."""
        documents = []
        for tool in tools:
            listed = known[tool.server].by_name.get(tool.tool)
            shown = listed if listed and not tool.withhold_text else None
            documents.append(shown.document if shown else SearchDocument(tool.tool, tool.server))
        index = await self._indexes.of(tuple(documents))
        return tuple(hit.document.qualified_name for hit in index.search(query, limit))


async def _settling(upstream: Upstream, loads: Loads) -> None:
    # One that hangs whenever it is opened again, or announces without end, must not hold up everybody's discovery.
    with suppress(TimeoutError):
        async with asyncio.timeout(None if upstream.opening_first else SETTLE_SECONDS):
            await upstream.tools_current()
            await loads.known(upstream.name)
