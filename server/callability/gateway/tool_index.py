"""Search by words over the tools that one caller may see, and over nothing else (A.4), in any script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from heapq import nsmallest
from threading import Lock
from typing import TYPE_CHECKING

from callability.adapter.discovery import MAX_WORD, without_stop_words

if TYPE_CHECKING:
    import tantivy

_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9].)|(?<=[A-Z].)(?=[a-z]))")
_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_IDEOGRAPH}]|[^\W_{_IDEOGRAPH}]{{1,{MAX_WORD}}}")
_SLICE = re.compile(r"\S{1,64}")


def words(text: str) -> tuple[str, ...]:
    """Split a text at every character that is no letter or digit and at camelCase humps, and fold case and width.

    In scripts without spaces (Chinese, Japanese) every character is a word.
    """
    parted = _HUMP.sub(r" \g<0>", text if text.isascii() else _compose(text))
    return tuple(_WORD.findall(parted.casefold()))


def _compose(text: str) -> str:
    # In slices: the time for a run of combining marks grows with the square of its length.
    return _SLICE.sub(lambda piece: unicodedata.normalize("NFKC", piece[0]), text)


MAX_QUERY_CHARACTERS = 10_000
MAX_QUERY_WORDS = 32
"""How many different words of a query are looked for in texts: of more, those that are in the fewest documents."""
MAX_NAME_WORDS = 256
"""How many different words of a query are looked for in names, and how many of its pieces as a whole name."""

_FIELDS = ("name", "server", "title", "description", "parameters", "parameter_texts")
_NAMES = 2  # so many of the fields are names
_IN_NAME = 2.0
_OTHER_FIELDS = 0.3
"""How much of a word's score in each other field is added to that in the best one."""
_NEAR = 0.2
"""The least part of the best score that a hit near the best one has; chosen by recall (docs/figures.md)."""
# Each is far above what one word adds: a whole name comes first, then names with all words of the query, or what these
# begin, then parameters that are named as such, and then whatever words are found.
_WHOLE_NAME = 100.0
_ALL_IN_NAME = 50.0
_WHOLE_PARAMETER = 10.0
# Constant, and given to whole words too, so that the start of a name never outweighs a word in it.
_BEGINNING = 0.5
_SHORTEST_BEGINNING = 2
_READ = 4
"""So many times the limit are read at first: of the hits that tie with the last one, the names decide which stay."""
_HEAP_BYTES = 15_000_000  # the least that the library accepts


@cache
def _stemmer() -> tantivy.TextAnalyzer:
    import tantivy  # noqa: PLC0415

    whitespace = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    return whitespace.filter(tantivy.Filter.stemmer("english")).build()


@dataclass(frozen=True, slots=True, order=True)
class SearchDocument:
    """What is searched of one tool; a text that is withheld or missing is empty."""

    name: str
    server: str
    title: str = ""
    description: str = ""
    parameters: tuple[str, ...] = ()
    parameter_texts: tuple[str, ...] = ()
    """The descriptions of parameters."""

    @property
    def qualified_name(self) -> str:
        """The name that callers use, `server:tool`."""
        return f"{self.server}:{self.name}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that a query found; scores are comparable within one result only."""

    document: SearchDocument
    score: float


