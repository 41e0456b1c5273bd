"""The page about the Python client: its code runs, and its tables list what the client reports."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from callability.client.replicas import ReplicaState
from support.checkout import PACKAGE, ROOT

PAGE = (ROOT / "docs/client.md").read_text(encoding="utf-8")
SOURCES = [path.read_text(encoding="utf-8") for path in (PACKAGE / "client").glob("*.py")]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def _rows(head: str) -> list[list[str]]:
    table = re.search(rf"(?m)^\| {head} \|.*\n\| --- .*\n((?:\|.*\n)+)", PAGE)
    assert table is not None
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[1].splitlines()]


def test_the_code_of_the_page_runs(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, as a reader would type it, with a real service."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = [block.replace("127.0.0.1:7420", address) for block in _blocks("python")]
    for block in blocks:
        exec(compile(block, "docs/client.md", "exec"), names)  # it is what the page shows
    printed = capsys.readouterr().out
    [shown] = _blocks("text")
    assert printed.startswith(shown.removesuffix("...\n"))
    assert asyncio.run(names["decide"]()) == "disabled_by_config"
    assert "files:read\n" in printed
    assert "policy service gave no answer" in printed
    assert (tmp_path / "policy.kept").exists()
    assert [*(tmp_path / "records").glob("client-*.jsonl")]


def test_the_quick_start_has_at_most_ten_lines() -> None:
    """It is the first thing that a developer copies."""
    assert len([line for line in _blocks("python")[0].splitlines() if line.strip()]) <= 10


def test_every_event_and_figure_is_in_a_table() -> None:
    """And no other."""
    logged = {event for source in SOURCES for event in re.findall(r'\.log\(\s*logging\.\w+, "(\w+)"', source)}
    assert {event for row in _rows("event") for event in re.findall(r"`(\w+)`", row[0])} == logged | {
        f"replica_{state}" for state in ReplicaState
    }
    figures = {name for source in SOURCES for name in re.findall(r'"(callability_client_\w+)"', source)}
    assert {row[0].strip("`") for row in _rows("figure")} == figures
