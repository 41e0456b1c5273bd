"""Verdicts and words as the contract has them, each written once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from callability.bounded_cache import BoundedCache
from callability.bundle.v1 import bundle_pb2
from callability.kernel.encoded_results import WordsKey
from callability.kernel.path import FactChange, Path, Step
from callability.kernel.policy import LocalPolicy
from callability.kernel.verdict import Verdict, Words
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2
from callability.vocabulary import Action, LiftedBy, Retry

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
        self._actions = {action.name: action for action in policy.actions}
        self._words = self._every_word()
        self._verdicts: BoundedCache[tuple[Verdict, Retry, tuple[str, ...]], verdict_pb2.ToolVerdict]
        self._verdicts = BoundedCache(MAX_UNDETERMINED)

    def verdict(self, verdict: Verdict, retry: Retry, unread: tuple[str, ...] = ()) -> verdict_pb2.ToolVerdict:
        """Return a verdict with whether trying again can help, and the facts that keep it undetermined."""
        key = verdict, retry, unread
        message = self._verdicts.get(key)
        if message is None:
            message = verdict_pb2.ToolVerdict(
                status=verdict.status.number,  # type: ignore[arg-type]  # checked when the bundle was read
                rule=verdict.rule,
                undetermined=verdict.undetermined,
                lifted_by=lifted_by_number(verdict.status.lifted_by),
                retry=retry_number(retry),
                withhold_text=verdict.withhold_text,
                unread=unread,
            )
            self._verdicts.keep(key, message)
        return message

    def words(self, verdict: Verdict) -> verdict_pb2.ToolWords | None:
        """Return what to say about a verdict; None if it is callable."""
        return self._words[verdict.status.number, verdict.words.rule] if verdict.words else None

    def path(self, path: Path) -> pb.PathToCallable:
        """Return a path to callable, or the rest of one."""
        return path_message(path, self._actions.values(), self.numbers)

    def encoded_words(self, keys: Iterable[WordsKey]) -> list[bytes]:
        """Return words, encoded, with those of the statuses of rules that have their own; by status, then rule."""
        wanted = {*keys, *((status, "") for status, _ in keys)}
        return [self._words[key].SerializeToString() for key in sorted(wanted)]

    def _every_word(self) -> dict[WordsKey, verdict_pb2.ToolWords]:
        """Return the words of each status and of each rule that has its own."""
        actions = self._actions
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


def path_message(path: Path, actions: Iterable[Action], numbers: Mapping[str, int]) -> pb.PathToCallable:
    """Return a path; `numbers` are those of the statuses."""
    phrases = {action.name: action.phrase for action in actions}

    def change_of(change: FactChange) -> pb.FactChange:
        return pb.FactChange(
            fact=change.fact.name,
            current=change.value,
            wanted=change.wanted,
            wanted_values=change.wanted_values,
            changed_by=lifted_by_number(change.fact.opened_by or LiftedBy.NONE),
            action=change.fact.action,
            phrase=phrases.get(change.fact.action, ""),
        )

    def step_of(step: Step) -> pb.PathStep:
        number = numbers[step.rule.status]
        return pb.PathStep(rule=step.rule.id, status=number, changes=map(change_of, step.changes))  # type: ignore[arg-type]  # of a newer version, it is kept as a number

    end = pb.PathEnd.Value(f"PATH_END_{path.end.upper()}")
    return pb.PathToCallable(steps=map(step_of, path.steps), end=end, find_out=path.find_out)


def lifted_by_number(owner: LiftedBy) -> verdict_pb2.LiftedBy.ValueType:
    """Return the number of who can lift or change something."""
    return verdict_pb2.LiftedBy.Value(f"LIFTED_BY_{owner.upper()}")


def retry_number(retry: Retry) -> verdict_pb2.Retry.ValueType:
    """Return the number of whether trying again can help."""
    return verdict_pb2.Retry.Value(f"RETRY_{retry.upper()}")


def _names(words: Words, action: str) -> bool:
    return any(action in _PLACEHOLDER.findall(text) for text in words.texts.values())
