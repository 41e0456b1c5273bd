"""The conformance suites of MCP, by their own command line, against the gateway (tests/conformance/README.md)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from support.checkout import TESTS
from support.gateways import write_config
from support.real_servers import node_package, node_wanted

HERE = TESTS / "conformance"
BASELINES: Mapping[str, Mapping[str, str]] = YAML(typ="safe").load(HERE / "baselines.yaml")
"""Why the gateway does not do what a scenario expects, by protocol revision and scenario."""
SECONDS = 300
ATTEMPTS = 3
"""Runs of a suite, of which one has to pass: it gives some answers half a second, which a busy machine may not have."""


@contextmanager
def _front(directory: Path) -> Iterator[str]:
    """Run the gateway with the suites' tools in front, and yield its URL."""
    upstream = {"command": sys.executable, "args": [str(HERE / "everything.py")]}
    config = write_config(directory, {"everything": upstream})
    command = [sys.executable, str(HERE / "front.py"), str(config)]
    with (
        (directory / "front.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on "), (directory / "front.log").read_text()
            yield line.removeprefix("listening on ").strip()
        finally:
            process.terminate()
            process.communicate(timeout=120)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway that every suite asks."""
    with _front(tmp_path_factory.mktemp("front")) as url:
        yield url


def _run(suite: str, revision: str, url: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run every server scenario of a revision; the suite itself compares with the baseline, in both directions."""
    baseline, results = directory / "baseline.yaml", directory / "results"
    shutil.rmtree(results, ignore_errors=True)
    # JSON is YAML.
    baseline.write_text(json.dumps({"server": list(BASELINES[revision])}))
    arguments = ["--url", url, "--suite", "all", "--spec-version", revision, "--expected-failures", str(baseline)]
    command = [*node_package(f"conformance-{suite}"), "server", *arguments, "--output-dir", str(results)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def _statuses(results: Path) -> list[str]:
    return [check["status"] for path in results.glob("*/checks.json") for check in json.loads(path.read_text())]


@node_wanted
@pytest.mark.parametrize(
    ("suite", "revision"),
    [("2025-11-25", "2025-11-25"), ("2026-07-28", "2025-11-25"), ("2026-07-28", "2026-07-28")],
)
def test_a_suite_passes_but_for_what_the_baseline_gives_a_reason_for(
    suite: str, revision: str, front: str, tmp_path: Path, note: Callable[[str], None]
) -> None:
    """A scenario that fails without a reason is found, and so is a reason without a scenario that fails."""
    for _ in range(ATTEMPTS):
        done = _run(suite, revision, front, tmp_path)
        if done.returncode == 0:
            break
    statuses = _statuses(tmp_path / "results")
    counted = ", ".join(f"{statuses.count(status)} {status.lower()}" for status in sorted({*statuses}))
    note(f"suite for {suite}, revision {revision}: {counted}")
    assert done.returncode == 0, done.stdout[done.stdout.find("=== SUMMARY") :] + done.stderr
    ran = {path.parent.name for path in (tmp_path / "results").glob("*/checks.json")}
    for scenario in {entry.partition(":")[0] for entry in BASELINES[revision]}:
        assert any(name.startswith(f"server-{scenario}-") for name in ran), scenario
    assert "SUCCESS" in statuses
