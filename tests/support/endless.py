"""A process that never ends by itself, and neither does the one that it starts; it writes both ids to a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    told = Path(sys.stdin.readline().strip())
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as child:
        beside = told.with_suffix(".new")
        beside.write_text(f"{os.getpid()} {child.pid}")
        os.replace(beside, told)
        child.wait()
