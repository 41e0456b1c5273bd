"""Edits of files that a program watches."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def replace(path: Path, text: str) -> None:
    """Replace a file as an editor does: by a new file at the same path."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, path)


def edit(config: Path, **keys: Any) -> None:
    """Change keys of a config, and its servers key by key."""
    was = json.loads(config.read_text())
    servers = was["mcpServers"]
    for name, server in keys.pop("servers", {}).items():
        if server is None:
            del servers[name]
        else:
            servers[name] = servers.get(name, {}) | server
    replace(config, json.dumps(was | keys))
