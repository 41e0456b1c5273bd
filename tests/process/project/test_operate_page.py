"""The page for operators: its commands are run in order, and its figures are the measured ones."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from support.checkout import DOCS, ROOT
from support.documents import PATH, command_path
from support.running import unused_port

PAGE = (DOCS / "operate.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
NEEDED = ("bash", "openssl", "curl", "envoy", "buf", "prometheus", "promtool")
MISSING = [program for program in NEEDED if shutil.which(program, path=PATH) is None]
SECONDS = 1200
"""The whole page has about twenty starts and checks of a policy, on a machine that other tests keep busy."""


def _free_prefixes() -> Iterator[str]:
    """Yield numbers of four digits that are a port on which no process listens with 1, 2 and 3 behind them."""
    for prefix in range(2000 + os.getpid() % 997, 3200):
        with suppress(OSError), ExitStack() as stack:
            for number in (1, 2, 3):
                stack.enter_context(socket.create_server(("127.0.0.1", prefix * 10 + number)))
            yield str(prefix)


def _with_free_ports(text: str, ports: dict[str, str]) -> str:
    """Replace the ports of the page, so that several tests may run at a time."""
    return re.sub(r"(?<=[:#])(743|943|7420|9090)(?=[\d$/# '\n,]|$)", lambda found: ports[found[1]], text)


@pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)} (`make setup`)")
def test_the_commands_of_the_page_build_change_and_end_a_deployment(tmp_path: Path) -> None:
    """In an empty directory with copies of `ops` and `proto`, as the page says."""
    service, metrics = itertools.islice(_free_prefixes(), 2)
    ports = {"743": service, "943": metrics, "7420": str(unused_port()), "9090": str(unused_port())}
    for copied in ("ops", "proto"):
        shutil.copytree(ROOT / copied, tmp_path / copied)
    scraped = tmp_path / "ops/prometheus.yml"
    scraped.write_text(_with_free_ports(scraped.read_text(), ports))
    script, printed = tmp_path / "page.sh", tmp_path / "printed"
    script.write_text(
        "set -euxo pipefail\n" + _with_free_ports("\n".join(BLOCKS), ports) + "\necho the page has ended\n"
    )
    with (
        printed.open("w") as output,
        subprocess.Popen(
            ["bash", str(script)],
            cwd=tmp_path,
            env=os.environ | {"PATH": command_path()},
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        try:
            code = process.wait(SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    text = printed.read_text()
    assert code == 0, text[-8000:]
    assert text.endswith("the page has ended\n")
    assert "operator-denied" in text


def test_the_page_has_no_command_that_is_not_run() -> None:
    """But what installs the chart, which needs a cluster."""
    languages = re.findall(r"^```(\w*)$", PAGE, re.MULTILINE)
    assert [each for each in languages if each] == ["sh"] * len(BLOCKS) + ["text"]
    [shown] = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown.startswith("helm install ")


FIGURES = {
    "`CheckTool`, 16 calls in flight, one worker": ("CheckTool, throughput at 16 in flight by h2load", "calls/s"),
    "`CheckTool`, CPU of the service": ("CheckTool, server CPU at 16 in flight by h2load", "µs a call"),
    "`CheckTools` with 1,000 tools": ("1,000 tools, throughput by h2load", "decisions/s"),
    "round trip of a batch of 10,000 tools, Python client": ("10,000 tools, round trip of a Python client", "ms"),
    "an edit, until it decides, under load": ("an edit, until it decides, meanwhile", "ms"),
}


def test_the_figures_of_capacity_are_measured_ones() -> None:
    """They may differ by a third from those of the last measurement: another machine, another day."""
    rows = {row["what"]: row for row in json.loads((DOCS / "bench.json").read_text())["rows"]}
    shown = dict(re.findall(r"^\| (.*?) \| ([\d,.]+ .*?) \|$", PAGE, re.MULTILINE))
    assert shown.keys() == FIGURES.keys()
    for what, (measured, unit) in FIGURES.items():
        number, _, shown_unit = shown[what].partition(" ")
        assert (shown_unit, rows[measured]["unit"]) == (unit, unit)
        assert float(number.replace(",", "")) == pytest.approx(rows[measured]["median"], rel=1 / 3)
