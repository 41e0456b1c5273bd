"""Search by meaning: nearest vectors by a table of word vectors, read as integers (the extra `semantic`, A.4).

`Indexes` keeps the latest indexes of both kinds: one for each set of visible tools, extended if a tool is new, and
built whole if one is gone.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Iterable, MutableMapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from callability.gateway.tool_index import NotGrowing, SearchDocument, ToolIndex, words
from callability.process.bounded_cache import BoundedCache

if TYPE_CHECKING:
    import numpy as np

_Key = TypeVar("_Key")
_Built = TypeVar("_Built")

FIRST_BY_WORDS = 5
"""So many hits by words come before those by meaning."""
_PACKAGE = "wordllama"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_TABLE = "weights/l2_supercat_256.safetensors"
_DIMENSIONS = 256
_HEADER_BYTES = 8
_PLACES = 4096
"""What numbers of the table are multiplied with before they are rounded."""
_LENGTH = 4000
"""The length of each vector. The sum of 256 products of two of them is below 2**24, which float32 holds exactly."""
_FLOOR = _LENGTH * _LENGTH * 15 // 100
"""The least score of a hit: a cosine of 0.15, chosen by recall (docs/figures.md)."""
_MAX_CHARACTERS = 4000
_MAX_TOKENS = 512
_MAX_VECTORS = 32_768


class TableUnreadable(Exception):
    """The files of the table are not there, or are not as they should be."""


class WordVectors:
    """The vectors of texts; equal on every machine, since they are sums of integers.

    The table is mapped, not read: of its 16 MB, a process has in memory what its texts use, shared with others.

    Raises:
        TableUnreadable: the package is not installed, or has other files.
    """

    def __init__(self) -> None:
        try:
            # An extra, and slow to import.
            import numpy  # noqa: PLC0415
            from tokenizers import Tokenizer  # noqa: PLC0415
        except ImportError as error:
            raise TableUnreadable(f"`{error.name}` cannot be imported") from error
        self._numpy = numpy
        directory = _directory()
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(directory / _TOKENIZER))
            with (directory / _TABLE).open("rb") as file:
                start = _HEADER_BYTES + int.from_bytes(file.read(_HEADER_BYTES), "little")
            shape = (self._tokenizer.get_vocab_size(), _DIMENSIONS)
            self._table = numpy.memmap(directory / _TABLE, dtype="<f2", mode="r", offset=start, shape=shape)
        except Exception as error:  # the library of tokenizers raises nothing more exact
            raise TableUnreadable(f"the table of `{_PACKAGE}` cannot be read: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._kept: BoundedCache[SearchDocument, np.ndarray] = BoundedCache(_MAX_VECTORS)

    def of_text(self, text: str) -> np.ndarray:
        """Return the vector of a text, zero if it has no word."""
        numpy = self._numpy
        well_formed = text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
        tokens = self._tokenizer.encode(well_formed, add_special_tokens=False).ids[:_MAX_TOKENS]
        rows = numpy.rint(self._table[tokens].astype(numpy.float32) * _PLACES).astype(numpy.int64)
        added = rows.sum(axis=0)
        length = math.isqrt(int((added * added).sum()))
        vector: np.ndarray = (added * _LENGTH // max(1, length)).astype(numpy.int16)
        return vector

    def of_documents(self, documents: Sequence[SearchDocument]) -> np.ndarray:
        """Return the vectors of tools, a row each."""
        found = self._numpy.empty((len(documents), _DIMENSIONS), self._numpy.float32)
        for place, document in enumerate(documents):
            vector = self._kept.get(document)
            if vector is None:
                vector = self.of_text(_text(document))
                self._kept.keep(document, vector)
            found[place] = vector
        return found

    def products(self, rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """Return the product of each row with a vector, exactly."""
        # Not `@`: its threads wait for each other on a busy machine, for longer than the sums take.
        found: np.ndarray = self._numpy.einsum("ij,j->i", rows, vector.astype(rows.dtype))
        return found


class MeaningIndex:
    """The vectors of the tools that one caller may call, and of nothing else (FR-002, FR-007)."""

    def __init__(self, documents: Iterable[SearchDocument], vectors: WordVectors) -> None:
        self._documents = sorted(documents, key=lambda document: (document.qualified_name, document))
        self._vectors = vectors
        self._matrix = vectors.of_documents(self._documents)

    def nearest(self, query: str, limit: int) -> tuple[str, ...]:
        """Return the qualified names of the nearest tools above the floor, by falling score, then by name."""
        if not self._documents:
            return ()
        scores = self._vectors.products(self._matrix, self._vectors.of_text(query))
        [above] = (scores >= _FLOOR).nonzero()
        if len(above) > limit:
            # All that tie with the last one stay until the order by name is known.
            parted = scores[above]
            parted.partition(len(above) - limit)
            above = above[scores[above] >= parted[len(above) - limit]]
        best = above[(-scores[above]).argsort(kind="stable")][:limit]
        return tuple(self._documents[place].qualified_name for place in best)


def in_turn(by_words: Sequence[str], by_meaning: Sequence[str]) -> tuple[str, ...]:
    """Return the first hits by words, then those by meaning, then what else was found by words, each once."""
    return tuple(dict.fromkeys((*by_words[:FIRST_BY_WORDS], *by_meaning, *by_words)))


@cache
def word_vectors() -> WordVectors:
    """Return the vectors of this process, with the table read once.

    Raises:
        TableUnreadable: the package is not installed, or has other files.
    """
    return WordVectors()


def _directory() -> Path:
    """Return where the package is, without importing it.

    Raises:
        TableUnreadable: it is not installed.
    """
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise TableUnreadable(f"the package `{_PACKAGE}` is not installed")
    return Path(found.submodule_search_locations[0])


def _text(document: SearchDocument) -> str:
    return " ".join((*words(document.name), document.title, document.description))


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
        self._meanings: WeakKeyDictionary[ToolIndex, asyncio.Task[MeaningIndex]] = WeakKeyDictionary()
        self._building: OrderedDict[frozenset[SearchDocument], asyncio.Task[ToolIndex]] = OrderedDict()

    async def of(self, wanted: Iterable[SearchDocument]) -> ToolIndex:
        """Return the index over documents and nothing else."""
        documents = frozenset(wanted)
        if documents not in self._building:
            self._building[documents] = asyncio.create_task(
                asyncio.to_thread(_build_index, documents, self._base(documents))
            )
            while len(self._building) > MAX_INDEXES:
                self._building.popitem(last=False)
        self._building.move_to_end(documents)
        return await _wait(self._building, documents)

    async def meaning_of(self, index: ToolIndex) -> MeaningIndex:
        """Return the index by meaning over the documents of another index.

        Raises:
            TableUnreadable: the extra `semantic` is not installed.
        """
        if index not in self._meanings:
            self._meanings[index] = asyncio.create_task(asyncio.to_thread(_meanings, index))
        return await _wait(self._meanings, index)

    def _base(self, documents: frozenset[SearchDocument]) -> ToolIndex | None:
        """Return an index over nearly all of some documents and no others, if one of the latest is."""
        done = (task for task in reversed(self._building.values()) if task.done() and not task.cancelled())
        for task in islice(done, MAX_BASES):
            index = None if task.exception() else task.result()
            if index and 0 < len(documents) - len(index) <= MAX_ADDED and index.documents < documents:
                return index
        return None


async def _wait(tasks: MutableMapping[_Key, asyncio.Task[_Built]], key: _Key) -> _Built:
    """Return the result of a task, and forget one that failed."""
    task = tasks[key]
    try:
        # A caller that goes must not take the index from the others.
        return await asyncio.shield(task)
    except BaseException:
        if task.done() and (task.cancelled() or task.exception()):
            tasks.pop(key, None)
        raise


def _meanings(index: ToolIndex) -> MeaningIndex:
    return MeaningIndex(index.documents, word_vectors())


def _build_index(documents: frozenset[SearchDocument], base: ToolIndex | None) -> ToolIndex:
    if base is not None:
        with suppress(NotGrowing):
            return base.extend(documents - base.documents)
    return ToolIndex(documents)
