"""What the process of the rules engine imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.checkout import POLICY


def test_a_file_in_the_current_directory_is_no_module_of_the_engine(tmp_path: Path) -> None:
    """A check of a policy runs no code of it."""
    (tmp_path / "resource.py").write_text("import pathlib; pathlib.Path('ran').touch(); raise SystemExit(3)")
    command = [str(Path(sys.executable).parent / "callability"), "check", str(POLICY)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "ran").exists()
