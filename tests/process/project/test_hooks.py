"""The hooks before a commit check what `make lint` and `make types` check, with the same tools."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

from ruamel.yaml import YAML

from support.checkout import ROOT

FILE = ROOT / ".pre-commit-config.yaml"


def _hooks() -> list[dict[str, Any]]:
    repositories = YAML(typ="safe").load(FILE.read_text())["repos"]
    return [hook for repository in repositories for hook in repository["hooks"]]


def test_the_hooks_are_valid() -> None:
    """By pre-commit's own word."""
    command = [sys.executable, "-m", "pre_commit", "validate-config", str(FILE)]
    assert subprocess.run(command, cwd=ROOT, check=False, timeout=120).returncode == 0


def test_the_hooks_run_the_tools_of_the_virtual_environment() -> None:
    """Nothing is fetched, and the versions are the locked ones."""
    assert {repository["repo"] for repository in YAML(typ="safe").load(FILE.read_text())["repos"]} == {"local"}
    assert all(hook["entry"].startswith(".venv/bin/") and hook["language"] == "system" for hook in _hooks())


def test_the_hooks_check_what_make_checks() -> None:
    """Each tool of the two targets, and no other."""
    makefile = (ROOT / "Makefile").read_text()
    recipes = "".join(re.findall(r"^(?:lint|types):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    made = {tuple(each.split()) for each in re.findall(r"\$\(BIN\)/(ruff \w+|buf \w+|mypy)", recipes)}
    hooks = {tuple(re.findall(r"(?<=/)(ruff|buf|mypy)|(?<= )(check|format|lint)", hook["entry"])) for hook in _hooks()}
    assert {tuple("".join(word) for word in each) for each in hooks} == made
