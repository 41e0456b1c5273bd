"""The client for threads is generated from the one for asyncio."""

from __future__ import annotations

from support.blocking_client import WRITTEN, blocking_client


def test_the_client_for_threads_is_up_to_date() -> None:
    """An edit of the client for asyncio needs `make client`."""
    assert WRITTEN.read_text() == blocking_client()
