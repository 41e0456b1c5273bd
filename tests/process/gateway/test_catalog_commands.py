"""Commands for the tools of catalog servers, and what agents read about their locks."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from mcp import Client

from callability.gateway.config.config import load_config
from callability.gateway.runtime.runtime import GatewayOptions, open_gateway
from callability.gateway.serving.mcp_server import mcp_server
from support.commands import callability
from support.gateways import call, retrieve, shelf, text_of, write_config
from support.local_policy import local_policy

WIPE = {"name": "wipe", "description": "Wipes the disk.", "inputSchema": {"type": "object"}}


def _config(directory: Path, **catalog: Any) -> Path:
    return write_config(directory, {}, catalog=catalog, approvals="approvals.yaml")


def test_a_tool_of_a_catalog_server_is_shown_and_approved_as_any_other(tmp_path: Path) -> None:
    """The command connects the server, with its variables filled in."""
    config = _config(tmp_path, disk=shelf(tmp_path, "disk", WIPE, env={"DISK_KEY": "${DISK_KEY}"}))
    (tmp_path / "approvals.yaml").write_text("disk: {wipe: {status: pending}}\n")
    environment = {**os.environ, "DISK_KEY": "key-of-the-disk"}
    shown = callability("approvals", "show", "disk", "--config", str(config), env=environment)
    assert shown.returncode == 0, shown.stderr
    assert "Wipes the disk." in shown.stdout
    done = callability("approvals", "approve", "disk", "wipe", "--yes", "--config", str(config), env=environment)
    assert done.returncode == 0, done.stderr
    assert "status: approved" in (tmp_path / "approvals.yaml").read_text()
    assert "key-of-the-disk" not in shown.stdout + shown.stderr + done.stdout + done.stderr


def test_what_a_catalog_server_lacks_is_named_before_it_is_connected(tmp_path: Path) -> None:
    """A missing variable by its name."""
    config = _config(
        tmp_path,
        disk=shelf(tmp_path, "disk", WIPE, env={"DISK_KEY": "${NOT_SET_ANYWHERE}"}),
    )
    (tmp_path / "approvals.yaml").write_text("{}\n")
    unset = callability("approvals", "show", "disk", "--config", str(config))
    assert (unset.returncode, unset.stdout) == (1, "")
    assert "server `disk` needs what is not set: `NOT_SET_ANYWHERE`, so that its tools cannot be seen" in unset.stderr


def test_a_catalog_server_is_connected_by_a_list_only_where_it_is_named(tmp_path: Path) -> None:
    """Its records are listed; its other tools are shown if the command names the server."""
    config = _config(tmp_path, disk=shelf(tmp_path, "disk", WIPE, {**WIPE, "name": "fill"}))
    (tmp_path / "approvals.yaml").write_text("disk: {wipe: {disabled: true}}\n")

    def listed(*server: str) -> dict[str, bool | None]:
        done = callability("approvals", "list", *server, "--json", "--config", str(config))
        assert done.returncode == 0, done.stderr
        return {tool["tool"]: tool["listed"] for tool in json.loads(done.stdout)["tools"]}

    assert listed() == {"wipe": None}
    assert listed("disk") == {"wipe": True, "fill": True}


def test_the_switches_of_people_are_not_for_the_catalog(tmp_path: Path) -> None:
    """An agent enables such a server, and the config does not record that."""
    config = _config(tmp_path, disk=shelf(tmp_path, "disk", WIPE))
    (tmp_path / "approvals.yaml").write_text("{}\n")
    done = callability("servers", "disable", "disk", "--config", str(config))
    assert done.returncode == 2
    assert "the config has no server `disk`" in done.stderr


def test_a_lock_of_the_operator_on_a_catalog_server_names_where_its_entry_stands(tmp_path: Path) -> None:
    """Discovery names both places; an agent without catalog servers reads about no catalog."""
    locked = shelf(tmp_path, "disk", WIPE, disabled_tools=["wipe"])
    other = shelf(tmp_path, "shed", {**WIPE, "name": "paint"}, disabled_tools=["paint"])
    config = write_config(tmp_path, {"shed": other}, catalog={"disk": locked}, agents={"clerk": {"servers": ["shed"]}})

    async def story() -> None:
        async with open_gateway(GatewayOptions(load_config(config), None, local_policy())) as gateways:
            async with Client(mcp_server(gateways)) as client:
                enabled = text_of(await client.call_tool("enable_server", {"id": "disk"}))
                assert enabled.startswith("Connected: enabled.")
                assert "disabled_by_config" in enabled
                rejected = text_of(await call(client, "disk:wipe"))
                assert f"edit `enabled_tools` or `disabled_tools` in `{config}`" in rejected
                found = await retrieve(client, "wipe paint", include_disabled=True)
                assert (
                    f"edit `enabled_tools` or `disabled_tools` in `{config}`"
                    in found["remediation"]["disabled_by_config"]
                )
            async with Client(mcp_server(gateways, "clerk")) as client:
                found = await retrieve(client, "wipe paint", include_disabled=True)
                assert "catalog" not in json.dumps(found)

    asyncio.run(story())
