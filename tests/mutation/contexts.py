"""A plugin of pytest: coverage knows the test that runs, and a file names the tests that failed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

FAILED = "CALLABILITY_MUTATION_FAILED"
"""The variable with the path of the file."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let the lines that run count for this test. A process that it starts finds the name in PYTEST_CURRENT_TEST."""
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(item.nodeid)
    outcome = yield
    if measured is not None:
        measured.switch_context("")
    return outcome


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the name of a test that failed."""
    if report.failed and FAILED in os.environ:
        with Path(os.environ[FAILED]).open("a", encoding="utf-8") as failed:
            failed.write(report.nodeid + "\n")
