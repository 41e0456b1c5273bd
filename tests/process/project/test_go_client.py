"""A client in Go, made as its README says, asks a real server."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.go_client import OUT_OF_REACH, run_in_shell


def _block(readme: str, language: str) -> str:
    [block] = re.findall(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    return str(block)


@pytest.mark.skipif(shutil.which("go") is None, reason="the Go toolchain is not on this machine")
def test_the_go_client_of_the_example_is_answered(tmp_path: Path, address: str) -> None:
    """The README's commands, in a copy of the example, print against a real server what the README says."""
    example = tmp_path / "examples/go"
    shutil.copytree(ROOT / "examples/go", example, ignore=shutil.ignore_patterns("bin"))
    for beside in ("clients", "tests"):
        (tmp_path / beside).symlink_to(ROOT / beside)
    modules = run_in_shell("go mod download", example)
    if modules.returncode and any(phrase in modules.stderr for phrase in OUT_OF_REACH):
        pytest.skip("the Go modules of the example are neither on this machine nor within its reach")
    readme = (example / "README.md").read_text()
    done = run_in_shell(_block(readme, "sh").replace("127.0.0.1:7420", address), example)
    assert done.returncode == 0, done.stderr
    assert done.stdout == _block(readme, "text")
