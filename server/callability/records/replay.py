"""Deciding records again by another policy, and counting them; equal facts are decided once, whatever their number."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict, ParseError

from callability.kernel.calls import EncodedCalls
from callability.kernel.envelope import BundleRefused
from callability.kernel.limits import InvalidRequest
from callability.kernel.policy import LocalPolicy
from callability.process.bounded_cache import BoundedCache
from callability.records.format import Ended, Question, enable_verdict, load_verdict, tool_status
from callability.records.reading import object_in
from callability.v1 import callability_service_pb2 as pb

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
        self._note_time(time)
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
        self._note_time(str(record.get("time", "")))
        self.by_change[str(record.get("change", ""))] += 1
        self.changes.append(record)
        if len(self.changes) > 2 * LAST_CHANGES:
            self.changes = self.last_changes

    @property
    def last_changes(self) -> list[Mapping[str, Any]]:
        """The last changes, in the order of their time."""
        return sorted(self.changes, key=lambda each: str(each.get("time", "")))[-LAST_CHANGES:]

    def _note_time(self, time: str) -> None:
        self.first = min(self.first or time, time)
        self.last = max(self.last, time)


MAX_KEPT = 100_000
"""Facts whose verdict is kept."""
MAX_FACTS_BYTES = 16_384
MAX_GROUPS = 65_536
"""Groups of equal decisions that are counted before they are added up."""
MAX_GROUP_BYTES = 64 * 1024 * 1024
"""How long their texts are together at most."""
EXAMPLES = 20
"""Tools that are named of each change."""
_TEXT = rb'"([^"\\]*(?:\\.[^"\\]*)*)"'
_START = rb'\{"v":1,"n":\d+,"kind":"decision","time":"[^"]*","id":' + _TEXT + rb',"by":"(\w+)","question":"(\w+)"'
_HEAD = re.compile(_START)
_ABOUT, _AFTER = b',"agent":"', b',"ended":"'
"""What stands before and behind the names, the facts and the verdict; within a text, its quotes would be escaped."""
_DECISION = re.compile(
    _START
    + rb'(?:,"caller":"[^"\\]*(?:\\.[^"\\]*)*")?(?:,"traceparent":"[^"]*")?,"agent":'
    + _TEXT
    + rb'(?:,"server":'
    + _TEXT
    + rb')?(?:,"tool":'
    + _TEXT
    + rb')?,"facts":(\{.*\}),"revision":"\w*"(?:,"semantics":\d+)?,"status":"(\w+)","rule":'
    + _TEXT
    + rb',"undetermined":(true|false),'
)
"""A decision as it is written here; one of another writer may have its members in another order."""


class PlainRecord(NamedTuple):
    """What is needed of a decision: names, facts and verdict as they are written."""

    id: bytes
    by: str
    question: str
    agent: str
    server: str
    tool: str
    facts: bytes
    status: str
    rule: str
    undetermined: bool


@dataclass(slots=True)
class _Group:
    """Decisions that are written alike from the agent to the verdict: the first one, and how many there are."""

    record: PlainRecord
    number: int = 0


class Again(NamedTuple):
    """A verdict of the other policy; `decided` is False if the facts cannot be decided."""

    status: str
    rule: str
    undetermined: bool
    decided: bool = True


class Changed(NamedTuple):
    """A kind of change: the question, and the status before and after."""

    question: str
    before: str
    after: str


@dataclass(slots=True)
class Differences:
    """What would be different: how many records of each kind, by which rules, and some of their tools."""

    decided: int = 0
    undecided: int = 0
    """Records of calls that no policy decided."""
    unfit: int = 0
    """Records whose facts this program cannot read."""
    repeated: int = 0
    """Records of a service whose caller recorded the decision too."""
    found: Counter[Changed] = field(default_factory=Counter)
    rules: dict[Changed, Counter[tuple[str, str]]] = field(default_factory=dict)
    examples: dict[Changed, dict[str, None]] = field(default_factory=dict)

    @property
    def ordered(self) -> list[Changed]:
        """The kinds by their effect on people: what becomes locked, what becomes callable, and the others."""
        return sorted(self.found, key=lambda each: (_effect(each), each))

    def add(self, record: PlainRecord, again: Again, number: int = 1) -> None:
        """Count a decision and those that are equal to it; their answer changes if its status does."""
        if not again.decided:
            self.unfit += number
            return
        self.decided += number
        if again.status == record.status:
            return
        change = Changed(record.question, record.status, again.status)
        self.found[change] += number
        self.rules.setdefault(change, Counter())[record.rule, again.rule] += number
        examples = self.examples.setdefault(change, {})
        if len(examples) < EXAMPLES:
            examples[f"{record.server}:{record.tool}" if record.tool else record.server] = None


def _effect(change: Changed) -> int:
    return 0 if change.before == "callable" else 1 if change.after == "callable" else 2


class Replay:
    """Decides records by a policy."""

    def __init__(self, policy: LocalPolicy) -> None:
        self._calls = EncodedCalls(policy)
        reads = self._calls.tools.reader.reads_name
        self._named = reads("agent"), reads("server"), reads("tool")
        self._kept: BoundedCache[tuple[str, bytes, str, str, str], Again]
        self._kept = BoundedCache(MAX_KEPT, MAX_FACTS_BYTES)
        self._verdicts: dict[bytes, Again] = {}
        self._decide: dict[str, Callable[[PlainRecord, Any], Again]] = {
            Question.TOOL: self._tool,
            Question.LOAD: self._load,
            Question.ENABLE: self._enable,
        }

    def differences(self, lines: Iterable[bytes], *, may_repeat: bool) -> Differences:
        """Decide all records again. With `may_repeat`, a decision of which a gateway has a record counts once."""
        found, known = Differences(), set[bytes]()
        groups: dict[bytes | tuple[bytes, bytes], _Group] = {}
        size = 0
        for line in lines:
            head = _HEAD.match(line)
            key = line if head is None else (head[3], line[line.find(_ABOUT, head.end()) : line.rfind(_AFTER)])
            group = groups.get(key)
            if group is None:
                record = _written_record(line)
                if record is None:
                    # The members of another writer may stand anywhere on the line.
                    key, record = line, _record_of_object(line)
                if record is None:
                    found.undecided += b'"kind":"decision"' in line
                    continue
                group = groups[key] = _Group(record)
                size += len(line)
            if may_repeat:
                by, number = (group.record.by.encode(), group.record.id) if head is None else (head[2], head[1])
                if by != b"service":
                    known.add(number)
                elif number in known:
                    found.repeated += 1
                    continue
            group.number += 1
            if len(groups) >= MAX_GROUPS or size > MAX_GROUP_BYTES:
                self._add(groups, found)
                size = 0
        self._add(groups, found)
        return found

    def _add(self, groups: dict[bytes | tuple[bytes, bytes], _Group], found: Differences) -> None:
        """Decide each group once, and forget them."""
        for group in groups.values():
            if group.number:
                found.add(group.record, self.again(group.record), group.number)
        groups.clear()

    def again(self, record: PlainRecord) -> Again:
        """Return the verdict for the facts of a record."""
        agent, server, tool = self._named
        key = (
            record.question,
            record.facts,
            record.agent if agent else "",
            record.server if server else "",
            record.tool if tool else "",
        )
        kept = self._kept.get(key)
        if kept is None:
            kept = self._decide_again(record)
            self._kept.keep(key, kept, len(record.facts))
        return kept

    def _decide_again(self, record: PlainRecord) -> Again:
        decide = self._decide.get(record.question)
        if decide is not None:
            try:
                return decide(record, json.loads(record.facts))
            except (InvalidRequest, BundleRefused, ParseError, ValueError):
                pass
        return Again("", "", undetermined=False, decided=False)

    def _tool(self, record: PlainRecord, facts: Any) -> Again:
        reply = self._calls.check_tool(request_of(record, facts).SerializeToString())
        found = self._verdicts.get(reply)
        if found is None:
            verdict = pb.CheckToolResponse.FromString(reply).verdict
            found = Again(tool_status(verdict.status), verdict.rule, verdict.undetermined)
            if len(self._verdicts) < MAX_KEPT:
                self._verdicts[reply] = found
        return found

    def _load(self, record: PlainRecord, facts: Any) -> Again:
        request = ParseDict(facts, pb.ClassifyLoadRequest())
        answer = pb.ClassifyLoadResponse.FromString(self._calls.classify_load(request.SerializeToString()))
        return _again(load_verdict(answer, None))

    def _enable(self, record: PlainRecord, facts: Any) -> Again:
        request = ParseDict(facts, pb.ClassifyEnableRequest())
        answer = pb.ClassifyEnableResponse.FromString(self._calls.classify_enable(request.SerializeToString()))
        return _again(enable_verdict(answer, None))


def request_of(record: PlainRecord, facts: Any) -> pb.CheckToolRequest:
    """Return the request that a decision about a tool answered.

    Raises:
        ParseError: the facts are not those of such a request.
    """
    request = ParseDict(facts, pb.CheckToolRequest(server=record.server, tool=record.tool))
    if request.HasField("agent"):
        request.agent.name = record.agent
    return request


def _again(verdict: str) -> Again:
    values = json.loads(f"{{{verdict}}}")
    return Again(values["status"], values["rule"], values["undetermined"])


def record_in(line: bytes) -> PlainRecord | None:
    """Return the decision on a line; None for another record, or a call that no policy decided."""
    return _written_record(line) or _record_of_object(line)


def _written_record(line: bytes) -> PlainRecord | None:
    """Return the decision on a line as it is written here."""
    found = _DECISION.match(line)
    if found is None:
        return None
    number, by, question, agent, server, tool, facts, status, rule, undetermined = found.groups()
    return PlainRecord(
        number,
        by.decode(),
        question.decode(),
        _text(agent),
        _text(server or b""),
        _text(tool or b""),
        facts,
        status.decode(),
        _text(rule),
        undetermined == b"true",
    )


def _record_of_object(line: bytes) -> PlainRecord | None:
    values = object_in(line) if b'"decision"' in line else None
    if values is None or values.get("kind") != "decision" or "status" not in values or "facts" not in values:
        return None
    by, question, agent, server, tool, rule = (
        str(values.get(name, "")) for name in ("by", "question", "agent", "server", "tool", "rule")
    )
    facts = json.dumps(values["facts"], sort_keys=True).encode()
    number, undetermined = str(values.get("id", "")).encode(), values.get("undetermined") is True
    return PlainRecord(number, by, question, agent, server, tool, facts, str(values["status"]), rule, undetermined)


def _text(written: bytes) -> str:
    """Return a text as JSON writes it, without its quotes."""
    return str(json.loads(b'"%b"' % written)) if b"\\" in written else written.decode()
