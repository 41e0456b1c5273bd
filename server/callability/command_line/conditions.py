"""Conditions in one line, as rule files write them."""

from __future__ import annotations

from collections.abc import Mapping


def condition_text(facts: Mapping[str, tuple[str, ...]]) -> str:
    """Return a condition; without a fact it holds everywhere."""
    conditions = (f"{fact}: {_values(values)}" for fact, values in facts.items())
    return ", ".join(conditions) or "everywhere"


def _values(values: tuple[str, ...]) -> str:
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
