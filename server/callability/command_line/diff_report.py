"""The report of `callability diff`, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from callability.command_line.conditions import condition_text
from callability.command_line.terminal import number_of
from callability.command_line.tool_change import ToolChange
from callability.policy.reporting.difference import Impact, PolicyChange
from callability.policy.reporting.plain_data import of_change


def as_text(changes: Sequence[PolicyChange], tools: Sequence[ToolChange] | None, *, unknown: bool) -> str:
    """Return changes in their order as text, and last how many answers changed.

    Changes about unknown facts take one line for each kind, unless `unknown`.
    """
    folded = [change for change in changes if change.unknown and not unknown]
    lines = [line for change in changes if unknown or not change.unknown for line in _lines(change)]
    lines += _folded(folded)
    count = sum(change.combinations for change in changes)
    lines.append(f"{number_of(count, 'answer')} changed" if changes else "no answer changes")
    if folded:
        lines[-1] += f", {sum(change.combinations for change in folded):,} of them about unknown facts"
        lines[-1] += " (`--unknown` prints these in full)"
    if tools is not None:
        lines += [f"  {each.tool}: {each.before} -> {each.after}" for each in tools]
        lines.append(f"{number_of(len(tools), 'tool')} of the inventory changed" if tools else "no tool changes")
    return "\n".join(lines)


def as_json(changes: Sequence[PolicyChange], tools: Sequence[ToolChange] | None) -> str:
    """Return all changes in their order as one JSON object."""
    answer: dict[str, Any] = {"changes": list(map(of_change, changes))}
    if tools is not None:
        answer["tools"] = [asdict(each) for each in tools]
    return json.dumps(answer, indent=2)


def _folded(changes: Iterable[PolicyChange]) -> Iterator[str]:
    """Yield a line for each kind of changes."""
    counts: dict[tuple[Impact, str], int] = {}
    for change in changes:
        kind = change.impact, _what(change)
        counts[kind] = counts.get(kind, 0) + change.combinations
    for (_, what), count in sorted(counts.items(), key=lambda each: (each[0][0], -each[1])):
        yield f"{what}, in {number_of(count, 'combination')} with unknown facts"


def _lines(change: PolicyChange) -> Iterator[str]:
    yield f"{_what(change)}, in {number_of(change.combinations, 'combination')}"
    for condition in change.where:
        yield f"  where {condition_text(condition)}"
    before, after = (", ".join(rules) for rules in change.rules)
    yield f"  by    {before}" if before == after else f"  by    {before} before, {after} after"
    yield f"  e.g.  {_example(change)}"
    yield from _words(change)


def _what(change: PolicyChange) -> str:
    before, after = change.before.status, change.after.status
    return (
        f"{change.question}: {before}: other words" if change.words_only else f"{change.question}: {before} -> {after}"
    )


def _words(change: PolicyChange) -> Iterator[str]:
    before, after = change.before.words or {}, change.after.words or {}
    if change.words_only:
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                yield f"  - {name}: {before.get(name, '')}"
                yield f"  + {name}: {after.get(name, '')}"


def _example(change: PolicyChange) -> str:
    return " ".join(f"{fact}={value}" for fact, value in _restricted(change).items()) or "every fact at its default"


def _restricted(change: PolicyChange) -> Mapping[str, str]:
    """Return what of the example some condition names."""
    named = {fact for condition in change.where for fact in condition}
    return {fact: value for fact, value in change.example.items() if fact in named}
