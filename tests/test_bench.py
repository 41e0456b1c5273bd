"""`make bench`: that it runs. What it measures is no test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


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


def test_a_policy_of_more_than_100_000_combinations_is_proved(tmp_path: Path) -> None:
    """The one whose check is measured: the shipped rules, laws and tests, over more facts."""
    write = "import sys; from pathlib import Path; from bench.large import write_large; write_large(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", write, str(tmp_path)], cwd=ROOT, timeout=60, check=True)
    command = [sys.executable, "-m", "bench.large", "check", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  combinations  122,472 decided by " in done.stdout
    assert "0 errors" in done.stdout
