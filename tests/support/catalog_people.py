"""Callers of `enable_server`, their users, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from mcp_types import CallToolResult, InputRequiredResult, TextContent

from callability.gateway.catalog.attempt import ConsentAnswer, ConsentRequest
from callability.gateway.tools.dispatch import Gateway
from support.catalog_model import Kind

LOOKS: Mapping[str, Callable[[str], dict[str, str]]] = {
    "search_servers": lambda name: {"query": name},
    "upstream_servers": lambda _: {},
    "retrieve_tools": lambda _: {"query": "do"},
    "call_tool": lambda name: {"name": f"{name}:do"},
}
"""The tools that change nothing, and their arguments about a server."""


class Person:
    """The caller of an enable, and the user behind it."""

    def __init__(self, kind: Kind, consent_id: str = "", answer: ConsentAnswer | None = None) -> None:
        self.can_ask = kind != "mute"
        self.asks_by_returning = kind == "returning"
        self.consent_id = consent_id
        self.answer = answer
        self.question: ConsentRequest | None = None
        self.dialog: asyncio.Future[ConsentAnswer | None] | None = None

    def request_of(self, question: ConsentRequest) -> InputRequiredResult:
        """Record the request."""
        self.question = question
        return InputRequiredResult(input_requests={}, request_state=question.id)

    async def ask(self, question: ConsentRequest) -> ConsentAnswer | None:
        """Wait for what the test lets the user do."""
        self.question = question
        self.dialog = asyncio.get_running_loop().create_future()
        try:
            return await self.dialog
        finally:
            self.dialog = None


class Callers:
    """All calls of `enable_server` of one test, by number."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._people: dict[int, Person] = {}
        self._calls: dict[int, asyncio.Task[Any]] = {}

    @property
    def returned(self) -> tuple[int, ...]:
        """The callers that got a consent request, and have not come again."""
        came_again = {person.consent_id for person in self._people.values()}
        returning = ((n, each.question) for n, each in self._people.items() if each.asks_by_returning)
        return tuple(number for number, question in returning if question and question.id not in came_again)

    @property
    def waiting(self) -> tuple[int, ...]:
        """The callers without an answer."""
        return tuple(number for number, call in self._calls.items() if not call.done())

    @property
    def dialogs(self) -> tuple[int, ...]:
        """The callers whose users see a dialog."""
        return tuple(number for number, person in self._people.items() if person.dialog is not None)

    @property
    def questions(self) -> tuple[ConsentRequest, ...]:
        """The consent requests."""
        return tuple(person.question for person in self._people.values() if person.question)

    @property
    def reported(self) -> dict[int, str]:
        """The visible state of each caller."""
        return {number: self._report_of(number, call) for number, call in self._calls.items()}

    def enable(self, number: int, kind: Kind, name: str) -> None:
        """Let a caller come."""
        self._call(number, name, Person(kind))

    def again(self, number: int, earlier: int, answer: str | None) -> None:
        """Let a caller come again, with its user's answer."""
        question = self._people[earlier].question
        assert question is not None
        self._call(number, question.server, Person("returning", question.id, ConsentAnswer(answer) if answer else None))

    def cancel(self, number: int) -> None:
        """Let a caller leave, if it is there."""
        if number in self._calls:
            self._calls[number].cancel()

    def dialog(self, number: int, answer: str | None) -> None:
        """Let a user act on a dialog, if there is one, or make it one that cannot be shown."""
        dialog = self._people[number].dialog if number in self._people else None
        if dialog is not None and not dialog.done():
            dialog.set_result(ConsentAnswer(answer) if answer else None)

    def _call(self, number: int, name: str, person: Person) -> None:
        self._people[number] = person
        answer = self._gateway.answer("enable_server", {"id": name}, dialogs=person)
        self._calls[number] = asyncio.create_task(answer, name=f"caller {number}")

    def _report_of(self, number: int, call: asyncio.Task[Any]) -> str:
        if not call.done():
            return "asked" if self._people[number].dialog else "waiting"
        if call.cancelled():
            return "gone"
        answer = call.result()
        return "returned" if isinstance(answer, InputRequiredResult) else _status(answer)


async def states_of(gateway: Gateway) -> dict[str, str]:
    """Return the state of each server of the catalog, as an agent sees it."""
    shown = await gateway.answer("search_servers", {})
    assert isinstance(shown, CallToolResult)
    return {entry["id"]: entry["state"] for entry in (shown.structured_content or {})["servers"]}


def _status(answer: CallToolResult) -> str:
    """Return the status of an enable, after checking that words and numbers agree with it."""
    reported: Mapping[str, Any] = answer.structured_content or {}
    status: str = reported["status"]
    [block] = answer.content
    assert isinstance(block, TextContent)
    connected = status in ("enabled", "already_enabled")
    assert block.text.startswith(f"{'Connected' if connected else 'Not connected'}: {status}.")
    assert reported["tools_changed"] == (status == "enabled")
    assert answer.is_error == (status not in ("enabled", "already_enabled", "authorization_required"))
    return status
