"""Runs the demonstration: a gateway, real MCP servers behind it, an agent, and the people who unlock tools."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from demo.narration import Narration
from demo.scene import CATALOG, COUNTS, set_up
from demo.story import Story

NEXT = "Next: `make demo DEMO=--verbose` prints every answer; README.md has a quick start for your own servers"


async def play(narration: Narration, directory: Path) -> None:
    """Set up the demonstration in an empty directory, which is the home directory of everybody in it, and run it."""
    scene, log = set_up(directory), directory / "gateway.log"
    unset = {"CALLABILITY_CONFIG", "XDG_CONFIG_HOME"}
    environment = {key: value for key, value in os.environ.items() if key not in unset} | {"HOME": str(scene.home)}
    arguments = ["-m", "callability", "gateway", "--policy", str(scene.policy)]
    connected, offered = ", ".join(COUNTS), ", ".join(CATALOG)
    narration.title(f"An agent uses a gateway to the MCP servers {connected}; its catalog offers {offered}")
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    with log.open("w", encoding="utf-8") as errlog:
        async with Client(stdio_client(parameters, errlog=errlog)) as client:
            await Story(client, narration, scene, environment).play()
    if narration.failures:
        sys.stderr.write(log.read_text(encoding="utf-8"))


def main(
    *,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print every check and the JSON of every answer.")] = False,
    picture: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Write the output as SVG too.")] = None,
) -> None:
    """Show what an agent reads about locked tools, and how people unlock them, on real MCP servers.

    Exit code 0: every check passed. 1: one failed.
    """
    narration = Narration(verbose=verbose)
    with tempfile.TemporaryDirectory(prefix="callability-") as directory:
        asyncio.run(play(narration, Path(directory)))
    narration.end(NEXT)
    if picture is not None and not narration.failures:
        narration.save(picture, "make demo")
    raise typer.Exit(1 if narration.failures else 0)


if __name__ == "__main__":
    typer.run(main)
