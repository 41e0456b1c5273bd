"""The page about bundles: its reader decides as the policy does, and its tables are those of the program."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from callability.kernel.conditions import SEMANTICS
from callability.kernel.envelope import MAX_BYTES, RefusalCode
from callability.kernel.facts import FactReader
from callability.kernel.policy import read
from support.bundles import POLICIES, SHIPPED, DrawnRequests, bundle_of
from support.checkout import DOCS
from support.drawing import share

PAGE = (DOCS / "bundle.md").read_text()


def _reader() -> dict[str, Any]:
    [code] = [each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class RuleSet" in each]
    names: dict[str, Any] = {}
    exec(compile(code, "docs/bundle.md", "exec"), names)
    return names


def test_the_first_example_decides_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the bundle of the shipped policy."""
    code, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.bundle").write_bytes(bundle_of(SHIPPED))
    exec(compile(code, "docs/bundle.md", "exec"), {})
    [printed] = re.findall(r"^With the shipped policy it prints `(.*)`\.$", PAGE, re.MULTILINE)
    assert capsys.readouterr().out == f"{printed}\n"


@pytest.mark.parametrize("name", POLICIES)
def test_the_reader_in_the_page_decides_as_the_policy_does(name: str) -> None:
    """Status, rule, withheld text and unread facts, for drawn facts of tools and any points of the others."""
    names = _reader()
    payload = names["payload_of"](bundle_of(name))
    policy = read(bundle_of(name))
    reader = FactReader(policy.callability)
    drawn, random = DrawnRequests(policy.callability, seed=5), Random(5)
    for data, rule_set in zip(payload[5], policy.rule_sets.values(), strict=True):
        local = names["RuleSet"](data)
        for _ in range(share(300)):
            if rule_set is policy.callability:
                agent = drawn.agent()
                read_ = reader.of_agent(agent, agent.name) | reader.of_server(drawn.server_facts(), "other")
                points = rule_set.points_of((read_ | reader.of_tool(drawn.tool_facts(), "other")).values)
            else:
                points = tuple(random.randrange(axis.size) for axis in rule_set.axes)
            verdict = rule_set.decide(points)
            values: dict[str, str] = {}
            for axis, point in zip(rule_set.axes, points, strict=True):
                readings = next(each for each, number in axis.points.items() if number == point)
                values |= {
                    fact.name: (*fact.values, "unknown")[reading]
                    for fact, reading in zip(axis.facts, readings, strict=True)
                }
            expected = (
                verdict.status.name,
                verdict.rule,
                verdict.withhold_text,
                [*rule_set.unread(verdict, points)],
            )
            assert local.decide(values) == expected


def test_the_page_lists_the_checks_with_the_codes_of_the_reader() -> None:
    """Each in the order in which the reader makes them, with the numbers of the reader."""
    table = PAGE.partition("| check | code |\n| --- | --- |\n")[2].partition("\n\n")[0]
    codes = dict.fromkeys(re.findall(r"\| `([a-z-]+)` \|$", table, re.MULTILINE))
    assert {*codes} == {*RefusalCode}
    assert f"{MAX_BYTES:,} bytes" in table
    assert f"`semantics` is {SEMANTICS}." in table
