"""What a process that serves imports."""

from __future__ import annotations

import subprocess
import sys

from support.checkout import PACKAGE


def test_durable_rules_is_never_loaded_into_a_process_that_serves() -> None:
    """A rule file can then neither hang nor crash nor leak into it."""
    code = (
        "import sys; from pathlib import Path; from callability.compiler.policy import load;"
        "from callability.service.server import Server; load(Path(sys.argv[1]));"
        "sys.exit(any(name.startswith('durable') for name in sys.modules))"
    )
    policy = PACKAGE.parents[1] / "policy"
    assert subprocess.run([sys.executable, "-c", code, str(policy)], check=False, timeout=120).returncode == 0
