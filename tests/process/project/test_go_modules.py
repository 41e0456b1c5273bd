"""The Go modules pass their tests, and what is generated in them is up to date. `make lint` checks their style."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.go_client import OUT_OF_REACH
from support.running import forks_commands
from support.warm_program import shared_program

MODULES = [
    ROOT / path
    for path in re.findall(r"^\t\./(clients/\S+)$", (ROOT / "go.work").read_text(encoding="utf-8"), re.MULTILINE)
]
each_module = pytest.mark.parametrize("module", MODULES, ids=[str(module.relative_to(ROOT)) for module in MODULES])
pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="the Go toolchain is not on this machine")


def _go(module: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=module,
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


ALONE = "^TestADamagedPayloadNeverDecidesOutsideItsTables$"
"""A test of one goroutine that reads thousands of bundles, which takes most of the time under the race detector."""


@each_module
def test_a_go_module_passes_its_tests_under_the_race_detector(module: Path) -> None:
    """Without a cache: the vectors that the tests read are not files of the module."""
    given = {"CALLABILITY_PROGRAM": str(shared_program().commands / "callability")} if forks_commands() else {}
    _go(module, "test", "-race", "-count=1", "-timeout=15m", "-skip", ALONE, "./...", **given)


def test_the_core_module_passes_the_test_of_one_goroutine() -> None:
    """Without the race detector."""
    assert "no tests to run" not in _go(MODULES[0], "test", "-count=1", "-run", ALONE, "./callability")


def test_the_path_of_the_go_modules_has_one_spelling() -> None:
    """`make go-path` rewrites it, and so there must be no other. The contract's `go_package` is below it."""
    core = re.findall(r"^module (\S+)$", (ROOT / "clients/go/go.mod").read_text(encoding="utf-8"), re.MULTILINE)[0]
    files = subprocess.run(
        ["git", "ls-files", "*.go", ":!*.pb.go", "*.mod", "*.proto", "*.md", "go.work"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    for name in files.stdout.split():
        text = (ROOT / name).read_text(encoding="utf-8")
        for found in re.findall(r"[\w.-]+\.[a-z]+/[\w./-]*clients/go\b", text):
            assert found.startswith((core, "example.com/")), name
        for package in re.findall(r'^option go_package = "(.*);\w+";$', text, re.MULTILINE):
            path = Path(package.removeprefix(core).lstrip("/"))
            assert package.startswith(core), name
            assert (ROOT / "clients/go" / path).is_dir(), name


def test_the_committed_go_stubs_are_those_of_the_contract(tmp_path: Path) -> None:
    """`make go-stubs` writes them."""
    if not (ROOT / ".venv/stubs/installed").exists():
        pytest.skip("the generator of the stubs is not set up: `make setup` does it")
    done = subprocess.run(
        ["make", "go-stubs", f"GO_STUBS={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    if done.returncode and any(phrase in done.stderr for phrase in OUT_OF_REACH):
        pytest.skip("the generators of Go code are neither on this machine nor within its reach")
    assert done.returncode == 0, done.stderr
    generated = {path.relative_to(tmp_path): path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.go")}
    remote = ROOT / "clients/go/remote"
    committed = {path.relative_to(remote): path.read_text(encoding="utf-8") for path in sorted(remote.rglob("*.pb.go"))}
    assert generated == committed


def test_the_core_module_requires_no_other() -> None:
    """A proxy that decides from a bundle links nothing but the standard library."""
    assert _go(MODULES[0], "list", "-m", "all", GOWORK="off").split() == [
        "github.com/callability/callability/clients/go"
    ]
