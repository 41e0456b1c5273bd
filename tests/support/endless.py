"""A process that never ends by itself and starts a child that does not either; it writes both ids to a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    pid_file = Path(sys.stdin.readline().strip())
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as child:
        beside = pid_file.with_suffix(".new")
        beside.write_text(f"{os.getpid()} {child.pid}")
        os.replace(beside, pid_file)
        child.wait()
