"""The dialogs by which the caller of a tool can ask its user."""

from __future__ import annotations

from typing import Protocol

from mcp_types import InputRequiredResult

from callability.gateway.catalog import Answer, Asker, Question


class Dialogs(Asker, Protocol):
    """How the caller of a tool can ask its user, and what it was answered."""

    @property
    def question_id(self) -> str:
        """The id of the question that the call answers, or nothing."""

    @property
    def answer(self) -> Answer | None:
        """What the user did with that question."""

    def returned(self, question: Question) -> InputRequiredResult:
        """Return the result that asks a question."""


class NoDialogs:
    """A caller without a user who could be asked."""

    can_ask = False
    asks_by_returning = False
    question_id = ""
    answer: Answer | None = None

    def returned(self, question: Question) -> InputRequiredResult:
        """Never called: a caller that cannot ask is handed no question."""
        raise NotImplementedError(question.server)

    async def ask(self, question: Question) -> Answer | None:
        """Ask nobody."""
        return None
