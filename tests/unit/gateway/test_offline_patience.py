"""How long commands and a gateway wait for servers that may have to be installed first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcp_types import Tool

from callability.gateway.config.config import load_config
from callability.gateway.offline import open_seconds
from callability.gateway.upstream.listing import upstream_tool
from callability.gateway.upstream.target import target_of
from callability.gateway.upstream.upstream import FIRST_START_SECONDS, Upstream

FOR_ALL, ITS_OWN = {"deadlines": {"open_seconds": 10}}, {"deadlines": {"open_seconds": 2.5}}
STDIO = {"command": "git-server"}
OTHER = {"deadlines": {"call_seconds": 5}}


@pytest.mark.parametrize(
    ("whole", "server", "seconds"),
    [
        ({}, {}, FIRST_START_SECONDS),
        (OTHER, OTHER, FIRST_START_SECONDS),
        (FOR_ALL, {}, 10),
        (FOR_ALL, ITS_OWN, 2.5),
        ({}, ITS_OWN, 2.5),
    ],
)
def test_a_server_has_a_minute_unless_the_config_sets_a_time(
    whole: dict[str, object], server: dict[str, object], seconds: float, tmp_path: Path
) -> None:
    """Its first start may install it; a time that is written down holds, even if it is the gateway's default."""
    file = tmp_path / "gateway.json"
    file.write_text(json.dumps({"mcpServers": {"git": {"command": "git-server"} | server}} | whole))
    config = load_config(file)
    assert open_seconds(config, config.servers["git"]) == seconds


@pytest.mark.parametrize(
    ("whole", "server", "lists", "seconds"),
    [
        ({}, STDIO, False, FIRST_START_SECONDS),
        ({}, STDIO, True, 10),
        (FOR_ALL, STDIO, False, 10),
        ({}, STDIO | ITS_OWN, False, 2.5),
        ({}, {"url": "http://127.0.0.1:1/"}, False, 10),
    ],
)
def test_a_process_under_a_gateway_has_a_minute_until_it_has_listed_its_tools(
    whole: dict[str, object], server: dict[str, object], *, lists: bool, seconds: float, tmp_path: Path
) -> None:
    """A first start that is ended after 10 s begins the installation again each time; a later one installs nothing."""
    file = tmp_path / "gateway.json"
    file.write_text(json.dumps({"mcpServers": {"git": server}} | whole))
    config = load_config(file)
    tools = (upstream_tool(Tool(name="log", input_schema={})),) if lists else ()
    upstream = Upstream("git", target_of(config.servers["git"]), tools=tools)
    upstream.set_deadlines(config.deadlines.of(config.servers["git"]))
    assert upstream.longest_opening == seconds
