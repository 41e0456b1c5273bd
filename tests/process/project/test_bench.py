"""`make bench`: that it runs. What it measures is no test."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import Part
from support.checkout import ROOT

BIN = Path(sys.executable).parent


def _bench(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    environment = os.environ | ({} if path is None else {"PATH": path})
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.repeated
@pytest.mark.parametrize("part", [Part.LOOK_UP, Part.CHECK_TOOL, Part.COLUMNS])
def test_a_part_of_the_benchmark_runs_for_one_quick_round(part: Part, tmp_path: Path) -> None:
    """Without h2load, since not every machine has it: a table on standard output, and every value as JSON.

    `.ci/nightly` does this for every part.
    """
    report = tmp_path / "bench.json"
    done = _bench("--quick", "--only", part, "--json", str(report), path=str(BIN))
    assert done.returncode == 0, done.stderr
    assert "No result" in done.stdout
    written = json.loads(report.read_text())
    assert written["failed"] == []
    assert written["rows"]
    assert all(len(row["values"]) == 1 for row in written["rows"])


def test_the_memory_of_a_process_is_measured_over_many_calls() -> None:
    """`python -m bench.endurance` makes a million; here are too few for a result."""
    command = [sys.executable, "-m", "bench.endurance", "--calls", "1000", "--warm", "1000"]
    environment = os.environ | {"PATH": str(BIN)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in {0, 1}, done.stderr
    assert done.stdout.startswith("1,000 calls by a Python client: grown by ")


def test_a_few_rounds_are_not_taken_for_a_result() -> None:
    """Fewer than 15 have to be asked for as what they are."""
    done = _bench("--rounds", "5", "--only", "look-up")
    assert done.returncode == 2
    assert "--quick" in done.stderr


def test_a_policy_of_more_than_100_000_combinations_is_proved(tmp_path: Path) -> None:
    """The one whose check is measured: the shipped rules, laws and tests, over more facts."""
    write = "import sys; from pathlib import Path; from bench.large import write_large; write_large(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", write, str(tmp_path)], cwd=ROOT, timeout=120, check=True)
    command = [sys.executable, "-m", "bench.large", "check", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  combinations  122,472, in " in done.stdout
    assert "0 errors" in done.stdout


def test_the_recall_of_a_set_of_tools_is_printed(tmp_path: Path) -> None:
    """Of a set in a folder that is given, since none is part of the repository."""
    tools = [
        {"id": name, "server": "s", "name": name, "description": text, "schema": {}}
        for name, text in {"delete": "Removes a file.", "mail": "Sends a letter."}.items()
    ]
    queries = [{"q": "remove a file", "gold": ["delete"]}, {"q": "telephone", "gold": ["mail"], "any": True}]
    (tmp_path / "small.json.gz").write_bytes(gzip.compress(json.dumps({"tools": tools, "queries": queries}).encode()))
    command = [sys.executable, "-m", "bench.recall", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[:6] == ["small", "2", "2", "50.0", "50.0", "50.0"]