class ToolIndex:
    """An index in memory that never changes: equal documents in any order give equal results (FR-002).

    `grown` returns another index, over more documents. It gives the results of one that is built whole: scores count
    the documents and words of all parts of an index, and only a document that is gone would still count.
    """

    def __init__(self, documents: Iterable[SearchDocument], base: ToolIndex | None = None) -> None:
        added = tuple(documents)
        self._schema: tantivy.Schema = base._schema if base else _schema()
        self._parts: _Parts = base._parts if base else _Parts(self._schema)
        self._documents: tuple[SearchDocument, ...] = (*base._documents, *added) if base else added
        self._searcher = self._parts.searcher_with(added, len(self._documents))
        # What the base has in order and in its set is not compared and hashed again: both take longer than a search.
        self._in_order: tuple[_Ordered, ...] = tuple(sorted((*(base._in_order if base else ()), *_order(added, base))))
        self._ranks = [0] * len(self._in_order)
        for rank, (_, _, place) in enumerate(self._in_order):
            self._ranks[place] = rank
        self.documents: frozenset[SearchDocument] = base.documents.union(added) if base else frozenset(added)

    def __len__(self) -> int:
        return len(self._documents)

    def extend(self, documents: Iterable[SearchDocument]) -> ToolIndex:
        """Return an index over these documents and more; this one stays as it is.

        Raises:
            NotGrowing: it has grown already; build the other index whole.
        """
        return ToolIndex(documents, self)

    def search(self, query: str, limit: int | None = None, *, only_near: bool = False) -> tuple[Hit, ...]:
        """Return the hits of a query by falling score, then by qualified name: the first `limit`, or all of them.

        Every text is a query: operators are plain words, and stop words count only in a query of nothing else, so that
        they still find names. With `only_near`, hits far below the best one are left out.

        Raises:
            ValueError: the limit is below 1.
        """
        if limit is not None and limit < 1:
            raise ValueError("a limit is at least 1")
        import tantivy  # noqa: PLC0415

        clauses = [(tantivy.Occur.Should, clause) for clause in self._clauses(query[:MAX_QUERY_CHARACTERS])]
        if not clauses or not self._documents:
            return ()
        best = self._best(tantivy.Query.boolean_query(clauses), limit)
        least = best[0][0] * _NEAR if only_near and best else 0.0
        near = [(score, address) for score, address in best if score >= least]
        places = [int(place or 0) for place in self._searcher.fast_field_values("place", [hit[1] for hit in near])]
        ordered = sorted((-score, self._ranks[place], place) for (score, _), place in zip(near, places, strict=True))
        return tuple(Hit(self._documents[place], -score) for score, _, place in ordered[:limit])

    def _best(self, query: tantivy.Query, limit: int | None) -> list[tuple[float, tantivy.DocAddress]]:
        """Return the first `limit` hits or all of them, by falling score, and what ties with the last one."""
        every = len(self._documents)
        enough = min(every, _READ * limit) if limit else every
        found = self._scored(query, enough)
        if not limit or len(found) <= limit:
            return found
        last = found[limit - 1][0]
        if len(found) == enough < every and found[-1][0] == last:
            found = self._scored(query, every)
        return [hit for hit in found if hit[0] >= last]

    def _scored(self, query: tantivy.Query, most: int) -> list[tuple[float, tantivy.DocAddress]]:
        found = self._searcher.search(query, limit=most, count=False).hits
        # Rounded: the last digits of a sum depend on the order in which its parts were added.
        return [(round(score, 4), address) for score, address in found]

    def _clauses(self, query: str) -> Iterator[tantivy.Query]:
        import tantivy  # noqa: PLC0415

        query_words = tuple(dict.fromkeys(words(query)))
        wanted = without_stop_words(query_words)
        fields = _FIELDS if wanted else _FIELDS[:_NAMES]
        wanted = wanted or query_words
        for meant in _names(query):
            yield tantivy.Query.const_score_query(self._term("whole_name", meant), _WHOLE_NAME)
            yield tantivy.Query.const_score_query(self._term("whole_parameter", meant), _WHOLE_PARAMETER)
        stems = tuple(dict.fromkeys(_stemmer().analyze(" ".join(wanted))))
        in_texts = self._rarest(stems, fields)
        for stem in dict.fromkeys((*stems[:MAX_NAME_WORDS], *in_texts)):
            name, *others = (self._term(field, stem) for field in (fields if stem in in_texts else _FIELDS[:_NAMES]))
            # Mostly the best field, not the sum: a tool with two words of the query comes before one that repeats one.
            every_field = [tantivy.Query.boost_query(name, _IN_NAME), *others]
            yield tantivy.Query.disjunction_max_query(every_field, tie_breaker=_OTHER_FIELDS)
        beginnings = [self._term("beginnings", word) for word in wanted[:MAX_NAME_WORDS]]
        for beginning in beginnings:
            yield tantivy.Query.const_score_query(beginning, _BEGINNING)
        if beginnings and len(beginnings) == len(wanted):
            every = [(tantivy.Occur.Must, beginning) for beginning in beginnings]
            yield tantivy.Query.const_score_query(tantivy.Query.boolean_query(every), _ALL_IN_NAME)

    def _rarest(self, stems: tuple[str, ...], fields: tuple[str, ...]) -> tuple[str, ...]:
        """Return the stems that are in the fewest documents, of those that are in one; ties go to the earlier one."""
        if len(stems) <= MAX_QUERY_WORDS:
            return stems
        counted = [(max(self._searcher.doc_freq(field, stem) for field in fields), stem) for stem in stems]
        known = [each for each in counted if each[0]]
        return tuple(stem for _, stem in nsmallest(MAX_QUERY_WORDS, known, key=lambda each: each[0]))

    def _term(self, field: str, value: str) -> tantivy.Query:
        import tantivy  # noqa: PLC0415

        return tantivy.Query.term_query(self._schema, field, value, index_option="freq")


