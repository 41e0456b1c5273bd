"""The vectors of the adapter in a second language, by a script that was written from docs/adapter.md alone."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from support.adapter_vectors import DIRECTORY, FUNCTIONS, load
from support.checkout import ROOT
from support.real_servers import NODE, node_wanted

SCRIPT = DIRECTORY / "replay.mjs"
SECONDS = 120


def _replayed(script: Path) -> subprocess.CompletedProcess[str]:
    command = [str(NODE / "bin/node"), str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


@node_wanted
def test_node_answers_every_vector_with_the_same_bytes() -> None:
    """All of them, and none is left out."""
    done = _replayed(SCRIPT)
    count = sum(len(load(function)["vectors"]) for function in FUNCTIONS)
    assert (done.stdout, done.returncode) == (f"{count} vectors, 0 different\n", 0), done.stdout + done.stderr


@node_wanted
def test_a_vector_that_differs_fails_the_script(tmp_path: Path) -> None:
    """Its name is printed."""
    vectors = tmp_path / "tests/vectors/adapter"
    shutil.copytree(DIRECTORY, vectors)
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs/adapter.md", tmp_path / "docs")
    text = (vectors / "unavailable.json").read_text()
    (vectors / "unavailable.json").write_text(text.replace("Nothing was shown", "Nothing was done", 1))
    done = _replayed(vectors / SCRIPT.name)
    assert done.returncode == 1
    assert re.match(r"unavailable: .+\n", done.stdout)
    assert done.stdout.endswith(" 1 different\n")


def test_the_script_is_short_enough_to_read() -> None:
    """So that a page of a document is enough to write an adapter."""
    assert len(SCRIPT.read_text().splitlines()) <= 220
