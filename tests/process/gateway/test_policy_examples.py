"""The example policies: accepted, tested, and effective over MCP as they say."""

from __future__ import annotations

import asyncio
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it comes without types

from callability.files import document
from callability.files.shipped_policy import examples
from support.checkout import DOCS, POLICY
from support.commands import callability
from support.gateway_in_process import client_of, http_gateway
from support.gateways import agents_of, call, client_with, retrieve, shelf, text_of, token_of, write_config

EXAMPLES = POLICY / "examples"
ENGINE = "both" if find_spec("durable") else "auto"


def _exported(example: str, directory: Path) -> Path:
    target = directory / example
    done = callability("policy", "export", "--example", example, str(target))
    assert done.returncode == 0, done.stderr
    return target


def test_there_are_five_and_each_is_on_the_page() -> None:
    """And every named example exists."""
    page = (POLICY.parent / "docs/policy.md").read_text()
    assert len(examples()) == 5
    for example in examples():
        assert f"[`{example}`](../policy/examples/{example}/callability.yaml)" in page
    done = callability("policy", "export", "--example", "freeze", "nowhere")
    assert (done.returncode, "`change-freeze`" in done.stderr) == (2, True)


@pytest.mark.parametrize("example", examples())
def test_an_example_is_sound_tested_and_what_editors_take(example: str, tmp_path: Path) -> None:
    """Strictly, with every rule and every part of a condition reached by a test."""
    directory = _exported(example, tmp_path)
    assert callability("check", "--strict", "--engine", ENGINE, str(directory)).returncode == 0
    done = callability("test", "--coverage", "100", str(directory))
    assert done.returncode == 0, done.stdout
    for file in ("callability", "callability_test"):
        for path in (directory / f"{file}.yaml", EXAMPLES / example / f"{file}.yaml"):
            header, _, _ = path.read_text().partition("\n")
            schema = json.loads((path.parent / header.partition("$schema=")[2]).read_text())
            content = document.plain(document.parse(path.read_bytes(), file))
            Draft202012Validator(schema).validate(content)


@pytest.mark.anyio
async def test_a_freeze_locks_what_may_destroy_something_in_production(tmp_path: Path) -> None:
    """Over MCP, with the words of the rule; harmless tools can be called, and so can all tools elsewhere."""
    tools = (
        {"name": "drop_table", "description": "Drops a table."},
        {"name": "list_tables", "description": "Lists the tables.", "annotations": {"destructiveHint": False}},
        {"name": "read_table", "description": "Reads a table.", "annotations": {"readOnlyHint": True}},
    )
    servers = {
        "main": shelf(tmp_path, "main", *tools, labels={"environment": "production"}),
        "copy": shelf(tmp_path, "copy", *tools, labels={"environment": "staging"}),
        "typo": shelf(tmp_path, "typo", *tools, labels={"environment": "prod"}),
    }
    policy = _exported("change-freeze", tmp_path)
    async with client_of(write_config(tmp_path, servers), "--policy", str(policy)) as client:
        found = await retrieve(client, "table", include_disabled=True)
        assert {each["name"] for each in found["tools"]} == {
            "main:list_tables",
            "main:read_table",
            "copy:drop_table",
            "copy:list_tables",
            "copy:read_table",
            "typo:list_tables",
            "typo:read_table",
        }
        assert {each["name"]: each["status"] for each in found["disabled"]} == {
            "main:drop_table": "disabled_by_config",
            "typo:drop_table": "disabled_unknown",
        }
        assert found["remediation"]["disabled_by_config"].startswith("Changes are frozen on production servers")
        rejected = await call(client, "main:drop_table")
        assert rejected.is_error
        assert "to end the freeze" in text_of(rejected)
        assert text_of(await call(client, "copy:drop_table")) == "drop_table was called"
        assert text_of(await call(client, "main:read_table")) == "read_table was called"


@pytest.mark.anyio
async def test_an_agent_that_is_not_listed_is_rejected_with_the_reason_and_a_listed_one_calls(tmp_path: Path) -> None:
    """Each agent by its own token, on the same gateway; other servers are open to both."""
    tool = {"name": "send_invoice", "description": "Sends an invoice."}
    servers = {name: shelf(tmp_path, name, tool) for name in ("billing-eu", "mail")}
    names = ("finance-reports", "helper")
    config = write_config(tmp_path, servers, agents=agents_of(dict.fromkeys(names, servers)))
    policy = _exported("agents-allowed", tmp_path)
    with http_gateway(config, "--policy", str(policy)) as url:
        reply = {}
        for name in (*names, *names):
            async with client_with(url, token_of(name)) as client:
                found = await retrieve(client, "invoice", include_disabled=True)
                assert not (await call(client, "mail:send_invoice")).is_error
                answer = await call(client, "billing-eu:send_invoice")
                reply[name] = ([each["name"] for each in found.get("disabled", [])], answer.is_error, text_of(answer))
    assert reply["finance-reports"] == ([], False, "send_invoice was called")
    assert reply["helper"][:2] == (["billing-eu:send_invoice"], True)
    assert "Only some agents may use" in reply["helper"][2]


