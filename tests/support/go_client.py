"""Commands of the example in Go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OUT_OF_REACH = ("dial tcp", "i/o timeout", "toolchain not available", "invalid go version")
"""What Go says where it has no network, or is too old and cannot fetch a newer one."""


def run_in_shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the README, with the programs of the environment of the tests."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    shell = ["sh", "-e", "-c", command]
    return subprocess.run(
        shell, cwd=directory, env=environment, capture_output=True, text=True, timeout=1200, check=False
    )
