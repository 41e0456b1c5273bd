"""Counting records: by rule, agent, tool and day, the agents that keep hitting one lock, and what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from callability.records.format import Ended
from callability.records.reading import object_in

LAST_CHANGES = 50
"""Changes that are kept; the others are counted."""


@dataclass(slots=True)
class Tally:
    """What records say together. Each count is of decisions, each of which counts once."""

    first: str = ""
    last: str = ""
    decisions: int = 0
    repeated: int = 0
    """Records of a service whose caller recorded the decision too."""
    by_ended: Counter[str] = field(default_factory=Counter)
    by_rule: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """By question, status and rule."""
    by_agent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By agent and outcome: a status, or how the call ended if no policy decided it."""
    by_tool: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_day: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_server: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Loads, by server, status and rule."""
    last_load: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The time and the status of the last load of each server."""
    hits: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """Refused calls by agent, tool, status and rule."""
    out_of_scope: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Calls by agent of servers that it may not see."""
    shadow: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Decisions that a candidate would have made otherwise, by both statuses."""
    changes: list[Mapping[str, Any]] = field(default_factory=list)
    by_change: Counter[str] = field(default_factory=Counter)

    def add_all(self, lines: Iterable[bytes], *, may_repeat: bool) -> None:
        """Count records. With `may_repeat`, a decision of which a gateway has a record counts once."""
        known = set[str]()
        for line in lines:
            record = object_in(line)
            if record is None:
                continue
            if record.get("kind") == "change":
                self._add_change(record)
            elif record.get("kind") == "decision":
                number = str(record.get("id"))
                if may_repeat and record.get("by") == "service" and number in known:
                    self.repeated += 1
                    continue
                if may_repeat and record.get("by") != "service":
                    known.add(number)
                self._add_decision(record)

    def never_decided(self, rules: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return those of some rules, each with its question, that decided nothing here."""
        decided = {(question, rule) for question, _, rule in self.by_rule}
        return [each for each in rules if each not in decided]

    def _add_decision(self, record: Mapping[str, Any]) -> None:
        time, ended = str(record.get("time", "")), str(record.get("ended", ""))
        question, agent = str(record.get("question", "")), str(record.get("agent", ""))
        server, tool = str(record.get("server", "")), str(record.get("tool", ""))
        status, rule = str(record.get("status", "")), str(record.get("rule", ""))
        self._seen(time)
        self.decisions += 1
        outcome = status or ended
        self.by_ended[ended] += 1
        self.by_day[time[:10], outcome] += 1
        if status:
            self.by_rule[question, status, rule] += 1
        if question == "load":
            self.by_server[server, status, rule] += 1
            if server:
                self.last_load[server] = max(self.last_load.get(server, ("", "")), (time, status))
            return
        name = f"{server}:{tool}" if tool else server
        self.by_agent[agent, outcome] += 1
        if question == "tool":
            self.by_tool[name, outcome] += 1
            if status not in ("", "callable"):
                self.hits[agent, name, status, rule] += 1
            if ended == Ended.OUT_OF_SCOPE:
                self.out_of_scope[agent, name] += 1
        shadow = record.get("shadow")
        if isinstance(shadow, dict):
            self.shadow[status, str(shadow.get("status", ""))] += 1

    def _add_change(self, record: Mapping[str, Any]) -> None:
        self._seen(str(record.get("time", "")))
        self.by_change[str(record.get("change", ""))] += 1
        self.changes.append(record)
        if len(self.changes) > 2 * LAST_CHANGES:
            self.changes = self.last_changes

    @property
    def last_changes(self) -> list[Mapping[str, Any]]:
        """The last changes, in the order of their time."""
        return sorted(self.changes, key=lambda each: str(each.get("time", "")))[-LAST_CHANGES:]

    def _seen(self, time: str) -> None:
        self.first = min(self.first or time, time)
        self.last = max(self.last, time)
