"""What a bundle holds, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from callability.finding import shown
from callability.kernel.policy import LocalPolicy
from callability.kernel.rule_set import RuleSet


def as_data(policy: LocalPolicy, rule_files: Sequence[str]) -> dict[str, Any]:
    """Return what a bundle holds as JSON has it. Counts of any size are numbers."""
    return {
        "revision": policy.revision,
        "digest": policy.digest,
        "sequence": policy.sequence,
        "semantics": policy.semantics,
        "bytes": policy.size,
        "key_ids": [*policy.key_ids],
        "rule_files": [*rule_files],
        "rule_sets": [_rule_set(each) for each in policy.rule_sets.values()],
        "actions": [
            {"name": each.name, "owner": each.owner, "fact": each.fact, "phrase": each.phrase}
            for each in policy.actions
        ],
    }


def as_text(policy: LocalPolicy, rule_files: Sequence[str]) -> str:
    """Return what a bundle holds for people: a line for each fact about it."""
    return "\n".join(_lines(policy, rule_files))


def _lines(policy: LocalPolicy, rule_files: Sequence[str]) -> Iterator[str]:
    yield f"revision   {policy.revision}"
    yield f"digest     {policy.digest}"
    yield f"sequence   {policy.sequence or '0 (not counted)'}"
    yield f"semantics  {policy.semantics}"
    yield f"bytes      {policy.size:,}"
    yield f"signed by  {', '.join(policy.key_ids) or 'nobody'}"
    yield f"rule files {', '.join(map(shown, rule_files)) or 'none'}"
    for rule_set in policy.rule_sets.values():
        counts = rule_set.counts
        yield ""
        yield rule_set.question.name
        yield f"  facts        {', '.join(rule_set.facts)}"
        yield f"  rules        {', '.join(rule.id for rule in rule_set.rules)}"
        yield f"  proved       {counts.combinations:,} combinations, {counts.regions:,} regions, {counts.laws:,} laws"
        yield f"  tested       {counts.witnesses:,} combinations by the reference evaluator, {counts.tests:,} tests"


def _rule_set(rule_set: RuleSet) -> dict[str, Any]:
    counts = rule_set.counts
    return {
        "question": rule_set.question.name,
        "facts": [{"name": name, "values": [*rule_set.question.facts[name].values]} for name in rule_set.facts],
        "rules": [
            {"id": each.id, "status": each.status, "line": each.line, "column": each.column} for each in rule_set.rules
        ],
        "laws": [each.name for each in rule_set.laws],
        "combinations": counts.combinations,
        "regions": counts.regions,
        "witnesses": counts.witnesses,
        "confirmed_regions": counts.confirmed_regions,
        "tests": counts.tests,
    }
