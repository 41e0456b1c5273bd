"""The tests that `docs/requirements.md` names are collected."""

from __future__ import annotations

import re
import subprocess
import sys

from support.checkout import ROOT, TESTS
from support.requirements import required_tests


def test_every_test_in_the_table_is_one_that_runs() -> None:
    """It is collected as it is named there."""
    named = set().union(*required_tests().values())
    files = sorted({test.partition("::")[0] for test in named})
    paths = [str(path) for name in files for path in TESTS.rglob(name)]
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    collected = {re.sub(r"\[.*", "", line.rpartition("/")[2]) for line in done.stdout.splitlines() if "::" in line}
    assert named - collected == set(), done.stdout[-2000:]