def _schema() -> tantivy.Schema:
    import tantivy  # noqa: PLC0415

    builder = tantivy.SchemaBuilder()
    for field in _FIELDS:
        builder.add_text_field(field, tokenizer_name="stems", index_option="freq")
    for field in ("whole_name", "whole_parameter", "beginnings"):
        builder.add_text_field(field, tokenizer_name="whitespace", index_option="basic")
    builder.add_unsigned_field("place", fast=True)
    return builder.build()


class NotGrowing(Exception):
    """An index has grown already, or failed to."""


class _Parts:
    """What the indexes of a growing set of documents share. Each sees it as it was when it was made."""

    def __init__(self, schema: tantivy.Schema) -> None:
        import tantivy  # noqa: PLC0415

        self._lock = Lock()
        self._documents = 0
        self._index = tantivy.Index(schema)
        self._index.register_tokenizer("stems", _stemmer())

    def searcher_with(self, added: tuple[SearchDocument, ...], together: int) -> tantivy.Searcher:
        """Add documents, of which there are then so many `together`, and return a searcher over all of them.

        Raises:
            NotGrowing: there are others already.
        """
        with self._lock:
            first, self._documents = self._documents, -1
            if first != together - len(added):
                self._documents = first
                raise NotGrowing
            # Only while the index grows: an open writer has several threads and its heap.
            writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
            for place, document in enumerate(added, first):
                writer.add_document(_entry(place, document))
            writer.commit()
            writer.wait_merging_threads()
            self._index.reload()
            self._documents = together
            return self._index.searcher()


_Ordered = tuple[str, SearchDocument, int]
"""What documents are ordered by, and the place of one in its index."""


def _order(added: Iterable[SearchDocument], base: ToolIndex | None) -> Iterator[_Ordered]:
    for place, document in enumerate(added, len(base) if base else 0):
        yield document.qualified_name, document, place


def _entry(place: int, document: SearchDocument) -> tantivy.Document:
    import tantivy  # noqa: PLC0415

    name, server = words(document.name), words(document.server)
    texts = {
        "name": name,
        "server": server,
        "title": words(document.title),
        "description": words(document.description),
        "parameters": words(" ".join(document.parameters)),
        "parameter_texts": words(" ".join(document.parameter_texts)),
        "whole_name": ("".join(name), "".join(server + name)),
        "whole_parameter": tuple("".join(words(parameter)) for parameter in document.parameters),
        "beginnings": _beginnings(name + server),
    }
    entry = tantivy.Document()
    entry.add_unsigned("place", place)
    for field, found in texts.items():
        entry.add_text(field, " ".join(found))
    return entry


def _names(query: str) -> Iterator[str]:
    """Yield what may be a name: the query as a whole, and each compound such as `delete_file` in it."""
    compounds = (words(piece) for piece in query.split()[:MAX_NAME_WORDS])
    meant = (words(query), *(parts for parts in compounds if len(parts) > 1))
    yield from dict.fromkeys("".join(parts) for parts in meant if parts)


def _beginnings(found: tuple[str, ...]) -> Iterator[str]:
    for word in found:
        for end in range(_SHORTEST_BEGINNING, len(word) + 1):
            yield word[:end]
