"""Where Go is missing, the tests of the Go modules are skipped, and say so; the others pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.checkout import ROOT

REASON = "the Go toolchain is not on this machine"
TESTS = sorted((ROOT / "tests/process/project").glob("test_go_*.py"))


def _without_go() -> str:
    """Return the folders of programs that have no Go."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not (Path(folder) / "go").exists())


def test_what_needs_go_is_skipped_and_named() -> None:
    """As `make test` runs it: nothing fails, and the summary names each file with the reason."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        env=os.environ | {"PATH": _without_go()},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = re.findall(rf"^SKIPPED \[\d+\] (\S+?\.py)\S* {REASON}$", done.stdout, re.MULTILINE)
    assert {Path(path).name for path in skipped} == {path.name for path in TESTS}
