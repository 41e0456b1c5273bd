"""How long the commands that connect servers wait for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callability.gateway.config.config import load_config
from callability.gateway.offline import FIRST_START_SECONDS, open_seconds

FOR_ALL, ITS_OWN = {"deadlines": {"open_seconds": 10}}, {"deadlines": {"open_seconds": 2.5}}
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
