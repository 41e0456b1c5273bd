"""The fuzzer that is led by coverage, for a moment; `make fuzz` lets it run for longer."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import TESTS

FUZZING = TESTS / "fuzzing"


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="there is no build of atheris here")
def test_inputs_that_reach_new_code_do_no_harm(tmp_path: Path) -> None:
    """A few hundred of them, from the seeds on; the same ones each time."""
    command = [sys.executable, str(FUZZING / "rule_files.py"), str(tmp_path), str(FUZZING / "seeds")]
    options = [f"-dict={FUZZING / 'words.dict'}", "-seed=1", "-runs=400", "-max_len=2048", "-rss_limit_mb=1024"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    covered = [int(number) for number in re.findall(r"cov: (\d+)", done.stderr)]
    assert "Done 400 runs" in done.stderr
    # Were nothing of the program instrumented, there would be next to nothing to cover.
    assert covered[-1] > 500
