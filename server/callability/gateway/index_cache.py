"""The latest search indexes, each over exactly the documents that one kind of search needs."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from callability.gateway.meaning import MeaningIndex, word_vectors
from callability.gateway.tool_index import NotGrowing, SearchDocument, ToolIndex

if TYPE_CHECKING:
    pass

MAX_INDEXES = 32
"""How many indexes are kept for all agents, beside those of each agent's latest search; the least recently used one
goes first.
"""
MAX_BASES = 4
"""How many of the latest indexes are compared with a set of documents, to find one that has nearly all of them."""
MAX_ADDED = 500
"""How many documents may be added to an index; if there are more, a new one is built."""


class Indexes:
    """Builds indexes in a thread, once for concurrent callers, and keeps the latest.

    If documents came and none went, the index over the earlier ones grows. Otherwise the index is built whole: the
    scores of an index from which a document was deleted still count it (FR-002).
    """

    def __init__(self, *, by_meaning: bool = False) -> None:
        self.by_meaning = by_meaning
        self._meanings: WeakKeyDictionary[ToolIndex, MeaningIndex] = WeakKeyDictionary()
        self._building: OrderedDict[frozenset[SearchDocument], asyncio.Task[ToolIndex]] = OrderedDict()

    async def of(self, wanted: Iterable[SearchDocument]) -> ToolIndex:
        """Return the index over documents and nothing else."""
        documents = frozenset(wanted)
        task = self._building.get(documents)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(_built, documents, self._base(documents)))
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

    async def meaning_of(self, index: ToolIndex) -> MeaningIndex:
        """Return the index by meaning over the documents of another index.

        Raises:
            TableUnreadable: the extra `semantic` is not installed.
        """
        found = self._meanings.get(index)
        if found is None:
            found = self._meanings[index] = await asyncio.to_thread(_meanings, index)
        return found

    def _base(self, documents: frozenset[SearchDocument]) -> ToolIndex | None:
        """Return an index over nearly all of some documents and no others, if one of the latest is."""
        done = (task for task in reversed(self._building.values()) if task.done() and not task.cancelled())
        for task in islice(done, MAX_BASES):
            index = None if task.exception() else task.result()
            if index and 0 < len(documents) - len(index) <= MAX_ADDED and index.documents < documents:
                return index
        return None


def _meanings(index: ToolIndex) -> MeaningIndex:
    return MeaningIndex(index.documents, word_vectors())


def _built(documents: frozenset[SearchDocument], base: ToolIndex | None) -> ToolIndex:
    if base is not None:
        with suppress(NotGrowing):
            return base.grown(documents - base.documents)
    return ToolIndex(documents)
