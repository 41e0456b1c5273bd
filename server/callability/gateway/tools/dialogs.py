"""The dialogs by which the caller of a tool can ask its user."""

from __future__ import annotations

from typing import Protocol

from mcp_types import InputRequiredResult

from callability.gateway.catalog import Asker, ConsentAnswer, ConsentRequest


class Dialogs(Asker, Protocol):
    """How the caller of a tool can ask its user, and what it was answered."""

    @property
    def consent_id(self) -> str:
        """The id of the question that the call answers, or nothing."""

    @property
    def answer(self) -> ConsentAnswer | None:
        """What the user did with that question."""

    def returned(self, question: ConsentRequest) -> InputRequiredResult:
        """Return the result that asks a question."""


class NoDialogs:
    """A caller without a user who could be asked."""

    can_ask = False
    asks_by_returning = False
    consent_id = ""
    answer: ConsentAnswer | None = None

    def returned(self, question: ConsentRequest) -> InputRequiredResult:
        """Never called: a caller that cannot ask is handed no question."""
        raise NotImplementedError(question.server)

    async def ask(self, question: ConsentRequest) -> ConsentAnswer | None:
        """Ask nobody."""
        return None
