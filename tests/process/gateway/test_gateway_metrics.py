"""What Prometheus reads from a gateway about its calls."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import anyio
import httpx2

from support.edits import edit
from support.gateway_in_process import http_gateway
from support.gateway_requests import initialized
from support.gateways import agents_of, call, client_with, retrieve, shelf, token_of, write_config
from support.waiting import eventually

READ = {"name": "read_file", "description": "Reads a file."}


def _values(log: Path) -> dict[str, float]:
    url = re.search(r"metrics are on (\S+)", log.read_text())
    assert url is not None
    with urllib.request.urlopen(url[1], timeout=120) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_calls_rejections_and_sessions_are_counted(tmp_path: Path) -> None:
    """Names of tools of servers are in none of them."""
    files = shelf(tmp_path, "files", READ, {"name": "delete_file", "description": "Deletes."})
    servers = {"files": files | {"disabled_tools": ["delete_file"]}}
    catalog = {"clock": {"command": "true"}}
    config = write_config(tmp_path, servers, catalog=catalog, agents=agents_of({"clerk": ["files", "clock"]}))

    async def ask(url: str) -> dict[str, float]:
        async with client_with(url, token_of("clerk")) as client:
            await retrieve(client, "file")
            await retrieve(client, "file", include_disabled=True)
            assert not (await call(client, "files:read_file")).is_error
            assert (await call(client, "files:delete_file")).is_error
            assert (await call(client, "files:no_such_tool")).is_error
            assert (await client.call_tool("enable_server", {"id": "no-such-server"})).structured_content
        headers = {"Authorization": f"Bearer {token_of('clerk')}"}
        async with httpx2.AsyncClient(timeout=120) as raw:
            assert (await initialized(raw, url, **headers)).status_code == 200
            return await anyio.to_thread.run_sync(_values, tmp_path / "gateway.log")

    with http_gateway(config, "--metrics-address", "127.0.0.1:0") as url:
        found = anyio.run(ask, url)
    assert found['callability_agent_calls_total{outcome="answered",tool="retrieve_tools"}'] == 2
    assert found['callability_agent_calls_total{outcome="answered",tool="call_tool"}'] == 1
    assert found['callability_agent_calls_total{outcome="rejected",tool="call_tool"}'] == 1
    assert found['callability_agent_calls_total{outcome="error",tool="call_tool"}'] == 1
    assert found['callability_rejections_total{status="disabled_by_config"}'] == 1
    assert found['callability_upstream_calls_total{outcome="answered"}'] == 1
    assert found["callability_upstream_call_seconds_count"] == 1
    assert found["callability_include_disabled_total"] == 1
    assert found['callability_sessions{agent="clerk"}'] == 1
    assert found['callability_agent_calls_total{outcome="error",tool="enable_server"}'] == 1
    assert 'callability_agent_calls_total{outcome="rejected",tool="enable_server"}' not in found
    assert not [name for name in found if "read_file" in name or "delete_file" in name]


def test_a_server_that_only_a_person_brings_back_is_named(tmp_path: Path) -> None:
    """As long as it does not load; one that loads, or is switched off, is not in the metric."""
    servers = {
        "files": shelf(tmp_path, "files", READ),
        "off": {"command": "/nowhere/to/be/found", "enabled": False},
        "down": {"command": "/nowhere/to/be/found"},
    }
    config = write_config(tmp_path, servers)

    def failed() -> list[str]:
        return [name for name in _values(tmp_path / "gateway.log") if name.startswith("callability_failed_servers")]

    with http_gateway(config, "--metrics-address", "127.0.0.1:0"):
        eventually(lambda: failed() == ['callability_failed_servers{server="down",status="permanent"}'])
        edit(config, servers={"down": shelf(tmp_path, "down", READ)})
        eventually(lambda: failed() == [])
