"""Statuses, words, rules and verdicts of a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callability.kernel.condition import Condition, facts_read
from callability.vocabulary import LiftedBy, Retry


@dataclass(frozen=True, slots=True)
class Status:
    """A status and its fixed properties; `number` is that of the contract. The last three are about enables."""

    name: str
    number: int
    lifted_by: LiftedBy
    retry: Retry
    error: bool
    entry: int
    tools_changed: int


@dataclass(frozen=True, slots=True)
class Words:
    """Templates by the name of the text, and the rule that they belong to; empty: they are those of the status."""

    rule: str
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition and the status that it gives; without a condition it always holds. Its place is line and column."""

    id: str
    when: Condition | None
    status: str
    line: int
    column: int
    words: Words | None

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that its condition reads, in the order of the text."""
        return facts_read(self.when) if self.when else ()


@dataclass(frozen=True, slots=True)
class Law:
    """A statement that was proved of the statuses wherever its condition holds."""

    name: str
    when: Condition | None
    statuses: tuple[str, ...]
    always: bool
    line: int
    column: int


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """An answer: a status, the rule that gave it or was reached undetermined, and what to say about it.

    `withhold_text`: text of the upstream must neither be shown nor searched. There is one object for each verdict of a
    rule set.
    """

    status: Status
    rule: str
    undetermined: bool
    withhold_text: bool
    words: Words | None


@dataclass(frozen=True, slots=True)
class Counts:
    """What was proved and tested when the bundle was built."""

    combinations: int
    regions: int
    witnesses: int
    confirmed_regions: int
    tests: int
    laws: int
