"""What the tests share: a server of the shipped policy."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest

from support.certificates import read_system_certificates_once
from support.checkout import POLICY
from support.drawing import register_profiles
from support.running import fork_commands, serving
from support.shipped_policy import check_it_once

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # Under `nohup`, what tests start would ignore its end too; a process that is started does not inherit a handler.
    signal.signal(signal.SIGHUP, lambda *_: None)

# Nothing that is imported and collected is garbage: looking for it took a tenth of the time.
gc.disable()

# Before the modules of commands, which import the check by its name, are imported.
check_it_once()

read_system_certificates_once()

fork_commands()

register_profiles()

LONG = (
    *("hostile_edits", "hostile_files", "limits", "bench", "tutorial", "remedies", "policy_edits", "catalog_laws"),
    *("real_upstreams", "agents", "command_line", "studio_browser", "table_and_diff", "semantics"),
    *("conformance", "no_secret_leaks", "scope_laws", "failing_alone", "approvals_command", "fuzzer", "go_client"),
    *("large_messages", "standard_streams", "two_readers", "go_modules", "go_path", "remote_client", "policy_stream"),
)
"""Files with long tests: they run first, so that they do not run alone at the end."""


def pytest_collection_finish() -> None:
    """Look for garbage less often, and never in what is there until the end: it took a quarter of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 100)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first; tests of a file stay together, in their order."""
    order = {f"test_{name}": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of a server of the shipped policy, in a process of its own."""
    with serving("--policy", str(POLICY)) as bound:
        yield bound


@pytest.fixture(scope="session")
def channel(address: str) -> Iterator[grpc.Channel]:
    """A channel to the server."""
    with grpc.insecure_channel(address) as opened:
        yield opened


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A temporary directory for Unix sockets: that of `tmp_path` has a name that can be too long for one."""
    with TemporaryDirectory(prefix="c-") as directory:
        yield Path(directory)


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Record a figure that a test measured, to be printed below the results, whichever process ran the test."""
    return lambda figure: record_property("figure", figure)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures."""
    reported = [
        (report.nodeid, str(figure))
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        for key, figure in report.user_properties
        if key == "figure"
    ]
    if reported:
        terminalreporter.section("figures")
        for name, figure in sorted(reported):
            terminalreporter.write_line(f"{name.partition('::')[2]}: {figure}")
