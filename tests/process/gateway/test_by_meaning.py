"""`callability gateway --by-meaning`, in front of a real server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from support.gateways import over_stdio, retrieve, shelf, write_config
from support.stand_ins import WAYS

FORECAST = {"name": "get_forecast", "description": "Weather for a city over the next days."}
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "tokenizers":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from callability.cli import main
main()
"""


@pytest.mark.skipif(True not in WAYS, reason="the extra `semantic` is not installed")
def test_a_paraphrase_finds_a_tool(tmp_path: Path) -> None:
    """No word of the query is in the tool."""
    config = write_config(tmp_path, {"weather": shelf(tmp_path, "weather", FORECAST)})

    async def found() -> list[str]:
        async with over_stdio(config, "--by-meaning") as client:
            answer = await retrieve(client, "do I need an umbrella, will there be rain or sunshine")
            return [tool["name"] for tool in answer["tools"]]

    assert asyncio.run(found()) == ["weather:get_forecast"]


def test_without_the_extra_the_gateway_says_what_to_install(tmp_path: Path) -> None:
    """And does not start: otherwise an agent finds less than the operator wants."""
    config = write_config(tmp_path, {})
    command = [sys.executable, "-c", WITHOUT, "gateway", "--config", str(config), "--by-meaning"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "`--by-meaning` needs the extra `semantic`: `tokenizers` cannot be imported" in done.stderr
    assert "pip install 'callability[semantic]'" in done.stderr
