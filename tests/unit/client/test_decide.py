"""The call of a tool by its qualified name, decided and worded in one step by clients of both kinds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callability.adapter import ALL_SERVERS, UnknownTool, unavailable, unknown_tool
from callability.client import NO_RECORD, BlockingClient, Client, Inventory, tool_facts
from callability.v1.facts_pb2 import Labels, ServerFacts
from support import call_vectors
from support.bundles import SHIPPED, bundle_of

CONTENT = call_vectors.load()
VECTORS = {vector["name"]: vector for vector in CONTENT["vectors"]}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped policy in a file."""
    path = tmp_path_factory.mktemp("bundle") / "shipped.bundle"
    path.write_bytes(bundle_of(SHIPPED))
    return path


@pytest.fixture(scope="module")
def client(bundle: Path) -> Iterator[BlockingClient]:
    """A client that decides in this process."""
    with BlockingClient.local(bundle) as opened:
        yield opened


@pytest.mark.parametrize("name", VECTORS)
def test_a_call_has_the_result_of_its_vector(name: str, client: BlockingClient) -> None:
    """Go replays the same vectors."""
    vector = VECTORS[name]
    wanted = {key: vector[key] for key in ("result", "called") if key in vector}
    assert call_vectors.replayed(client, vector, CONTENT["inventories"]) == wanted


def test_the_client_for_asyncio_decides_as_the_one_for_threads(bundle: Path, client: BlockingClient) -> None:
    """It is the source of the other one."""

    async def every() -> list[Any]:
        async with Client.local(bundle) as opened:
            inventories = {name: call_vectors.inventory_of(each) for name, each in CONTENT["inventories"].items()}
            return [
                await opened.decide(inventories[each["inventory"]], None, each.get("scope", ALL_SERVERS), each["call"])
                for each in VECTORS.values()
            ]

    for vector, decided in zip(VECTORS.values(), asyncio.run(every()), strict=True):
        inventory = call_vectors.inventory_of(CONTENT["inventories"][vector["inventory"]])
        assert decided == client.decide(inventory, None, vector.get("scope", ALL_SERVERS), vector["call"])


def test_the_proxys_own_phrases_and_tool_are_named(client: BlockingClient) -> None:
    """As in a rejection that the proxy words itself."""
    inventory = call_vectors.inventory_of(CONTENT["inventories"]["every"])
    phrases = {"enable_server": "run `proxy on {server}`"}
    found = client.decide(inventory, None, ALL_SERVERS, "off:echo", phrases=phrases, discovery_tool="find")
    assert found.rejection is not None
    text = found.rejection["content"][0]["text"]
    assert "Ask the user to run `proxy on off`." in text
    assert text.endswith("See `find` with `include_disabled: true`.")


@pytest.mark.parametrize("name", ["git:status", "git:statu", "off:echo"])
def test_without_a_policy_nothing_is_called_and_no_tool_named(name: str, tmp_path: Path) -> None:
    """A.7: the result is the same, whatever the name."""
    inventory = call_vectors.inventory_of(CONTENT["inventories"]["every"])
    with BlockingClient.local(tmp_path / "none.bundle") as client:
        found = client.decide(inventory, None, ALL_SERVERS, name)
    assert found.rejection is not None
    said = found.rejection["content"][0]["text"]
    assert (found.response, said) == (None, unavailable(said[len("Not done: ") :].split(". ")[0])["content"][0]["text"])


def test_a_scope_that_is_one_name_is_an_error(client: BlockingClient) -> None:
    """Each of its characters would be a server."""
    inventory = call_vectors.inventory_of(CONTENT["inventories"]["every"])
    with pytest.raises(TypeError, match=r"^the scope is one name, but must be the names of servers, or `ALL_SERVERS`$"):
        client.decide(inventory, None, "git", "git:status")


def test_a_tool_with_half_a_surrogate_pair_in_its_name_is_unknown(client: BlockingClient) -> None:
    """JSON that a server sends may hold one. The other tools of its server are decided."""
    inventory = Inventory()
    inventory.put_server("git", ServerFacts(enabled=True, quarantined=False, labels=Labels()))
    listed = json.loads('[{"name": "log"}, {"name": "\\ud800"}]')
    inventory.replace_listed("git", listed, lambda tool: tool_facts(tool, config_denied=False, approval=NO_RECORD))
    assert client.decide(inventory, None, ALL_SERVERS, "git:log").rejection is None
    decided = client.decide(inventory, None, ALL_SERVERS, "git:\ud800")
    assert decided.rejection == unknown_tool("git:\ud800", ["git:log"])
    assert client.check(inventory, "git", "\ud800") == UnknownTool("git:\ud800")


@pytest.mark.parametrize("listed", [{"name": ""}, {}, {"name": None}, {"name": "x" * 600}, {"name": "é" * 300}])
def test_a_tool_that_no_request_can_hold_is_held_back_for_good(client: BlockingClient, listed: dict[str, Any]) -> None:
    """A server that lists it costs no other tool; the call gives the reason that a list gives, and needs no retry."""
    inventory = Inventory()
    inventory.put_server("git", ServerFacts(enabled=True, quarantined=False, labels=Labels()))
    tools = [{"name": "log"}, listed]
    inventory.replace_listed("git", tools, lambda tool: tool_facts(tool, config_denied=False, approval=NO_RECORD))
    judgement = client.judge(inventory, visible=ALL_SERVERS)
    name = listed.get("name") or ""
    assert {tool.tool: str(tool.status) for tool in judgement.tools} == {"log": "callable", name: "disabled_unknown"}
    assert client.decide(inventory, None, ALL_SERVERS, "git:log").rejection is None
    _assert_is_held_back(client, inventory, f"git:{name}")


@pytest.mark.parametrize(
    "labels",
    [{f"key-{number}": "value" for number in range(65)}, {"k" * 129: "value"}, {"": "value"}, {"key": "v" * 513}],
    ids=["many", "long key", "empty key", "long value"],
)
def test_a_tool_whose_facts_a_service_refuses_is_held_back_for_good(
    client: BlockingClient, labels: dict[str, str]
) -> None:
    """A client in this process has the limits of the service, in a judgement as in a call; Go answers alike."""
    inventory = Inventory()
    inventory.put_server("git", ServerFacts(enabled=True, quarantined=False, labels=Labels()))
    inventory.put_tool("git", "log", tool_facts({}, config_denied=False, approval=NO_RECORD, labels=labels))
    judgement = client.judge(inventory, visible=ALL_SERVERS)
    assert [str(tool.status) for tool in judgement.tools] == ["disabled_unknown"]
    _assert_is_held_back(client, inventory, "git:log")


def _assert_is_held_back(client: BlockingClient, inventory: Inventory, name: str) -> None:
    rejected = client.decide(inventory, None, ALL_SERVERS, name).rejection
    assert rejected is not None
    content = rejected["structuredContent"]
    assert (content["status"], content["lifted_by"], content["retry"]) == ("disabled_unknown", "undetermined", "never")
    assert "Retrying does not help." in rejected["content"][0]["text"]
