"""The quick start of docs/go.md is a program that prints what the page says, and links no other module."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.bundles import SHIPPED, bundle_of
from support.checkout import ROOT

CORE = "github.com/callability/callability/clients/go"


@pytest.mark.skipif(shutil.which("go") is None, reason="the Go toolchain is not on this machine")
def test_the_quick_start_runs_outside_the_checkout_with_no_module_but_ours(tmp_path: Path) -> None:
    """With an empty cache of modules and no network: there is nothing to download."""
    page = (ROOT / "docs/go.md").read_text(encoding="utf-8")
    program, printed = (str(re.findall(rf"^```{kind}\n(.*?)^```$", page, re.M | re.S)[0]) for kind in ("go", "text"))
    (tmp_path / "main.go").write_text(program, encoding="utf-8")
    (tmp_path / "policy.bundle").write_bytes(bundle_of(SHIPPED))
    (tmp_path / "go.mod").write_text(
        f"module example\n\ngo 1.24\n\nrequire {CORE} v0.0.0\n\nreplace {CORE} => {ROOT / 'clients/go'}\n",
        encoding="utf-8",
    )
    offline = os.environ | {"GOFLAGS": "-mod=mod", "GOMODCACHE": str(tmp_path / "cache"), "GOPROXY": "off"}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=offline, capture_output=True, text=True, timeout=1200, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("go", "build", "-o", "program", ".")
    assert run("./program") == printed
    lines = map(str.split, run("go", "version", "-m", "program").splitlines())
    modules = [line[1] for line in lines if line[:1] == ["dep"]]
    assert modules == [CORE]
