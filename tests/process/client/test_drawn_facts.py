"""The reference evaluator, a local client and a service agree about drawn facts; `make facts` draws a million."""

from __future__ import annotations

import pytest

from support.bundles import POLICIES
from support.drawing import share
from support.drawn_facts import SERVERS, compared


@pytest.mark.parametrize("name", POLICIES)
def test_the_three_decide_alike(name: str) -> None:
    """Status, rule, undetermined, unread facts, withheld text and words."""
    count = max(2 * SERVERS, share(2_000))
    found = compared(name, count, seed=11)
    assert found.differences == []
    assert (found.facts, found.open) == (count, count // 2)
    assert len({rule for rule, _ in found.by_rule}) > 1
