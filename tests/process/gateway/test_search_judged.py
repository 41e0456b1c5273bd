"""Search over the tools of real servers, compared with the answers that a person would expect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp import Client
from ruamel.yaml import YAML

from support.checkout import VECTORS
from support.gateways import connected, retrieve, write_config
from support.real_servers import node_servers, node_wanted, pypi_servers

JUDGED: Mapping[str, Mapping[str, list[str]]] = YAML(typ="safe").load(VECTORS / "judged_queries.yaml")
"""The right answers to each query, by kind of query."""
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Hits:
    """How often, in a number of queries, a right answer was first, and how often it was shown."""

    queries: int
    first: float
    shown: float

    def __str__(self) -> str:
        return f"{self.queries} queries, hit@1 {self.first:.2f}, hit@{SHOWN} {self.shown:.2f}"


def _hits(judged: Sequence[tuple[list[str], list[str]]]) -> Hits:
    first = sum(bool({*found[:1]} & {*right}) for found, right in judged)
    shown = sum(bool({*found} & {*right}) for found, right in judged)
    return Hits(len(judged), first / len(judged), shown / len(judged))


async def _found(client: Client, query: str) -> list[str]:
    answer = await retrieve(client, query, limit=SHOWN)
    return [tool["name"] for tool in answer["tools"]]


@node_wanted
def test_a_right_tool_is_found_for_most_of_what_agents_ask(tmp_path: Path, note: Callable[[str], None]) -> None:
    """By its name or a part of it, a tool comes first; in other words, it mostly does, and is always shown."""
    config = write_config(tmp_path, pypi_servers(tmp_path) | node_servers(tmp_path), deadlines={"open_seconds": 120})

    async def story() -> dict[str, list[tuple[list[str], list[str]]]]:
        async with connected("http", config) as client:
            return {
                kind: [(await _found(client, query), right) for query, right in queries.items()]
                for kind, queries in JUDGED.items()
            }

    judged = asyncio.run(story())
    by_kind = {kind: _hits(of_kind) for kind, of_kind in judged.items()}
    whole = _hits([one for of_kind in judged.values() for one in of_kind])
    for kind, hits in [*by_kind.items(), ("in all", whole)]:
        note(f"{kind}: {hits}")
    assert by_kind["exact name"].first == 1
    assert by_kind["part of a name"].first >= 0.9
    assert whole.first >= 0.8
    assert whole.shown >= 0.92
