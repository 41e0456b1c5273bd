"""Facts that the policy declares, from the gateway's config to what an agent reads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from callability.gateway.config.config import load_config
from callability.gateway.inventory import agent_message
from support.commands import callability
from support.declared_rules import RULES, declaring_policy
from support.gateway_in_process import http_gateway
from support.gateways import shelf, write_config

DROP = {"name": "drop", "description": "Drops a table.", "inputSchema": {"type": "object"}}
NO_TEAM = """\
  - id: no-team
    when: {agent.label.team: none}
    status: disabled_by_config
    action: Ask to {edit_labels}.
"""
FOR_ANYBODY = RULES.replace(NO_TEAM, "").removeprefix("labels:\n  agent: {team: [research, ops]}\n")
"""The rules without those about agents."""


def _said(tmp_path: Path, **keys: Any) -> str:
    """Return what an agent reads that calls the tool of a server with these keys."""
    (tmp_path / "policy").mkdir()
    declaring_policy(tmp_path / "policy", FOR_ANYBODY)
    config = write_config(tmp_path, {"db": shelf(tmp_path, "db", DROP, **keys)})

    async def call(url: str) -> str:
        async with Client(url) as client:
            await client.call_tool("retrieve_tools", {"query": "drop"})
            result = await client.call_tool("call_tool", {"name": "db:drop"})
            return str(getattr(result.content[0], "text", ""))

    with http_gateway(config, "--policy", str(tmp_path / "policy")) as url:
        return asyncio.run(call(url))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "Could not be read: the fact `proxy.quota`."),
        ({}, "Retrying does not help."),
        ({"facts": {"proxy.quota": "out"}}, "Ask to raise the quota. Then the user must accept the license. "),
        ({"facts": {"proxy.quota": "low"}}, "Ask the user to accept the license. The user can lift this."),
    ],
)
def test_an_agent_reads_which_fact_locks_a_tool_and_who_changes_it(
    keys: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """A fact that the config leaves out is unknown, and stays so until a person edits the config."""
    assert said in _said(tmp_path, **keys)


def test_a_tool_with_the_facts_that_the_policy_wants_is_called(tmp_path: Path) -> None:
    """A truth value is written as one in the config."""
    keys = {"facts": {"proxy.quota": "ok"}, "tool_facts": {"drop": {"proxy.license": True}}}
    assert not _said(tmp_path, **keys).startswith("Not called")


def test_what_the_policy_does_not_declare_is_a_warning_with_file_and_line(tmp_path: Path) -> None:
    """Of servers, tools and agents; an error with `strict_labels`."""
    (tmp_path / "policy").mkdir()
    declaring_policy(tmp_path / "policy")
    config = tmp_path / "gateway.yaml"
    text = """\
mcpServers:
  db:
    command: python3
    facts: {proxy.qota: ok}
    tool_facts: {drop: {proxy.license: maybe}}
agents:
  ops:
    servers: [db]
    token_sha256: "%s"
    labels: {team: op}
    facts: {proxy.quota: ok}
""" % ("0" * 64)
    config.write_text(text)
    command = ("config", "check", "--config", str(config), "--policy", str(tmp_path / "policy"))
    done = callability(*command)
    assert done.returncode == 0
    for found in (
        "4:13: warning: fact `proxy.qota` of server `db` is not declared by the policy, so no rule reads it"
        " (did you mean `proxy.quota`?)",
        "5:40: warning: fact `proxy.license` of tool `drop` of server `db` is `maybe`, a value that the policy does not"
        " declare",
        "10:20: warning: label `team` of agent `ops` is `op`, a value that the policy does not declare",
        "11:13: warning: fact `proxy.quota` of agent `ops` is not declared by the policy, so no rule reads it",
    ):
        assert f"{config}:{found}" in done.stdout
    config.write_text(f"strict_labels: true\n{text}")
    assert callability(*command).returncode == 1


@pytest.mark.parametrize("written", ["00", "010", "0x10", "0o17", "1_000", "+5", "-0"])
def test_a_whole_number_is_sent_as_the_config_writes_it(written: str, tmp_path: Path) -> None:
    """Of servers, tools and agents; a key that means a number stays one, even of a server that is named `facts`."""
    config = tmp_path / "gateway.yaml"
    config.write_text(
        f"mcpServers:\n  facts: {{command: x, facts: {{x.y: {written}}}, tool_facts: {{t: {{x.y: {written}}}}},"
        " deadlines: {call_seconds: 0x10}}\n"
        f"agents: {{ops: {{servers: [facts], facts: {{x.y: {written}}}}}}}\n"
    )
    loaded = load_config(config)
    server = loaded.servers["facts"]
    assert (server.facts["x.y"], server.tool_facts["t"]["x.y"]) == (written, written)
    assert dict(agent_message("ops", loaded.agents["ops"]).declared_facts.values) == {"x.y": written}
    assert server.deadlines is not None
    assert server.deadlines.call_seconds == 16


def test_an_agent_is_sent_with_its_labels_and_facts(tmp_path: Path) -> None:
    """An agent without an entry has no labels, which is known."""
    config = tmp_path / "gateway.yaml"
    config.write_text("mcpServers: {}\nagents: {ops: {servers: [], labels: {team: ops}, facts: {x.y: 1, x.z: true}}}\n")
    loaded = load_config(config)
    sent = agent_message("ops", loaded.agents["ops"])
    assert dict(sent.labels.values) == {"team": "ops"}
    assert dict(sent.declared_facts.values) == {"x.y": "1", "x.z": "true"}
    unnamed = agent_message("", None)
    assert unnamed.HasField("labels")
    assert not unnamed.labels.values
