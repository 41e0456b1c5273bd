"""The outcomes of loading the tools of servers, one for each, the available ones included (L-6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from callability.adapter import NEUTRAL, Phrases, load_messages
from callability.adapter.shown_text import abridged
from callability.gateway.upstream import UpstreamTool
from callability.v1.callability_service_pb2 import ClassifyLoadResponse
from callability.vocabulary import LoadStatus

Triple = tuple[list[UpstreamTool], list[str], list[str]]
"""All tools, the names of the servers that failed, and the error of each, in the same order."""


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The outcome of one load: `tools` if it is available, and otherwise `error`, which is safe to show (L-8).

    `attempts` is the number of tries. `answer` is the classification by the policy service; it is empty if there was
    no failure, or no answer.
    """

    server_id: str
    status: LoadStatus
    tools: tuple[UpstreamTool, ...]
    error: str | None
    attempts: int
    answer: ClassifyLoadResponse = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The outcomes of all servers, by name."""

    outcomes: Mapping[str, LoadOutcome]

    @property
    def triple(self) -> Triple:
        """The outcomes as `(all_tools, failed_servers, failed_errors)`, for callers of the older shape (L-6)."""
        failed = {name: outcome.error for name, outcome in self.outcomes.items() if outcome.error is not None}
        tools = [tool for outcome in self.outcomes.values() for tool in outcome.tools]
        return tools, list(failed), list(failed.values())

    def messages(self, *, phrases: Phrases = NEUTRAL) -> dict[LoadStatus, str]:
        """Return, for each status but `available` that occurs, what an agent says to its user (L-7)."""
        return messages_of(self.outcomes, phrases=phrases)


def messages_of(outcomes: Mapping[str, LoadOutcome], *, phrases: Phrases) -> dict[LoadStatus, str]:
    """Return what an agent says to its user about the outcomes of some servers, by status (L-7)."""
    failed = {name: outcome for name, outcome in outcomes.items() if outcome.error is not None}
    answers = {name: outcome.answer for name, outcome in failed.items()}
    reasons = {name: abridged(outcome.error or "") for name, outcome in failed.items()}
    return load_messages(answers, reasons, phrases=phrases)
