"""Homes of users whose clients join a gateway, which ends with its test."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from callability.connect.joining import MeetingPlace
from support.running import COMMAND
from support.waiting import eventually


class UserHome:
    """The home of a user with a config; its path is short, as that of a socket has to be."""

    def __init__(self, directory: Path, config: str = "gateway.json") -> None:
        self.path = directory
        self.config = directory / ".config" / "callability" / config
        self.approvals = self.config.with_name("approvals.yaml")
        others = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CALLABILITY_"))}
        self.environment = {**others, "HOME": str(directory)}
        self.folder = directory / ".local" / "state" / "callability" / "run"

    def write(self, servers: dict[str, Any], keys: dict[str, Any]) -> None:
        """Write the config, and an approvals file without records."""
        self.config.parent.mkdir(parents=True)
        self.config.write_text(json.dumps({"mcpServers": servers, "approvals": "approvals.yaml", **keys}, indent=2))
        self.approvals.write_text("{}\n")

    @property
    def socket(self) -> Path:
        """The socket of the gateway."""
        return self.folder / Path(MeetingPlace(str(self.config)).socket).name

    @property
    def log(self) -> str:
        """The log of the gateway that was started last."""
        return self.socket.with_suffix(".log").read_text()

    def processes(self, *words: str) -> list[int]:
        """Return the processes of this home whose command has all of some words."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                command = (
                    (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                    if entry.name.isdigit()
                    else []
                )
                if all(word in command for word in words) and str(self.path) in "\0".join(command):
                    found.append(int(entry.name))
        return found

    @property
    def gateways(self) -> list[int]:
        """The gateways that run."""
        return self.processes("gateway", "unix")

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command of callability to its end."""
        given = {"env": self.environment, "input": "", "capture_output": True, "text": True, "timeout": 120, **options}
        return subprocess.run([*COMMAND, *arguments], check=False, **given)

    @asynccontextmanager
    async def client(self, agent: str, **options: Any) -> AsyncIterator[Client]:
        """Yield a client that has joined the gateway as an agent."""
        async with self.client_by([*COMMAND, "connect", "--agent", agent], **options) as client:
            yield client

    @asynccontextmanager
    async def client_by(self, command: Sequence[str], **options: Any) -> AsyncIterator[Client]:
        """Yield a client whose server is started by a command."""
        parameters = StdioServerParameters(command=command[0], args=[*command[1:]], env=self.environment)
        async with Client(stdio_client(parameters, errlog=sys.stderr), **options) as client:
            yield client

    def open_page(self) -> tuple[str, str]:
        """Run `callability page` in a terminal, and return the URL of the page and the code that the terminal shows."""
        in_terminal = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
        command = [sys.executable, "-c", in_terminal, *COMMAND, "page"]
        done = subprocess.run(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        found = re.search(r"(\w{4}-\w{4}) is the code for (http://127\.0\.0\.1:\d+/)", done.stdout)
        assert found, (done.stdout, done.stderr, self.log)
        return found[2], found[1]

    def end(self) -> None:
        """End the gateway."""
        for process in self.gateways:
            os.kill(process, signal.SIGTERM)
        eventually(lambda: not self.gateways)


@contextmanager
def user_home(servers: dict[str, Any], **keys: Any) -> Iterator[UserHome]:
    """Yield a home with a config."""
    with tempfile.TemporaryDirectory(prefix="home") as directory:
        home = UserHome(Path(directory))
        home.write(servers, keys)
        try:
            yield home
        finally:
            home.end()


def agents(**scopes: Sequence[str]) -> dict[str, Any]:
    """Return the agents of a config, each with its servers."""
    return {name: {"servers": list(servers)} for name, servers in scopes.items()}
