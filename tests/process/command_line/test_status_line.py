"""The line below the log of a gateway in a terminal (FR-013)."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
from pathlib import Path

from mcp import Client

from callability.cli.gateway_process import status
from callability.gateway.observability import Metrics
from support.gateways import retrieve, shelf, write_config
from support.running import callability_process, start

LOOKED_UP = {"name": "look_up", "description": "Looks something up."}


def test_a_terminal_shows_the_state_of_servers_and_how_often_locked_tools_were_requested(tmp_path: Path) -> None:
    """On a terminal only, within the 80 columns of a narrow one, and never as a part of the log."""
    config = write_config(tmp_path, {"it": shelf(tmp_path, "it", LOOKED_UP), "off": {"command": "x", "enabled": False}})
    ours, theirs = pty.openpty()
    command = ("gateway", "--config", str(config), "--transport", "http", "--address", "127.0.0.1:0")
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    seen = ""

    async def ask(url: str) -> None:
        async with Client(url) as client:
            await retrieve(client, "look", include_disabled=True)
            await retrieve(client, "look", include_disabled=True)

    with start(*command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True) as process:
        os.close(theirs)
        try:
            assert process.stdout is not None
            asyncio.run(ask(process.stdout.readline().removeprefix("listening on ").strip()))
            wanted = "callability gateway | include_disabled asked for 2 times | 1 of 2"
            while wanted not in seen:
                seen += os.read(ours, 65_536).decode()
        finally:
            process.terminate()
            process.communicate(timeout=120)
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen))
    records = [line for line in lines if re.match(r"\d{4}-\d\d-\d\d ", line)]
    assert any("callability.gateway.upstream: `it` is connected" in line for line in records), seen
    assert not any("include_disabled" in line for line in records)
    os.close(ours)


def test_the_line_has_the_count_before_the_states() -> None:
    """A narrow terminal cuts off the states of the servers."""
    metrics = Metrics()
    metrics.follow(lambda: {"connected": 1, "disabled": 1, "failed": 2})
    metrics.opted_in()
    line = "callability gateway | include_disabled asked for once | 1 of 4 servers connected, 1 disabled, 2 failed"
    assert status(metrics) == line


def test_the_line_shows_how_far_the_first_loads_are() -> None:
    """Until the first state of every server is known; then the usual line."""
    metrics = Metrics()
    loads = {"available": 8, "transient": 2, "loading": 10}
    metrics.follow(lambda: {"connected": 20}, lambda: loads)
    beginning = "callability gateway | include_disabled asked for 0 times | "
    assert status(metrics) == f"{beginning}loading 20 servers: 8 available, 2 transient, 10 to go"
    loads["loading"] = 0
    assert status(metrics) == f"{beginning}20 of 20 servers connected"


def test_without_a_terminal_there_is_no_line(tmp_path: Path) -> None:
    """The log is all of standard error."""
    config = write_config(tmp_path, {})
    ended = callability_process("gateway", "--config", str(config), stdin=subprocess.DEVNULL)
    assert ended.returncode == 0
    assert "include_disabled" not in ended.stderr
    assert ended.stdout == ""
