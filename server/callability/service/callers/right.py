"""The rights of callers, and the right that each method needs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Right(StrEnum):
    """What a caller may call."""

    CHECK = "check"
    EXPLAIN = "explain"
    POLICY = "policy"
    VALIDATE = "validate"
    WATCH = "watch"


METHODS: Mapping[str, Right] = {
    "CheckTool": Right.CHECK,
    "CheckTools": Right.CHECK,
    "ClassifyLoad": Right.CHECK,
    "ClassifyEnable": Right.CHECK,
    "ExplainTool": Right.EXPLAIN,
    "GetPolicy": Right.POLICY,
    "ValidatePolicy": Right.VALIDATE,
    "WatchPolicy": Right.WATCH,
}
"""The right that each method of the contract needs."""


def right_of(path: str) -> Right | None:
    """Return the right that a method needs, by its path on the wire; None for one that any known caller may call."""
    return METHODS.get(path.rpartition("/")[2]) if path.startswith("/callability.") else None
