"""A person's consent to a connection, requested through the agent that enables the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """Asks a person to authorize the connection to a server, at a URL of its provider.

    `id` cannot be guessed, so a caller that presents it has received this request.
    """

    id: str = field(repr=False)
    server: str
    url: str = field(repr=False)


class ConsentAnswer(StrEnum):
    """What a person did with the request: `accepted` means that they went to the URL, not that they authorized."""

    ACCEPTED = "accepted"
    DECLINED = "declined"


class Asker(Protocol):
    """How the caller of an enable can ask its user."""

    @property
    def can_ask(self) -> bool:
        """Whether it can show a dialog."""

    @property
    def asks_by_returning(self) -> bool:
        """Whether the request is returned as the result of the call, and the user's answer comes with another call."""

    async def ask(self, question: ConsentRequest) -> ConsentAnswer | None:
        """Show the dialog and return what the user did, or None if it could not be shown."""
