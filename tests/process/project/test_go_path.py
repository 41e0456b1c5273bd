"""`make go-path` moves the Go modules, in a clone that is thrown away, and what was moved builds and decides."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.go_client import OUT_OF_REACH

NEW = "example.org/some/where/clients/go"
TRIMMED = "-trimpath"
"""What was built in another folder is not built again."""


def _run(directory: Path, *command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    if done.returncode and any(phrase in done.stdout + done.stderr for phrase in OUT_OF_REACH):
        pytest.skip("the Go modules that are needed are neither on this machine nor within its reach")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what git knows of the checkout, with the environment of the checkout."""
    if not (ROOT / ".venv/stubs/installed").exists():
        pytest.skip("the generator of the stubs is not set up: `make setup` does it")
    names = _run(ROOT, "git", "ls-files", "-z").split("\0")
    for name in filter(None, names):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, path, follow_symlinks=False)
        # Nothing is newer than the environment, which would be made again.
        os.utime(path, (0, 0), follow_symlinks=False)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    _run(tmp_path, "git", "init", "--quiet")
    _run(tmp_path, "git", "add", "--all")
    return tmp_path


@pytest.mark.skipif(shutil.which("go") is None, reason="the Go toolchain is not on this machine")
def test_the_go_modules_can_be_moved_once_and_everywhere(clone: Path) -> None:
    """No second spelling is left, and the modules, the contract and the Python stubs fit under the new path."""
    [old] = re.findall(r"^module (\S+)$", (clone / "clients/go/go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    _run(clone, "make", "go-path", f"NEW={NEW}")
    left = subprocess.run(
        ["git", "grep", "-IlF", old], cwd=clone, capture_output=True, text=True, timeout=120, check=False
    )
    assert (left.returncode, left.stdout) == (1, "")
    assert _run(clone, "gofmt", "-l", "clients/go", "examples/go") == ""
    for module in ("clients/go", "clients/go/remote", "clients/go/mcpgo", "clients/go/mark3labs", "examples/go"):
        _run(clone / module, "go", "vet", TRIMMED, "./...")
    _run(clone / "clients/go", "go", "test", TRIMMED, "-run", "Table|Vector|Good|Classified", "./callability")
    imports = f"import callability.v1.facts_pb2 as found; assert {NEW!r} in str(found.DESCRIPTOR.GetOptions())"
    _run(clone, sys.executable, "-c", imports, PYTHONPATH="server")
    _run(clone / "proto", ROOT / ".venv/bin/buf", "breaking", "--against", "../tests/contract.binpb")
