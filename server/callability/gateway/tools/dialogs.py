"""How the caller of a tool can ask its user for consent."""

from __future__ import annotations

from typing import Protocol

from mcp_types import InputRequiredResult

from callability.gateway.catalog import Asker, ConsentAnswer, ConsentRequest


class Dialogs(Asker, Protocol):
    """How the caller of a tool can ask its user, and what it was answered."""

    @property
    def consent_id(self) -> str:
        """The id of the request that the call answers; empty if it answers none."""

    @property
    def answer(self) -> ConsentAnswer | None:
        """What the user did with that request."""

    def returned(self, question: ConsentRequest) -> InputRequiredResult:
        """Return the result that requests consent."""


class NoDialogs:
    """A caller without a user who could be asked."""

    can_ask = False
    asks_by_returning = False
    consent_id = ""
    answer: ConsentAnswer | None = None

    def returned(self, question: ConsentRequest) -> InputRequiredResult:
        """Never called: a caller that cannot ask gets no request."""
        raise NotImplementedError(question.server)

    async def ask(self, question: ConsentRequest) -> ConsentAnswer | None:
        """Ask nobody."""
        return None
