"""Clients of both modes while replicas are killed and stopped; `python -m support.client_soak` does it at length."""

from __future__ import annotations

from pathlib import Path

from support.client_soak import arrivals, soak

CALLERS = 4
MAX_AGE_SECONDS = 300.0


def test_no_call_is_lost_while_replicas_are_killed_and_stopped() -> None:
    """Local callers decide by a policy that is never too old, and remote ones ask the other replica."""
    done = soak(kills=2, stops=1, stopped_seconds=5.0, callers=CALLERS, max_age=MAX_AGE_SECONDS)
    assert done.problems == []
    assert all(calls.answered for calls in (*done.local, *done.remote))


def test_an_edit_reaches_every_watching_client(tmp_path: Path) -> None:
    """Each client has each edit."""
    assert len(arrivals(watchers=8, edits=2, directory=tmp_path)) == 16
