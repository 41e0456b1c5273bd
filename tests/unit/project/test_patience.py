"""No test depends on speed: what it waits for has two minutes at least, because a machine may be busy."""

from __future__ import annotations

import re

from support.checkout import TESTS
from support.waiting import SECONDS

_WAIT = re.compile(r"(?:(?<![?&])\btimeout=|asyncio\.timeout\(|\.settimeout\(|\.wait\()([0-9][0-9_.]*)\b")
_MOMENT = 1.0
"""Seconds up to which a wait is a pause, and not the end of patience."""


def test_a_wait_has_two_minutes_at_least() -> None:
    """With a load of 20 on two cores, 30 to 60 seconds were too short."""
    short = [
        f"{path.relative_to(TESTS)}: {wait[0]}"
        for folder in ("unit", "process", "browser", "support")
        for path in sorted((TESTS / folder).rglob("*.py"))
        if "upstreams" not in path.parts
        for wait in _WAIT.finditer(path.read_text(encoding="utf-8"))
        if _MOMENT < float(wait[1]) < SECONDS
    ]
    assert short == []
