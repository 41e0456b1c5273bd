"""The vectors of calls by a qualified name, replayed by the Python client from a bundle of the shipped policy.

`PYTHONPATH=tests python -m support.call_vectors` writes the results of the client as it is into the file. Review what
it changes against docs/adapter.md: a vector holds what is right, and not what is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.json_format import ParseDict

from callability.adapter import ALL_SERVERS, result_json
from callability.client import BlockingClient, Inventory
from callability.v1.facts_pb2 import ServerFacts, ToolFacts
from support.adapter_vectors import written
from support.bundles import SHIPPED, bundle_of
from support.checkout import VECTORS

PATH = VECTORS / "decide.json"
Vector = Mapping[str, Any]


def load() -> dict[str, Any]:
    """Return the content of the file."""
    content: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return content


def inventory_of(given: Vector) -> Inventory:
    """Return an inventory as the file describes it."""
    inventory = Inventory(separator=given.get("separator", ":"))
    for server, known in given["servers"].items():
        inventory.put_server(server, ParseDict(known["facts"], ServerFacts()))
        for tool, each in known.get("tools", {}).items():
            facts = ParseDict(each["facts"], ToolFacts())
            inventory.put_tool(server, tool, facts, refusal=each.get("refusal", ""))
    return inventory


def replayed(client: BlockingClient, vector: Vector, inventories: Mapping[str, Vector]) -> dict[str, Any]:
    """Return the result of a call, as JSON, or where it goes."""
    scope = vector.get("scope", ALL_SERVERS)
    found = client.decide(inventory_of(inventories[vector["inventory"]]), None, scope, vector["call"])
    return {"result": result_json(found.rejection)} if found.rejection else {"called": [found.server, found.tool]}


def record() -> None:
    """Write the results of the client as it is into the file."""
    content = load()
    with TemporaryDirectory() as directory:
        bundle = Path(directory) / "shipped.bundle"
        bundle.write_bytes(bundle_of(SHIPPED))
        with BlockingClient.local(bundle) as client:
            for vector in content["vectors"]:
                for key in ("result", "called"):
                    vector.pop(key, None)
                vector.update(replayed(client, vector, content["inventories"]))
    PATH.write_text(written(content), encoding="utf-8")


if __name__ == "__main__":
    record()
