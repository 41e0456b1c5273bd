"""`retrieve_tools`: finds the tools that an agent may call, and on request those that are locked (A.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from callability.adapter import Judgement, checked_arguments, discovery, tool_result
from callability.gateway.inventory.index_cache import Indexes
from callability.gateway.inventory.inventory import Inventory, KnownServer, Texts
from callability.gateway.inventory.tool_index import Hit, SearchDocument, ToolIndex
from callability.gateway.loading import Loads
from callability.gateway.tools.arguments import undeclared
from callability.gateway.tools.decisions import Decisions
from callability.gateway.tools.remedies import Commands
from callability.gateway.tools.result import Result
from callability.gateway.upstream import Upstream

SETTLE_SECONDS = 2.0
"""How long a search waits for a server to read a change of its tools."""


class Discovery:
    """Answers searches for one agent."""

    def __init__(
        self,
        inventory: Inventory,
        decisions: Decisions,
        phrases: Commands,
        loads: Loads,
        indexes: Indexes | None = None,
    ) -> None:
        self._inventory = inventory
        self._decisions = decisions
        self._phrases = phrases
        self._loads = loads
        self._indexes = indexes or Indexes()
        self._latest: dict[str, tuple[Judgement, ToolIndex]] = {}

    async def retrieve_tools(self, arguments: Mapping[str, Any]) -> Result:
        """Find tools by a query (A.4).

        Raises:
            InvalidArgument: an argument is not as the schema says.
            PolicyUnavailable: the service gave no answer.
        """
        undeclared(arguments, "query", "limit", "include_disabled")
        query = checked_arguments(arguments)
        await self._settled()
        # From here on, nothing is read that an upstream could have sent after it was judged.
        known = self._inventory.known_servers()
        open_servers = [name for name, it in known.items() if it.config.enabled and not it.config.quarantined]
        not_loaded = tuple(self._loads.messages(open_servers, self._phrases.about_any()).values())
        judgement = await self._decisions.judge(known.values())
        index = await self._index(known, judgement, "callable")
        found = _names(index.search(query.query, query.limit))
        found_locked: tuple[str, ...] = ()
        if query.include_disabled or not found:
            index = await self._index(known, judgement, "searchable")
            found_locked = _names(index.search(query.query))
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

    async def _settled(self) -> None:
        """Wait for servers that open for the first time, and a little for those that open or list again."""
        upstreams = [self._inventory.upstream(server) for server in self._inventory.servers]
        waiting = [
            _settling(upstream, self._loads)
            for upstream in upstreams
            if upstream
            and ((not upstream.is_settled and not upstream.is_slow_to_list) or self._loads.is_pending(upstream.name))
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


async def _settling(upstream: Upstream, loads: Loads) -> None:
    # A server that hangs at each opening, or announces without end, must not hold up everybody's discovery.
    with suppress(TimeoutError):
        async with asyncio.timeout(None if upstream.opening_first else SETTLE_SECONDS):
            await upstream.tools_current()
            await loads.known(upstream.name)
