"""A call without any file of the contract: its schema comes from the server, by reflection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

COMMAND = """\
buf curl --protocol grpc --http2-prior-knowledge \\
  --data '{"server": "git", "serverFacts": {"enabled": true, "quarantined": false},
           "tool": "git_reset", "toolFacts": {"configDenied": true, "approval": {}}}' \\
  http://127.0.0.1:7420/callability.v1.CallabilityService/CheckTool
"""
"""As the README has it."""


def test_a_call_needs_no_file_of_the_contract(address: str, tmp_path: Path) -> None:
    """The README's command, in an empty directory: the answer names its policy and its rule, and holds the words."""
    bin_first = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["sh", "-c", COMMAND.replace("127.0.0.1:7420", address)],
        cwd=tmp_path,
        env=os.environ | {"PATH": bin_first},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    assert len(answer["revision"]) == 64
    assert answer["verdict"] == {
        "status": "TOOL_STATUS_DISABLED_BY_CONFIG",
        "rule": "operator-denied",
        "liftedBy": "LIFTED_BY_OPERATOR",
        "retry": "RETRY_NEVER",
    }
    assert answer["words"]["status"] == "TOOL_STATUS_DISABLED_BY_CONFIG"
    assert "to {edit_config}" in answer["words"]["rejection"]
