"""What finding a tool costs an agent, before real servers."""

from __future__ import annotations

from support.checkout import ROOT
from support.real_servers import node_wanted
from support.task_tokens import costs, table


@node_wanted
def test_finding_a_tool_costs_less_than_mounting_four_servers() -> None:
    """In at least eight of ten tasks; "read file" costs at most 900, definitions and query too; the page agrees."""
    measured = costs()
    assert len(measured) == 10
    assert sum(each.gateway < each.direct for each in measured) >= 8
    [read] = [each for each in measured if each.query == "read file"]
    assert read.gateway <= 900
    assert table(measured) in (ROOT / "docs/agents.md").read_text(encoding="utf-8")
