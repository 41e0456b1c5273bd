"""The tutorial: each command on the page is run, each edit on it is made, and what is printed is what stands there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from support.checkout import DOCS
from support.documents import command_path, pattern, sessions_of

PAGE = (DOCS / "tutorial.md").read_text()
BLOCK = re.compile(r"^(?:<!-- exit code (\d) -->\n)?```(console|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AUTHOR = {"GIT_AUTHOR_NAME": "An author", "GIT_AUTHOR_EMAIL": "author@example.invalid"}
COMMITTER = {"GIT_COMMITTER_NAME": "An author", "GIT_COMMITTER_EMAIL": "author@example.invalid"}
ENVIRONMENT = os.environ | AUTHOR | COMMITTER | {"COLUMNS": "120", "GIT_CONFIG_GLOBAL": os.devnull}


def _run(command: list[str], directory: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        env=ENVIRONMENT | {"PATH": command_path()},
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_tutorial_can_be_followed_to_its_end(tmp_path: Path) -> None:
    """From an empty directory, in the order of the page."""
    ran, edited = 0, 0
    for code, kind, content in BLOCK.findall(PAGE):
        if kind == "diff":
            applied = _run(["git", "apply", "-p0"], tmp_path, content)
            assert applied.returncode == 0, f"{content}\n{applied.stderr}"
            edited += 1
            continue
        for command, shown in sessions_of(content):
            done = _run(["sh", "-c", command], tmp_path)
            assert done.returncode == int(code or 0), f"{command} printed\n{done.stdout}{done.stderr}"
            assert re.fullmatch(pattern(shown), done.stdout), f"{command} printed\n{done.stdout}"
            ran += 1
    assert (ran, edited) == (len(re.findall(r"^\$ ", PAGE, re.MULTILINE)), PAGE.count("```diff"))
    assert ran >= 8
