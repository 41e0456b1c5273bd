"""Real MCP servers, as their authors publish them: two from PyPI, three for Node where that is set up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.running import forks_commands
from support.warm_program import shared_program

BIN = Path(sys.executable).parent
NODE = Path(sys.prefix) / "node"
"""Where `make` puts a Node and the packages of `tests/node/package.json`."""

NODE_IS_SET_UP = (NODE / "installed").exists()
node_wanted = pytest.mark.skipif(
    not NODE_IS_SET_UP,
    reason="Node is not set up: `make test` found no build of it for this machine, or could not reach its packages",
)
THINGS = 200
"""Files in the directory, and entities in the memory."""


def node_package(name: str) -> list[str]:
    """Return the command that runs a Node package."""
    return [str(NODE / "bin/node"), str(NODE / f"node_modules/{name}/dist/index.js")]


def pypi_servers(directory: Path, *, fresh: bool = False) -> dict[str, dict[str, Any]]:
    """Return the config of the servers from PyPI: a repository with one commit, and a clock.

    What looks for their processes has to have `fresh` ones, which do not fork from a process that has imported the SDK.
    """
    programs = shared_program().commands if forks_commands() and not fresh else BIN
    repository = directory / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "The first commit"], check=True)
    return {
        "git": {"command": str(programs / "mcp-server-git"), "args": ["--repository", str(repository)]},
        "time": {"command": str(programs / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
    }


def node_servers(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the config of the servers for Node: a bit of everything, a directory, and a memory.

    File `7.txt` holds `filesystem-7`, and nothing else does; the memory has an entity `memory-7`.
    """
    files, memory = directory / "files", directory / "memory.jsonl"
    files.mkdir()
    for number in range(THINGS):
        (files / f"{number}.txt").write_text(f"filesystem-{number}")
    entities = ({"type": "entity", "name": f"memory-{number}", "entityType": "thing"} for number in range(THINGS))
    memory.write_text("".join(json.dumps(entity | {"observations": []}) + "\n" for entity in entities))
    return {
        "everything": _config("everything"),
        "filesystem": _config("filesystem", str(files)),
        "memory": _config("memory") | {"env": {"MEMORY_FILE_PATH": str(memory)}},
    }


def _config(name: str, *arguments: str) -> dict[str, Any]:
    command, *rest = node_package(f"@modelcontextprotocol/server-{name}")
    return {"command": command, "args": [*rest, *arguments]}
