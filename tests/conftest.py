"""What the tests share: a server of the shipped policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from running import serving

POLICY = Path(__file__).parents[1] / "policy"


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
