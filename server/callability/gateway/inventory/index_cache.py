"""One search index for each set of visible tools, built whole when the set changes (A.4)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from callability.gateway.inventory.tool_index import SearchDocument, ToolIndex

MAX_INDEXES = 16
"""How many indexes are kept; the least recently used one goes first."""


class Indexes:
    """Builds indexes in a thread, once for concurrent callers, and keeps the latest."""

    def __init__(self) -> None:
        self._building: OrderedDict[tuple[SearchDocument, ...], asyncio.Task[ToolIndex]] = OrderedDict()

    async def of(self, documents: tuple[SearchDocument, ...]) -> ToolIndex:
        """Return the index over documents and nothing else."""
        task = self._building.get(documents)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(ToolIndex, documents))
            self._building[documents] = task
            while len(self._building) > MAX_INDEXES:
                self._building.popitem(last=False)
        self._building.move_to_end(documents)
        try:
            # A caller that goes must not take the index from the others.
            return await asyncio.shield(task)
        except BaseException:
            if task.done() and (task.cancelled() or task.exception()):
                self._building.pop(documents, None)
            raise
