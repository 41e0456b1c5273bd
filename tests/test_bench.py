"""`make bench`: that it runs. What it measures is no test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _bench(*arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)


def test_the_look_up_is_measured_against_an_if_chain(tmp_path: Path) -> None:
    """A table on standard output, every value of every round as JSON."""
    done = _bench("--quick", "--only", "look-up", "--json", str(tmp_path / "bench.json"))
    assert done.returncode == 0, done.stderr
    assert "No result" in done.stdout
    assert "DecisionTable.verdict" in done.stdout
    chain, table = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert len(chain["values"]) == len(table["values"]) == 3
    assert table["met"] in {True, False}


def test_a_few_rounds_are_not_taken_for_a_result() -> None:
    """Fewer than 15 have to be asked for as what they are."""
    done = _bench("--rounds", "5", "--only", "look-up")
    assert done.returncode == 2
    assert "--quick" in done.stderr


def test_what_servers_that_fail_cost_the_others_is_measured(tmp_path: Path) -> None:
    """Ten servers, alone, beside ten that are well and beside ten that fail."""
    done = _bench("--quick", "--only", "isolation", "--json", str(tmp_path / "bench.json"))
    assert done.returncode == 0, done.stderr
    alone, well, failing = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert (alone["ratio"], bool(well["ratio"]), bool(failing["ratio"])) == (None, True, True)


def test_checking_a_policy_of_many_combinations_is_measured(tmp_path: Path) -> None:
    """Seconds and memory, of the shipped policy and of a large one."""
    done = _bench("--quick", "--only", "checking", "--json", str(tmp_path / "bench.json"), seconds=400)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert [(row["unit"], row["aim"] and row["aim"]["limit"]) for row in rows] == [
        ("s", 1),
        ("MiB", None),
        ("s", 10),
        ("MiB", None),
    ]
    assert min(value for row in rows for value in row["values"]) > 0
