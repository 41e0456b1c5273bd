"""What a gateway answers before its servers are connected and its policy is proved, and what it imports for that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from callability.gateway.tools import discovery
from support.gateway_in_process import client_of
from support.gateways import READ, SEND, held_back, retrieve, shelf, write_config
from support.policies import write_policy
from support.running import COMMAND
from support.waiting import becomes, eventually, listed, names

pytestmark = pytest.mark.anyio
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
LATER = {
    *("cryptography.x509", "durable", "grpc", "grpc_health", "jsonschema", "keyring", "opentelemetry.sdk", "rapidfuzz"),
    *("rich", "tantivy", "tenacity", "tomlkit", "uvicorn.protocols", "uvloop"),
}
"""Libraries that no first answer needs."""
OURS_LATER = (
    *("callability.client.client", "callability.client.held_policy", "callability.client.local"),
    *("callability.client.replicas", "callability.compiler", "callability.files.policy_", "callability.gateway.people"),
    *("callability.gateway.serving.http_connections", "callability.gateway.serving.http_re"),
    *("callability.gateway.serving.http_se", "callability.gateway.serving.visitors", "callability.kernel.byte_calls"),
    *("callability.kernel.facts", "callability.kernel.policy", "callability.kernel.rule_set"),
    *("callability.records.shadow", "callability.service", "callability.setup", "callability.studio"),
)
"""What listens, decides and follows edits of a policy: no first answer needs it."""


async def test_agents_read_which_servers_in_their_scope_are_still_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the list of servers, and in the notice of a search without hits; one out of scope is not named."""
    monkeypatch.setattr(discovery, "FIRST_SECONDS", 0.1)
    slow = held_back(tmp_path, shelf(tmp_path, "slow", READ))
    servers = {"slow": slow, "other": slow, "mail": shelf(tmp_path, "mail", SEND)}
    config = write_config(tmp_path, servers, agents={"me": {"servers": ["slow", "mail"]}})
    said = "Still loading: `slow`. Their tools are not known yet. Try again in a moment."
    async with client_of(config, "--agent", "me") as client:
        await becomes(names("send a letter", client), ["mail:send_mail"])
        assert (await retrieve(client, "nothing like it"))["notice"] == said
        assert (await listed(client))["loading"] == {"loading": said}
        (tmp_path / "released").touch()
        await becomes(names("read a file", client), ["slow:read_file"])
        assert "loading" not in await listed(client)


def test_a_first_answer_comes_before_the_policy_is_proved_and_imports_little(tmp_path: Path) -> None:
    """A client waits for it at each start."""
    config = write_config(tmp_path, {})
    command = [sys.executable, "-X", "importtime", *COMMAND[1:], "gateway", "--config", str(config)]
    log = tmp_path / "written"
    # The answer is in the file between the lines about what was imported before and after it.
    with (
        log.open("a") as written,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=written, stderr=written) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        eventually(lambda: '{"jsonrpc"' in log.read_text())
        process.kill()
    before = log.read_text().partition('{"jsonrpc"')[0].splitlines()
    modules = [line.rpartition("|")[2].strip() for line in before if line.startswith("import time:")]
    assert "callability.gateway.serving.mcp_server" in modules
    assert not LATER.intersection(modules)
    assert not [name for name in modules if name.startswith(OURS_LATER)]


def test_a_policy_that_is_refused_ends_the_gateway_with_its_findings(tmp_path: Path) -> None:
    """Even if the client has read a first answer, or closed its end at once."""
    config, policy = write_config(tmp_path, {}), write_policy(tmp_path, "rules: []\n")
    command = [*COMMAND, "gateway", "--config", str(config), "--policy", str(policy)]
    at_once = subprocess.run(command, input="", capture_output=True, text=True, timeout=120, check=False)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(INITIALIZE) + "\n")
        process.stdin.flush()
        process.wait(timeout=120)
        said, errors = process.communicate()
    assert json.loads(said)["id"] == 1
    for code, found in ((at_once.returncode, at_once.stderr), (process.returncode, errors)):
        assert code == 1, found
        assert "callability.yaml:1:" in found
        assert found.endswith("callability: the policy is refused\n")
