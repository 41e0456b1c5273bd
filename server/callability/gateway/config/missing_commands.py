"""Finds commands of servers on stdio that do not exist, where a gateway would look for them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from callability.finding import Finding, Severity, shown
from callability.gateway.config.config import Config
from callability.gateway.config.disagreements import server_subject
from callability.gateway.config.model import CatalogEntry, ServerConfig
from callability.gateway.config.variables import Unfillable, filled, unset

_PART_OF = {"uv": "uv", "uvx": "uv", "node": "Node.js", "npm": "Node.js", "npx": "Node.js"}
"""What a person installs for a command that is a part of something else."""


def missing_commands(config: Config, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a warning for each command that cannot be found; servers that are switched off are left out."""
    sections: dict[str, Mapping[str, ServerConfig | CatalogEntry]] = {
        "mcpServers": {name: server for name, server in config.servers.items() if server.enabled},
        "catalog": config.catalog,
    }
    for section, servers in sections.items():
        for name, server in servers.items():
            if server.command is not None and not _exists(server.command, server, environment):
                sentence = f"command {shown(server.command)} of {server_subject(section, name)} is not found"
                where = "" if os.sep in server.command else ", or write its absolute path"
                at = config.place(section, name, "command")
                what = _PART_OF.get(server.command, "it")
                yield Finding(at, "missing-command", sentence, f"install {what}{where}", Severity.WARNING)


def _exists(command: str, server: ServerConfig | CatalogEntry, environment: Mapping[str, str]) -> bool:
    """Look for a command like the start of its server does: with the server's own `PATH` and from its own `cwd`."""
    if os.sep in command:
        return shutil.which(Path(server.cwd or ".") / command) is not None
    try:
        own = {} if unset(server, environment) else filled(server, environment).env
    except Unfillable:
        own = {}
    return shutil.which(command, path={**environment, **own}.get("PATH", os.defpath)) is not None