def test_environments_have_more_combinations_than_could_be_kept_one_by_one(tmp_path: Path) -> None:
    """As the page says: each label multiplies them, and the decision diagram stays small."""
    done = callability("check", str(_exported("environments", tmp_path)))
    [count] = re.findall(r"^It has ([0-9,]+) combinations", (DOCS / "policy.md").read_text(), re.MULTILINE)
    assert f"\n  combinations  {count}, in " in done.stdout
    assert int(count.replace(",", "")) > 250_000


@pytest.mark.anyio
async def test_production_is_for_one_agent_and_trials_and_freezes_are_for_nobody(tmp_path: Path) -> None:
    """Each agent by its own token; tools that only read can be called on every server."""
    tools = (
        {"name": "drop_table", "description": "Drops a table."},
        {"name": "list_tables", "description": "Lists the tables.", "annotations": {"destructiveHint": False}},
        {"name": "read_table", "description": "Reads a table.", "annotations": {"readOnlyHint": True}},
    )
    labels = {
        "main": {"environment": "production"},
        "copy": {"environment": "staging", "stage": "adopted"},
        "new": {"environment": "test", "stage": "trial"},
        "held": {"environment": "production", "changes": "frozen"},
    }
    servers = {name: shelf(tmp_path, name, *tools, labels=each) for name, each in labels.items()}
    config = write_config(tmp_path, servers, agents=agents_of(dict.fromkeys(("release-bot", "helper"), servers)))
    locked = {}
    with http_gateway(config, "--policy", str(_exported("environments", tmp_path))) as url:
        for name in ("release-bot", "helper"):
            async with client_with(url, token_of(name)) as client:
                found = await retrieve(client, "table", include_disabled=True)
                locked[name] = {each["name"]: each["status"] for each in found["disabled"]}
                rejected = await call(client, "held:list_tables")
                assert rejected.is_error
                assert "to end the freeze" in text_of(rejected)
                answer = await call(client, "main:drop_table")
                assert answer.is_error == (name == "helper")
    read_only = {f"{server}:{tool}" for server in ("new", "held") for tool in ("drop_table", "list_tables")}
    assert locked["release-bot"] == dict.fromkeys(read_only, "disabled_by_config")
    assert locked["helper"] == dict.fromkeys({*read_only, "main:drop_table"}, "disabled_by_config")


@pytest.mark.anyio
@pytest.mark.parametrize("tool", ["write_table", "a b"])
async def test_a_rejection_names_the_label_and_the_values_that_lift_it(tool: str, tmp_path: Path) -> None:
    """Those of the rule that decides, as the config writes them; and the named change lifts the lock."""
    config = write_config(tmp_path, {"new": shelf(tmp_path, "new", {"name": tool}, labels={"stage": "trial"})})
    async with client_of(config, "--policy", str(_exported("trial-server", tmp_path))) as client:
        text = text_of(await call(client, f"new:{tool}"))
        assert f"the operator must set `labels.stage` to `adopted` or remove it in `{config}` to allow others." in text
        edited = json.loads(config.read_text())
        edited["mcpServers"]["new"]["labels"]["stage"] = "adopted"
        config.write_text(json.dumps(edited))
        async with asyncio.timeout(120):
            while (result := await call(client, f"new:{tool}")).is_error:  # noqa: ASYNC110 - only a call shows it
                await asyncio.sleep(0.1)
        assert text_of(result) == f"{tool} was called"


@pytest.mark.anyio
async def test_what_is_left_of_a_quota_is_for_critical_agents(tmp_path: Path) -> None:
    """A declared fact of the server and a label of the agent, both from the config; each agent by its own token."""
    quotas = {"plenty": "ok", "scarce": "low", "empty": "exhausted", "unsaid": None}
    servers = {
        name: shelf(tmp_path, name, {"name": "find"}, facts={"proxy.quota": quota} if quota else {})
        for name, quota in quotas.items()
    }
    agents = agents_of(dict.fromkeys(("on-call", "nightly"), servers))
    agents["on-call"]["labels"], agents["nightly"]["labels"] = {"tier": "critical"}, {"tier": "batch"}
    config = write_config(tmp_path, servers, agents=agents)
    locked, rejected = {}, {}
    with http_gateway(config, "--policy", str(_exported("quotas", tmp_path))) as url:
        for name in agents:
            async with client_with(url, token_of(name)) as client:
                found = await retrieve(client, "find", include_disabled=True)
                locked[name] = {each["name"]: each["status"] for each in found["disabled"]}
                answer = await call(client, "scarce:find")
                rejected[name] = (answer.is_error, text_of(answer))
    always = {"empty:find": "disabled_by_config", "unsaid:find": "disabled_unknown"}
    assert locked == {"on-call": always, "nightly": always | {"scarce:find": "disabled_by_config"}}
    assert rejected["on-call"] == (False, "find was called")
    assert rejected["nightly"][0]
    assert "The quota of the server is low" in rejected["nightly"][1]
