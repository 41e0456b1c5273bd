"""The fuzzer that is led by coverage, for a moment; `make fuzz` lets it run for longer."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from support.checkout import TESTS
from support.running import run_from_small_process

FUZZING = TESTS / "fuzzing"


@pytest.mark.repeated
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="there is no build of atheris here")
def test_inputs_that_reach_new_code_do_no_harm(tmp_path: Path) -> None:
    """A hundred of them, from the seeds on; the same ones each time."""
    command = [sys.executable, str(FUZZING / "rule_files.py"), str(tmp_path), str(FUZZING / "seeds")]
    options = [f"-dict={FUZZING / 'words.dict'}", "-seed=1", "-runs=100", "-max_len=2048", "-rss_limit_mb=1024"]
    # The limit is on the peak of memory.
    done = run_from_small_process([*command, *options], tmp_path, 1200)
    assert done.returncode == 0, done.stderr[-3000:]
    covered = [int(number) for number in re.findall(r"cov: (\d+)", done.stderr)]
    assert "Done 100 runs" in done.stderr
    # Were nothing of the program instrumented, there would be next to nothing to cover.
    assert covered[-1] > 500


@pytest.mark.repeated
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="there is no build of atheris here")
def test_bundles_that_reach_new_code_do_no_harm(tmp_path: Path) -> None:
    """A few hundred payloads, from those of the vectors on; the same ones each time."""
    fuzzer, seeds, found = str(FUZZING / "bundles.py"), tmp_path / "seeds", tmp_path / "found"
    seeds.mkdir()
    found.mkdir()
    assert run_from_small_process([sys.executable, fuzzer, "--seeds", str(seeds)], tmp_path, 1200).returncode == 0
    command = [sys.executable, fuzzer, str(found), str(seeds)]
    options = ["-seed=1", "-runs=500", "-max_len=8192", "-rss_limit_mb=1024"]
    done = run_from_small_process([*command, *options], tmp_path, 1200)
    assert done.returncode == 0, done.stderr[-3000:]
    covered = [int(number) for number in re.findall(r"cov: (\d+)", done.stderr)]
    assert "Done 500 runs" in done.stderr
    assert covered[-1] > 250


@pytest.mark.repeated
def test_no_arrow_file_is_decided_that_ends_the_process(tmp_path: Path) -> None:
    """Those that were found before, and a few hundred that are drawn; the same ones each time."""
    command = [sys.executable, str(FUZZING / "arrow_files.py"), str(FUZZING / "arrow"), "--found", str(tmp_path)]
    done = run_from_small_process([*command, "--seed", "1", "--runs", "400"], tmp_path, 1200)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = re.fullmatch(r"seed 1, 400 inputs: ([\d,]+) refused, ([\d,]+) decided(, .*)?\n", done.stdout)
    assert counts, done.stdout
    assert int(counts[1]) > 100
    assert int(counts[2]) > 20


def test_the_memory_of_other_tests_does_not_count_for_the_fuzzer(tmp_path: Path) -> None:
    """A program that this process starts directly has this process's peak; one from a small process has its own."""
    memory = bytearray(100 << 20)
    memory[::4096] = b"x" * len(memory[::4096])
    del memory
    peak = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    done = run_from_small_process([sys.executable, "-c", peak], tmp_path, 120)
    assert int(done.stdout) < 100
