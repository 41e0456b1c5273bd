"""What came of loading the tools of servers: one outcome for each, the available ones included (L-6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from callability.adapter import NEUTRAL, Phrases, load_messages
from callability.gateway.upstream import UpstreamTool
from callability.v1.callability_service_pb2 import ClassifyLoadResponse
from callability.vocabulary import LoadStatus

Triple = tuple[list[UpstreamTool], list[str], list[str]]
"""All tools, the names of the servers that failed, and the error of each, in the same order."""


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What came of one load; `tools` are there when it is available, and `error`, safe to show (L-8), when it is not.

    `attempts` says how many tries it took. `answer` is what the policy service said of the failure; it is empty where
    there was none to ask about, or no answer.
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
        """The older shape, for callers that know it."""
        failed = {name: outcome.error for name, outcome in self.outcomes.items() if outcome.error is not None}
        tools = [tool for outcome in self.outcomes.values() for tool in outcome.tools]
        return tools, list(failed), list(failed.values())

    def messages(self, *, phrases: Phrases = NEUTRAL) -> dict[LoadStatus, str]:
        """Return, for each status but `available` that occurs, what an agent tells its user (L-7)."""
        return messages_of(self.outcomes, phrases=phrases)


def messages_of(outcomes: Mapping[str, LoadOutcome], *, phrases: Phrases) -> dict[LoadStatus, str]:
    """Return what an agent tells its user of the outcomes of some servers, by name (L-7)."""
    failed = {name: outcome for name, outcome in outcomes.items() if outcome.error is not None}
    answers = {name: outcome.answer for name, outcome in failed.items()}
    reasons = {name: outcome.error or "" for name, outcome in failed.items()}
    return load_messages(answers, reasons, phrases=phrases)
