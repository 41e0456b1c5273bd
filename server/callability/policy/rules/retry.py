"""Whether a later try can read the facts that keep a verdict undetermined."""

from __future__ import annotations

from collections.abc import Iterable

from callability.policy.questions.question import Question
from callability.vocabulary import Retry


def retry_of(question: Question, status: str, facts: Iterable[str]) -> Retry:
    """Return whether trying again can help with a status and its unread facts: not if one of these stays unknown."""
    if any(question.facts[name].stays_unknown for name in facts):
        return Retry.NEVER
    return question.status(status).retry
