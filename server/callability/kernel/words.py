"""Verdicts and words as the contract has them, each written once."""

from __future__ import annotations

import re
from collections.abc import Iterable

from callability.bounded_cache import BoundedCache
from callability.bundle.v1 import bundle_pb2
from callability.kernel.encoded_results import WordsKey
from callability.kernel.policy import LocalPolicy
from callability.kernel.verdict import Verdict, Words
from callability.v1 import verdict_pb2
from callability.vocabulary import LiftedBy, Retry

MAX_UNDETERMINED = 4_096
"""Different undetermined verdicts that are kept; they name the facts that are unread."""
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class ToolMessages:
    """The messages of the verdicts about tools, and of what to say about them. They are shared: do not change one.

    `numbers` has the number of each status by its name.
    """

    def __init__(self, policy: LocalPolicy) -> None:
        self._rules = policy.callability
        self.numbers = {status.name: status.number for status in self._rules.question.statuses}
        self._words = self._every_word(policy)
        self._verdicts: BoundedCache[tuple[Verdict, tuple[str, ...]], verdict_pb2.ToolVerdict]
        self._verdicts = BoundedCache(MAX_UNDETERMINED)

    def verdict(self, verdict: Verdict, unread: tuple[str, ...] = ()) -> verdict_pb2.ToolVerdict:
        """Return a verdict with the facts that keep it undetermined."""
        key = verdict, unread
        message = self._verdicts.get(key)
        if message is None:
            message = verdict_pb2.ToolVerdict(
                status=verdict.status.number,  # type: ignore[arg-type]  # checked when the bundle was read
                rule=verdict.rule,
                undetermined=verdict.undetermined,
                lifted_by=lifted_by_number(verdict.status.lifted_by),
                retry=retry_number(self._rules.retry(verdict, unread)),
                withhold_text=verdict.withhold_text,
                unread=unread,
            )
            self._verdicts.keep(key, message)
        return message

    def words(self, verdict: Verdict) -> verdict_pb2.ToolWords | None:
        """Return what to say about a verdict; None if it is callable."""
        return self._words[verdict.status.number, verdict.words.rule] if verdict.words else None

    def encoded_words(self, keys: Iterable[WordsKey]) -> list[bytes]:
        """Return words, encoded, with those of the statuses of rules that have their own; by status, then rule."""
        wanted = {*keys, *((status, "") for status, _ in keys)}
        return [self._words[key].SerializeToString() for key in sorted(wanted)]

    def _every_word(self, policy: LocalPolicy) -> dict[WordsKey, verdict_pb2.ToolWords]:
        """Return the words of each status and of each rule that has its own."""
        actions = {action.name: action for action in policy.actions}
        declared = {
            fact.action
            for fact in self._rules.question.facts.values()
            if fact.kind == bundle_pb2.FACT_KIND_DECLARED and fact.action in actions
        }
        own = [(self.numbers[rule.status], rule.words) for rule in self._rules.rules if rule.words]
        of_status = [(self.numbers[status], words) for status, words in self._rules.status_words.items()]
        return {
            (number, words.rule): verdict_pb2.ToolWords(
                status=number,  # type: ignore[arg-type]  # of a newer version, it is kept as a number
                rule=words.rule,
                remediation=words.texts["remediation"],
                rejection=words.texts["rejection"],
                phrases={name: actions[name].phrase for name in declared if _names(words, name)},
            )
            for number, words in (*of_status, *own)
        }


def lifted_by_number(owner: LiftedBy) -> verdict_pb2.LiftedBy.ValueType:
    """Return the number of who can lift or change something."""
    return verdict_pb2.LiftedBy.Value(f"LIFTED_BY_{owner.upper()}")


def retry_number(retry: Retry) -> verdict_pb2.Retry.ValueType:
    """Return the number of whether trying again can help."""
    return verdict_pb2.Retry.Value(f"RETRY_{retry.upper()}")


def _names(words: Words, action: str) -> bool:
    return any(action in _PLACEHOLDER.findall(text) for text in words.texts.values())
