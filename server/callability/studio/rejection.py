"""What an agent reads if it calls a tool with some facts: the adapter's own answer."""

from __future__ import annotations

from collections.abc import Sequence

from callability.adapter import NEUTRAL, rejection
from callability.kernel.path import Path
from callability.kernel.words import path_message, retry_number
from callability.policy.reporting.plain_data import Plain
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import Templates, declared_phrases, verdict_words
from callability.v1.callability_service_pb2 import CheckToolResponse
from callability.v1.verdict_pb2 import ToolStatus, ToolVerdict, ToolWords
from callability.vocabulary import Retry

SERVER, TOOL = "server", "tool"
"""The names that stand in an answer in place of those that the agent named."""


def rejection_of(
    verdict: Verdict, unread: Sequence[str], retry: Retry, rule_set: RuleSet, remaining: Path | None
) -> Plain | None:
    """Return the MCP tool result of a call, with the neutral phrases of the actions; None if the tool is called."""
    question = rule_set.question
    numbers = {str(each): ToolStatus.Value(f"TOOL_STATUS_{each.upper()}") for each in question.statuses}
    said = verdict_words(rule_set, verdict)
    number = ToolStatus.Value(f"TOOL_STATUS_{verdict.status.upper()}")
    response = CheckToolResponse(
        verdict=ToolVerdict(
            status=number,
            rule=verdict.rule,
            undetermined=verdict.undetermined,
            retry=retry_number(retry),
            unread=unread,
        ),
        words=_words(number, said.texts, rule_set) if said else None,
        remaining=path_message(remaining, question.actions, numbers) if remaining else None,
    )
    return rejection(response, SERVER, TOOL, phrases=NEUTRAL)


def _words(status: ToolStatus.ValueType, said: Templates, rule_set: RuleSet) -> ToolWords:
    """Return the words as the service sends them, with the phrases of declared actions."""
    phrases = declared_phrases(said, rule_set.question)
    return ToolWords(status=status, rejection=said["rejection"], phrases=phrases)
