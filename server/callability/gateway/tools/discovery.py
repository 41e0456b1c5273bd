"""`retrieve_tools` and `upstream_servers`: what an agent may call, what is locked, and how many of each (A.4, A.6)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from callability.adapter import InvalidArgument, Judgement, checked_arguments, discovery, error_result, tool_result
from callability.adapter.messages import near_names
from callability.client import PolicyUnavailable
from callability.contract.finding import as_code
from callability.gateway.config.model import ServerConfig
from callability.gateway.inventory import GatewayInventory, KnownServer, Texts
from callability.gateway.loading import LOADING, LoadOutcome, Loads
from callability.gateway.meaning import FIRST_BY_WORDS, Indexes, in_turn
from callability.gateway.observability import FileStatus
from callability.gateway.tool_index import Hit, SearchDocument, ToolIndex
from callability.gateway.tools.decisions import AgentView, Result, refuse_undeclared, text_of
from callability.gateway.upstream.failure import few_of
from callability.gateway.upstream.upstream import Upstream

_RESTLESS = (
    "keeps announcing changes of its tools; they are read after pauses, so `retrieve_tools` may show an earlier list"
)


class ServerList:
    """Answers for one agent, to which no other servers exist than those that it may see (FR-007)."""

    def __init__(self, view: AgentView, file_status: FileStatus, changed_definitions: Callable[[str], int]) -> None:
        self._view = view
        self._file_status = file_status
        self._changed_definitions = changed_definitions

    async def upstream_servers(self, arguments: Mapping[str, Any]) -> Result:
        """List the servers, or look at one of them, with the counts of their tools (A.6).

        Raises:
            InvalidArgument: an argument is not as the schema says.
        """
        refuse_undeclared(arguments, "operation", "name")
        operation = text_of(arguments, "operation", default="list")
        if operation not in {"list", "get"}:
            raise InvalidArgument(f"`operation` must be `list` or `get`, and is `{operation[:128]}`")
        servers = self._view.inventory.known_servers()
        if operation == "get":
            name = text_of(arguments, "name")
            if name not in servers:
                return unknown_server(name, servers)
            servers = {name: servers[name]}
        elif arguments.get("name") is not None:
            raise InvalidArgument("`name` goes with the operation `get`")
        answer: dict[str, Any] = {}
        try:
            counts = await self._view.decisions.counts(servers.values())
        except PolicyUnavailable as error:
            counts, answer["policy"] = {}, f"{error}: there are no counts"
        # One of the catalog may have been switched off meanwhile.
        there = [server for server in servers if server in self._view.inventory.servers]
        if operation == "get" and not there:
            return unknown_server(name, self._view.inventory.servers)
        entries = [
            server_entry(self._view.inventory, server, counts.get(server), self._view.loads.outcome(server))
            | _note_of_changes(self._changed_definitions(server))
            for server in there
        ]
        listed: dict[str, Any] = {"server": entries[0]} if operation == "get" else {"servers": entries}
        messages = self._view.loads.messages(servers, self._view.phrases.about_any())
        said_of = {str(status): said for status, said in messages.items()}
        if still := self._view.loads.still_loading(servers):
            said_of = {LOADING: still, **said_of}
        if said_of:
            listed["loading"] = said_of
        if awaited := self._file_status.config_awaited:
            answer["notice"] = awaited
        return tool_result(listed | answer | self._file_status.messages())


def server_entry(
    inventory: GatewayInventory, server: str, counts: Mapping[str, int] | None, outcome: LoadOutcome | None
) -> dict[str, Any]:
    """Return a server's entry: its state, the outcome of its latest load if that is known and otherwise why it is not
    connected, and its counts if a tool is not callable.
    """
    config, upstream = inventory.servers[server], inventory.upstream(server)
    entry: dict[str, Any] = {
        "name": server,
        "type": config.way,
        "enabled": config.enabled,
        "quarantined": config.quarantined,
        "state": upstream.state if upstream else "disabled",
    }
    left_out = _left_out(upstream, config) if upstream and upstream.state == "connected" else ""
    if upstream and outcome:
        error = outcome.error or left_out
        said = {"error": error} if error else {}
        entry["load"] = {"status": str(outcome.status), "attempts": outcome.attempts, **said}
    elif upstream and upstream.failure:
        entry["reason"] = upstream.failure
    notes = [_RESTLESS] if upstream and upstream.is_restless else []
    notes += [left_out] if left_out else []
    if notes:
        entry["note"] = "; ".join(notes)
    if counts:
        entry["tools"] = dict(counts)
    return entry


def _note_of_changes(tools: int) -> dict[str, Any]:
    """Return the note about tools whose definitions changed, without their names; empty if there are none."""
    if not tools:
        return {}
    whose = "the definition of 1 tool" if tools == 1 else f"the definitions of {tools:,} tools"
    return {"changed": f"{whose} changed, and nobody has approved that since: ask the user to review the server"}


def _left_out(upstream: Upstream, config: ServerConfig) -> str:
    """Return which tools the server lists that cannot be used; of one in quarantine, only that there are any."""
    faults = upstream.left_out
    if not faults:
        return ""
    which = "" if config.quarantined else f": {few_of(faults)}"
    return f"lists tools that cannot be used, and are left out{which}"


def unknown_server(name: str, servers: Iterable[str]) -> dict[str, Any]:
    """Return the result for a server that does not exist for the caller."""
    near = near_names(name, servers, least=50)
    hint = f" Similar names: {', '.join(f'`{each}`' for each in near)}." if near else ""
    return error_result(f"Not done: there is no server {as_code(name)}.{hint} `list` shows all servers.")


FIRST_SECONDS = 20.0
"""How long after the start of the first opening of a server searches wait for it: a package that is being fetched takes
longer than clients wait for an answer.
"""
SETTLE_SECONDS = 2.0
"""How long a search waits for a server to read a change of its tools."""
SCHEMAS = ("full", "first", "none")
"""Which of the callable tools in an answer come whole: all, the first `WHOLE`, or none (A.4)."""
WHOLE = 3
"""Callable tools that come whole in an answer, if the call does not say how many."""
_SENTENCE = re.compile(r"(?<=[.!?。])\s|(?<=。)|\n")
_SHORT = 120
"""Characters of the description of a tool that comes in short."""


class Discovery:
    """Answers searches for one agent."""

    def __init__(self, view: AgentView, file_status: FileStatus, indexes: Indexes | None = None) -> None:
        self._view = view
        self._file_status = file_status
        self._indexes = indexes or Indexes()
        self._latest: dict[str, tuple[Judgement, ToolIndex]] = {}

    async def retrieve_tools(self, arguments: Mapping[str, Any]) -> Result:
        """Find tools by a query (A.4).

        Raises:
            InvalidArgument: an argument is not as the schema says.
            PolicyUnavailable: the service gave no answer.
        """
        refuse_undeclared(arguments, "query", "limit", "include_disabled", "schemas")
        query = checked_arguments(arguments)
        whole = _whole(arguments.get("schemas"), query.limit)
        await self._settle()
        # From here on, nothing is read that an upstream could have sent after it was judged.
        known = self._view.inventory.known_servers()
        open_servers = [name for name, it in known.items() if it.config.enabled and not it.config.quarantined]
        not_loaded = tuple(self._view.loads.messages(open_servers, self._view.phrases.about_any()).values())
        if still := self._view.loads.still_loading(open_servers):
            not_loaded = (still, *not_loaded)
        if awaited := self._file_status.config_awaited:
            not_loaded = (awaited,)
        judgement = await self._view.decisions.judge(known.values())
        index = await self._index(known, judgement, "callable")
        found = by_words = _names(index.search(query.query, query.limit, only_near=True))
        if self._indexes.by_meaning:
            meanings = await self._indexes.meaning_of(index)
            found = in_turn(by_words, meanings.nearest(query.query, query.limit + FIRST_BY_WORDS))
        found_locked: tuple[str, ...] = ()
        if query.include_disabled or not by_words:
            index = await self._index(known, judgement, "searchable")
            found_locked = _names(index.search(query.query))
        answer = discovery(
            judgement,
            query.query,
            found=found,
            found_locked=found_locked,
            texts=Texts(known),
            phrases=self._view.phrases.about_any(),
            limit=query.limit,
            include_disabled=query.include_disabled,
            not_loaded=not_loaded,
            only_by_meaning=not by_words,
        )
        answer["tools"][whole:] = [_short(entry) for entry in answer["tools"][whole:]]
        result = tool_result(answer)
        # Every client reads text, and some hand both forms to the model, which then pays twice.
        del result["structuredContent"]
        return result

    async def _settle(self) -> None:
        """Wait for servers that open for the first time, and a little for those that open or list again."""
        inventory, loads = self._view.inventory, self._view.loads
        waiting = [
            _settling(upstream, loads)
            for upstream in map(inventory.upstream, inventory.servers)
            if upstream
            and ((not upstream.is_settled and not upstream.is_slow_to_list) or loads.is_pending(upstream.name))
        ]
        await asyncio.gather(*waiting)

    async def _index(
        self, known: Mapping[str, KnownServer], judgement: Judgement, part: Literal["callable", "searchable"]
    ) -> ToolIndex:
        """Return the index over a part of the judged tools and nothing else.

        As long as nothing has changed, the judgement is the same object, and so are the tools that it was made of.
        """
        latest = self._latest.get(part)
        if latest is None or latest[0] is not judgement:
            tools = _callable(known, judgement) if part == "callable" else _searchable(known, judgement)
            latest = self._latest[part] = judgement, await self._indexes.of(tools)
        return latest[1]


def _callable(known: Mapping[str, KnownServer], judgement: Judgement) -> Iterator[SearchDocument]:
    """Yield what is searched of the callable tools; one without a known text is found by its names."""
    for tool in judgement.callable:
        listed = known[tool.server].by_name.get(tool.tool)
        shown = listed if listed and not tool.withhold_text else None
        yield shown.document if shown else SearchDocument(tool.tool, tool.server)


def _searchable(known: Mapping[str, KnownServer], judgement: Judgement) -> Iterator[SearchDocument]:
    for tool in judgement.searchable:
        listed = known[tool.server].by_name.get(tool.tool)
        if listed:
            yield listed.document


def _names(hits: Iterable[Hit]) -> tuple[str, ...]:
    return tuple(hit.document.qualified_name for hit in hits)


def _whole(schemas: object, limit: int) -> int:
    """Return how many of the callable tools come whole.

    Raises:
        InvalidArgument: it is none of the known values.
    """
    match schemas:
        case "full":
            return limit
        case "first" | None:
            return WHOLE
        case "none":
            return 0
    found = as_code(schemas[:128]) if isinstance(schemas, str) else "no text"
    raise InvalidArgument(
        f"`schemas` must be {', '.join(map(as_code, SCHEMAS[:-1]))} or `{SCHEMAS[-1]}`, and is {found}"
    )


def _short(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the short form of a tool: its name, how its description begins, and the names of its parameters."""
    short: dict[str, Any] = {"name": entry["name"]}
    if "description" in entry:
        short["description"] = _beginning(entry["description"])
    schema = entry.get("inputSchema") or {}
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, dict) and properties:
        needed = required if isinstance(required, list) else []
        short["parameters"] = ", ".join(name if name in needed else f"{name}?" for name in properties)
    return short


def _beginning(text: str) -> str:
    """Return the first sentence of a text, or what fits of it."""
    first = _SENTENCE.split(text.strip(), maxsplit=1)[0]
    return first if len(first) <= _SHORT else first[: _SHORT - 1].rstrip() + "…"


async def _settling(upstream: Upstream, loads: Loads) -> None:
    # A server that hangs at each opening, or announces without end, must not hold up everybody's discovery.
    began, patience = upstream.first_opening_began, SETTLE_SECONDS
    if began is not None:
        patience = max(patience, began + FIRST_SECONDS - asyncio.get_running_loop().time())
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await upstream.tools_current()
            await loads.wait_until_known(upstream.name)
