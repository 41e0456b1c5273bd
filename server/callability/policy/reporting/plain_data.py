"""Reports about a policy as plain data for JSON, shared by commands and the studio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callability.kernel.explanation import Trial
from callability.kernel.path import FactChange, Path
from callability.policy.reporting.difference import PolicyChange
from callability.policy.reporting.rows import Row
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict
from callability.vocabulary import LiftedBy, Retry

Plain = dict[str, Any]
"""A JSON object."""
MOST_EXACT = 2**53
"""The largest number up to which a reader of JSON that has floating-point numbers alone keeps every integer."""


def of_count(count: int) -> int | str:
    """Return a count, as a string if readers of JSON could round it."""
    return count if count <= MOST_EXACT else str(count)


def of_verdict(verdict: Verdict, unread: Sequence[str], retry: Retry, rule_set: RuleSet) -> Plain:
    """Return a verdict, the facts that keep it undetermined, and whether to try again; with who lifts its status."""
    status = rule_set.question.status(verdict.status)
    data: Plain = {
        "status": status,
        "rule": verdict.rule,
        "undetermined": verdict.undetermined,
        "lifted_by": status.lifted_by,
        "retry": retry,
    }
    if verdict.undetermined:
        data["unread"] = list(unread)
    if verdict.withhold_text is not None:
        data["withhold_text"] = verdict.withhold_text
    return data


def of_trial(trial: Trial) -> Plain:
    """Return a rule that was tried."""
    return {
        "rule": trial.rule.id,
        "status": trial.rule.status,
        "truth": {True: "true", False: "false", None: "undetermined"}[trial.truth],
        "reads": dict(trial.reads),
        "why": trial.why,
    }


def of_path(path: Path) -> Plain:
    """Return a path to callable."""
    return {
        "steps": [
            {"rule": step.rule.id, "status": step.rule.status, "changes": list(map(_of_fact_change, step.changes))}
            for step in path.steps
        ],
        "end": path.end,
        "find_out": path.find_out,
    }


def of_row(row: Row) -> Plain:
    """Return a row of a decision table."""
    return {
        "facts": {fact: list(values) for fact, values in row.facts.items()},
        "status": row.status,
        "rule": row.rule,
        "undetermined": row.undetermined,
        "combinations": of_count(row.combinations),
    }


def of_change(change: PolicyChange) -> Plain:
    """Return what a change of a policy changes."""
    return {
        "question": change.question,
        "before": {"status": change.before.status, "words": change.before.words, "rules": change.rules[0]},
        "after": {"status": change.after.status, "words": change.after.words, "rules": change.rules[1]},
        "combinations": of_count(change.combinations),
        "unknown": change.unknown,
        "where": change.where,
        "example": change.example,
    }


def _of_fact_change(change: FactChange) -> Plain:
    return {
        "fact": change.fact.name,
        "current": change.value,
        "wanted": change.wanted,
        "wanted_values": change.wanted_values,
        "changed_by": change.fact.opened_by or LiftedBy.NONE,
        "action": change.fact.action,
    }
