"""A tool that can only be called as a task: the gateway does not support tasks, and says so everywhere."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from callability.gateway.inventory import NO_TASKS
from support.commands import callability
from support.gateway_in_process import client_of
from support.gateways import bad, call, connected, retrieve, shelf, text_of, write_config

TASK = {"name": "run_report", "description": "Runs a report.", "execution": {"taskSupport": "required"}}
OTHERS = (
    {"name": "read_report", "description": "Reads a report."},
    {"name": "list_reports", "description": "Lists each report.", "execution": {"taskSupport": "forbidden"}},
    {"name": "copy_report", "description": "Copies a report.", "execution": {"taskSupport": "optional"}},
    {"name": "move_report", "description": "Moves a report.", "execution": {}},
)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_tool_that_must_be_called_as_a_task_is_refused_by_the_gateway(transport: str, tmp_path: Path) -> None:
    """In discovery, in the rejection and in the counts, with its own reason; other tools are called."""
    config = write_config(tmp_path, {"reports": shelf(tmp_path, "reports", TASK, *OTHERS)})

    async def story() -> None:
        async with connected(transport, config) as client:
            found = await retrieve(client, "report", include_disabled=True)
            assert {tool["name"] for tool in found["tools"]} == {f"reports:{tool['name']}" for tool in OTHERS}
            assert found["disabled"] == [
                {
                    "name": "reports:run_report",
                    "server": "reports",
                    "description": "Runs a report.",
                    "status": "disabled_unknown",
                }
            ]
            assert found["remediation"] == {"disabled_unknown": NO_TASKS}
            rejected = await call(client, "reports:run_report")
            assert rejected.is_error
            assert rejected.structured_content == {
                "status": "disabled_unknown",
                "server": "reports",
                "tool": "run_report",
                "lifted_by": "undetermined",
                "retry": "never",
            }
            assert text_of(rejected).startswith(f"Not called: disabled_unknown. {NO_TASKS} Who can lift this is")
            assert "determined" not in text_of(rejected)
            assert "later" not in text_of(rejected)
            servers = (await client.call_tool("upstream_servers", {})).structured_content or {}
            assert servers["servers"][0]["tools"] == {"callable": 4, "disabled_unknown": 1}
            for tool in OTHERS:
                assert not (await call(client, f"reports:{tool['name']}")).is_error

    asyncio.run(story())


def test_a_tool_of_the_older_protocol_revision_is_refused_as_well(tmp_path: Path) -> None:
    """Tasks of a tool belong to MCP 2025-11-25, which may be the only revision of a server."""
    config = write_config(tmp_path, {"old": bad("lists a task")})

    async def story() -> None:
        async with client_of(config) as client:
            assert text_of(await call(client, "old:pid")).startswith(f"Not called: disabled_unknown. {NO_TASKS}")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ({"disabled_tools": ["run_report"]}, "disabled_by_config"),
        ({"trust": "manual"}, "pending_approval"),
        ({"quarantined": True}, "server_quarantined"),
    ],
)
def test_a_lock_above_is_the_answer_for_such_a_tool(keys: dict[str, Any], status: str, tmp_path: Path) -> None:
    """A person can lift that lock, and the gateway's reason is not given instead."""
    config = write_config(tmp_path, {"reports": shelf(tmp_path, "reports", TASK, **keys)})

    async def story() -> None:
        async with client_of(config) as client:
            rejected = await call(client, "reports:run_report")
            assert (rejected.structured_content or {})["status"] == status
            assert "task" not in text_of(rejected)
            found = await retrieve(client, "report", include_disabled=True)
            assert list(found["remediation"]) == [status]

    asyncio.run(story())


def test_the_inventory_has_the_refusal(tmp_path: Path) -> None:
    """The effect of a policy change is computed from the same facts that the gateway sends."""
    config = write_config(tmp_path, {"reports": shelf(tmp_path, "reports", TASK, OTHERS[0])})
    done = callability("inventory", "--config", str(config))
    [server] = json.loads(done.stdout)["servers"]
    assert [tool["facts"].get("callerRefuses", False) for tool in server["tools"]] == [True, False]


def test_the_list_of_approvals_does_not_call_such_a_tool_callable(tmp_path: Path) -> None:
    """Others that nobody reviewed are, under `trust: auto`."""
    config = write_config(tmp_path, {"reports": shelf(tmp_path, "reports", TASK, OTHERS[0])})
    [read, run] = sorted(callability("approvals", "list", "--config", str(config)).stdout.splitlines()[1:])
    assert "not reviewed, callable under `trust: auto`" in read
    assert "run_report" in run
    assert "callable" not in run
