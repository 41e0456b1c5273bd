"""Verdicts and words as the contract has them, encoded once, and joined as bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, Protocol

from callability.bundle.v1 import bundle_pb2
from callability.contract.enum_words import LIFTED_BY, PATH_END, RETRY
from callability.contract.vocabulary import Action, LiftedBy, Retry
from callability.kernel.limits import InvalidRequest
from callability.kernel.path import FactChange, Path, Step
from callability.kernel.policy import LocalPolicy
from callability.kernel.rule_set import Verdict, Words
from callability.process.bounded_cache import BoundedCache
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2

WordsKey = tuple[int, str]
"""The number of a status, and a rule or nothing."""


class Cause(StrEnum):
    """Why a fact is unknown, or that it is not declared and so ignored."""

    LEFT_OUT = "left_out"
    NOT_UNDERSTOOD = "not_understood"
    UNDECLARED = "undeclared"


class Gap(NamedTuple):
    """A fact that keeps a decision undetermined, of which question, and why it is unknown.

    A declared fact that the rule file does not declare keeps no decision undetermined. It is counted too, not by its
    name, which any caller may invent, but by what it is a fact of: `server`, `tool` or `agent`.
    """

    question: str
    fact: str
    cause: Cause


class Counted(NamedTuple):
    """What a verdict is counted by; `rule` is empty for an undetermined verdict or an error of an item."""

    question: str
    status: str
    rule: str


class Observer(Protocol):
    """What counts decisions. It never learns names or values."""

    def count_verdict(self, kind: Counted) -> None:
        """Count a verdict."""

    def decided_batch(
        self, fresh: Sequence[Sequence[EncodedResult]], again: Sequence[EncodedServerResults], tools: int
    ) -> None:
        """Count the results of a batch about so many tools: decided now, or kept."""

    def count_gaps(self, found: Mapping[Gap, int]) -> None:
        """Count how many decisions had each gap."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedResult:
    """The result for one tool: a verdict or an error, with the number of its status.

    `locked`: a rule locks the tool, so that further locks may remain.
    `encoded` are its bytes in a `ServerResults`, `reply` those of a `CheckToolResponse`. `words` names the words that
    belong to it, `gaps` are the facts that keep it undetermined and those that are not declared, and `counted` is what
    it is counted by.
    """

    number: int
    encoded: bytes
    counted: Counted
    words: WordsKey | None = None
    error: InvalidRequest | None = None
    reply: bytes = b""
    gaps: tuple[Gap, ...] = ()
    locked: bool = False

    def with_gaps(self, gaps: tuple[Gap, ...]) -> EncodedResult:
        """Return the result with further gaps; itself if there are none."""
        return replace(self, gaps=(*self.gaps, *gaps)) if gaps else self

    def check(self) -> None:
        """Check that it is a verdict.

        Raises:
            InvalidRequest: it is an error.
        """
        if self.error is not None:
            raise type(self.error)(self.error.reason, self.error.message)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedServerResults:
    """The results for the tools of one server: a `ServerResults` encoded, and the words for it.

    `gaps` are the facts that keep some of them undetermined, and those that are not declared, each with their number.
    """

    results: Sequence[EncodedResult]
    encoded: bytes
    words: frozenset[WordsKey]
    gaps: Mapping[Gap, int]
    _kinds: list[tuple[Counted, int]] = field(default_factory=list)

    @property
    def tools(self) -> int:
        """The number of tools."""
        return len(self.results)

    @property
    def kinds(self) -> Sequence[tuple[Counted, int]]:
        """What the results are counted by, each with the number of tools; found when first needed."""
        if not self._kinds:
            self._kinds.extend(Counter(result.counted for result in self.results).items())
        return self._kinds


def gaps_of(question: str, unread: Iterable[str], not_understood: frozenset[str] = frozenset()) -> tuple[Gap, ...]:
    """Return the gaps of a decision with some unread facts, some of which were sent and not understood."""
    return tuple(
        Gap(question, fact, Cause.NOT_UNDERSTOOD if fact in not_understood else Cause.LEFT_OUT) for fact in unread
    )


def undeclared_gaps(subject: str, times: int) -> tuple[Gap, ...]:
    """Return the gaps of facts of a server, a tool or an agent that the rule file does not declare."""
    return (Gap("callability", subject, Cause.UNDECLARED),) * times


def join_results(results: Sequence[EncodedResult], of_server: Sequence[Gap] = ()) -> EncodedServerResults:
    """Return the results for the tools of a server as one, with further gaps of the server itself."""
    each = Counter(results)
    words = frozenset(result.words for result in each if result.words)
    numbers: Counter[int] = Counter()
    for result, count in each.items():
        numbers[result.number] += count
    counts = [_count(number, numbers[number]) for number in sorted(numbers)]
    encoded = b"".join([*[result.encoded for result in results], *counts])
    return EncodedServerResults(results, encoded, words, _gaps_among(each, of_server))


def _gaps_among(results: Mapping[EncodedResult, int], of_server: Sequence[Gap]) -> Mapping[Gap, int]:
    found: dict[Gap, int] = {}
    for result, count in results.items():
        for gap in result.gaps:
            found[gap] = found.get(gap, 0) + count
    for gap in of_server:
        found[gap] = found.get(gap, 0) + 1
    return found


@lru_cache(maxsize=4_096)
def _count(number: int, count: int) -> bytes:
    counted = verdict_pb2.StatusCount(status=number, count=count)  # type: ignore[arg-type]  # of any version
    return pb.ServerResults(counts=[counted]).SerializeToString()


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
                lifted_by=LIFTED_BY.numbers[verdict.status.lifted_by],
                retry=RETRY.numbers[retry],
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
            changed_by=LIFTED_BY.numbers[change.fact.opened_by or LiftedBy.NONE],
            action=change.fact.action,
            phrase=phrases.get(change.fact.action, ""),
        )

    def step_of(step: Step) -> pb.PathStep:
        number = numbers[step.rule.status]
        return pb.PathStep(rule=step.rule.id, status=number, changes=map(change_of, step.changes))  # type: ignore[arg-type]  # of a newer version, it is kept as a number

    end = PATH_END.numbers[path.end]
    return pb.PathToCallable(steps=map(step_of, path.steps), end=end, find_out=path.find_out)


def _names(words: Words, action: str) -> bool:
    return any(action in _PLACEHOLDER.findall(text) for text in words.texts.values())
