"""How often the gateway's search finds the right tools: `python -m bench.recall FOLDER`.

The folder has sets of tools and questions, each a JSON file compressed by gzip:
`{"tools": [{"id", "server", "name", "description", "schema"}], "queries": [{"q", "gold": [id]}]}`.
With `"any": true`, one right tool is as good as all; with `"names": [...]`, any tool of such a name is right.
No set is part of this repository. What is measured is what an agent gets: with the default limit, and without the hits
far below the best.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from mcp_types import Tool

from callability.adapter import DEFAULT_LIMIT
from callability.gateway.inventory import search_document
from callability.gateway.meaning import FIRST_BY_WORDS, MeaningIndex, in_turn, word_vectors
from callability.gateway.tool_index import ToolIndex

AT = (1, 5, 15)
"""At how many tools recall is measured."""


def main() -> None:
    """Print the recall of each set in a folder, in percent."""
    parser = argparse.ArgumentParser(description="Measure how often the search finds the right tools.")
    parser.add_argument("folder", type=Path, help="The folder with the sets, `*.json.gz`.")
    parser.add_argument("--by-meaning", action="store_true", help="Find tools by meaning too (the extra `semantic`).")
    given = parser.parse_args()
    print(f"{'set':16} {'tools':>6} {'queries':>8}  " + "  ".join(f"@{at:<4}" for at in AT) + "  shown")
    for path in sorted(given.folder.glob("*.json.gz")):
        content = json.loads(gzip.decompress(path.read_bytes()))
        started = perf_counter()
        index, ids = _index(content["tools"])
        meanings = MeaningIndex(index.documents, word_vectors()) if given.by_meaning else None
        built = perf_counter() - started
        found = [_found(index, meanings, ids, query["q"]) for query in content["queries"]]
        recall = "  ".join(f"{100 * _recall(content['queries'], found, at):5.1f}" for at in AT)
        shown = sum(map(len, found)) / len(found)
        sizes = f"{len(content['tools']):6} {len(found):8}"
        print(f"{path.name.removesuffix('.json.gz'):16} {sizes}  {recall}  {shown:5.1f}  built in {built:.2f} s")


def _index(tools: Sequence[Mapping[str, Any]]) -> tuple[ToolIndex, dict[str, str]]:
    """Return the index over some tools, and the id of each by its qualified name."""
    documents = {
        tool["id"]: search_document(
            tool["server"],
            Tool(name=tool["name"], description=tool["description"], input_schema=tool["schema"] or {"type": "object"}),
        )
        for tool in tools
    }
    return ToolIndex(documents.values()), {document.qualified_name: each for each, document in documents.items()}


def _found(index: ToolIndex, meanings: MeaningIndex | None, ids: Mapping[str, str], query: str) -> list[str]:
    by_words = [hit.document.qualified_name for hit in index.search(query, DEFAULT_LIMIT, only_near=True)]
    by_meaning = meanings.nearest(query, DEFAULT_LIMIT + FIRST_BY_WORDS) if meanings else ()
    return [ids[name] for name in in_turn(by_words, by_meaning)[:DEFAULT_LIMIT]]


def _recall(queries: Sequence[Mapping[str, Any]], found: Sequence[Sequence[str]], at: int) -> float:
    """Return the mean part of the right tools that are among the first so many."""
    return sum(_part(query, hits[:at]) for query, hits in zip(queries, found, strict=True)) / len(queries)


def _part(query: Mapping[str, Any], hits: Sequence[str]) -> float:
    right = set(query["gold"])
    if query.get("any"):
        return float(bool(right & set(hits)))
    if "names" in query:
        names = set(query["names"])
        return len({hit.split(":", 1)[1] for hit in hits} & names) / len(names)
    return len(right & set(hits)) / len(right)


if __name__ == "__main__":
    main()
