"""Recording decisions and changes: from requests and replies on the wire to lines for a writer.

The part of a line about a verdict is written once a verdict, and the part about facts once for equal facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from callability.kernel.conditions import SEMANTICS
from callability.process import logs
from callability.process.bounded_cache import BoundedCache
from callability.records.format import (
    By,
    Change,
    Clock,
    Ended,
    Question,
    enable_facts_of,
    enable_verdict,
    json_text,
    load_facts_of,
    load_verdict,
    members,
    name_text,
    tool_facts_of,
    tool_status,
    tool_verdict,
)
from callability.records.writer import Destination, RecordWriter
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, outcome_pb2, verdict_pb2

MAX_REQUESTS = 4_096
MAX_REQUEST_BYTES = 1_024
"""Requests whose part of a line is kept, and how large one may be."""
MAX_FACTS = 4_096
MAX_FACTS_BYTES = 8_192
"""Facts whose JSON is kept, and how large they may be."""
MAX_VERDICTS = 4_096
TRACEPARENT = "traceparent"
_MAX_TRACEPARENT = 128


class RecordLevel(StrEnum):
    """Which decisions are written: those that are not callable, or all of them. Changes always are."""

    REFUSED = "refused"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Where records go, and which decisions are written."""

    destination: Destination
    level: RecordLevel = RecordLevel.REFUSED


class _Verdict(NamedTuple):
    """The part of a line about a verdict; `good` if the level `refused` leaves its decision out."""

    good: bool
    text: str
    short: tuple[str, str, str, bool] = ("", "", "", False)
    """The revision, the status, the rule, and whether it is undetermined: what a shadow is compared by."""


class Call(NamedTuple):
    """What is known of a call beside its request: how it ended and how long it took, in seconds."""

    ended: Ended
    seconds: float
    shadow: bytes | None = None
    """The reply of a candidate that would have decided otherwise."""


class Recorder:
    """Writes a line about each decision and each change of one process. Threads may share it."""

    def __init__(self, options: RecordOptions, by: By, *, semantics: int | None = SEMANTICS) -> None:
        self.writer = RecordWriter(options.destination, by)
        self._all = options.level is RecordLevel.ALL
        self._by = by
        self._semantics = semantics
        self._clock = Clock()
        self._requests: BoundedCache[bytes, str] = BoundedCache(MAX_REQUESTS, MAX_REQUEST_BYTES)
        self._facts: BoundedCache[tuple[bytes | None, bytes, bytes], str] = BoundedCache(MAX_FACTS, MAX_FACTS_BYTES)
        self._verdicts: BoundedCache[bytes, _Verdict] = BoundedCache(MAX_VERDICTS)

    def decided_tool(self, request: bytes, reply: bytes, call: Call) -> None:
        """Record a decision about a tool, from a `CheckToolRequest` and a `CheckToolResponse`."""
        verdict = self._verdicts.get(reply) or self._tool_verdict(reply)
        if verdict.good and not self._all and call.shadow is None:
            return
        about = self._requests.get(request) or self._tool_request(request)
        self._append(Question.TOOL, about, f",{verdict.text}", call)

    def decided_load(self, server: str, agent: str, request: bytes, reply: bytes, seconds: float) -> None:
        """Record a decision about a load, from a `ClassifyLoadRequest` and a `ClassifyLoadResponse`."""
        answer = pb.ClassifyLoadResponse.FromString(reply)
        if answer.verdict.status == outcome_pb2.LOAD_STATUS_AVAILABLE and not self._all:
            return
        facts = load_facts_of(pb.ClassifyLoadRequest.FromString(request))
        self._append_outcome(Question.LOAD, server, agent, facts, load_verdict(answer, self._semantics), seconds)

    def decided_enable(self, server: str, agent: str, request: bytes, reply: bytes, seconds: float) -> None:
        """Record a decision about an enable, from a `ClassifyEnableRequest` and a `ClassifyEnableResponse`."""
        answer = pb.ClassifyEnableResponse.FromString(reply)
        done = (outcome_pb2.ENABLE_STATUS_ENABLED, outcome_pb2.ENABLE_STATUS_ALREADY_ENABLED)
        if answer.verdict.status in done and not self._all:
            return
        facts = enable_facts_of(pb.ClassifyEnableRequest.FromString(request))
        self._append_outcome(Question.ENABLE, server, agent, facts, enable_verdict(answer, self._semantics), seconds)

    def record_undecided(self, agent: str, server: str, tool: str, call: Call) -> None:
        """Record a call that no policy decided: it is out of scope or of no tool, or there was no verdict."""
        self._append(Question.TOOL, members(_names(agent, server, tool)), "", call)

    def record_change(self, change: Change, **about: Any) -> None:
        """Record a change; the members are those of the format."""
        whole = {"kind": "change", "time": self._clock.now(), "change": change, "by": self._by, **about}
        self.writer.append(members({name: value for name, value in whole.items() if value not in (None, "")}))

    def close(self) -> None:
        """Write what waits."""
        self.writer.close()

    def _append_outcome(
        self, question: Question, server: str, agent: str, facts: str, verdict: str, seconds: float
    ) -> None:
        names = {"agent": name_text(agent), **({"server": name_text(server)} if server else {})}
        self._append(question, f'{members(names)},"facts":{facts}', f",{verdict}", Call(Ended.DECIDED, seconds))

    def _append(self, question: Question, about: str, verdict: str, call: Call) -> None:
        request = logs.current()
        number, caller, trace = logs.new_id() if request is None else request.request_id, "", ""
        if request is not None:
            name = request.fields.get("caller")
            caller = "" if name is None else f',"caller":{json_text(name)}'
            trace = _trace(request.metadata) if request.metadata else ""
        shadow = "" if call.shadow is None else self._shadow(call.shadow)
        self.writer.append(
            f'"kind":"decision","time":"{self._clock.now()}","id":"{number}","by":"{self._by.value}"'
            f',"question":"{question.value}"{caller}{trace},{about}{verdict},"ended":"{call.ended.value}"'
            f',"milliseconds":{1_000 * call.seconds:.3f}{shadow}'
        )

    def _shadow(self, reply: bytes) -> str:
        verdict = self._verdicts.get(reply) or self._tool_verdict(reply)
        names = ("revision", "status", "rule", "undetermined")
        return f',"shadow":{json_text(dict(zip(names, verdict.short, strict=True)))}'

    def _tool_request(self, data: bytes) -> str:
        """Return the part of a line about a request, and keep it; it was decided, so that it can be read."""
        # What decides is imported with the first policy.
        from callability.kernel import byte_calls  # noqa: PLC0415

        request = byte_calls.read(pb.CheckToolRequest, data)
        agent = request.agent if request.HasField("agent") else None
        name = agent.name.decode() if agent is not None else ""
        if agent is not None:
            agent.ClearField("name")
        key = (None if agent is None else agent.SerializeToString(), request.server_facts, request.tool_facts)
        facts = self._facts.get(key)
        if facts is None:
            facts = tool_facts_of(
                None if key[0] is None else facts_pb2.Agent.FromString(key[0]),
                facts_pb2.ServerFacts.FromString(key[1]) if request.HasField("server_facts") else None,
                facts_pb2.ToolFacts.FromString(key[2]) if request.HasField("tool_facts") else None,
            )
            self._facts.keep(key, facts, len(key[0] or b"") + len(key[1]) + len(key[2]))
        text = f'{members(_names(name, request.server.decode(), request.tool.decode()))},"facts":{facts}'
        self._requests.keep(data, text, len(data))
        return text

    def _tool_verdict(self, data: bytes) -> _Verdict:
        reply = pb.CheckToolResponse.FromString(data)
        good = reply.verdict.status == verdict_pb2.TOOL_STATUS_CALLABLE
        status = tool_status(reply.verdict.status)
        short = (reply.revision, status, reply.verdict.rule, reply.verdict.undetermined)
        found = _Verdict(good, tool_verdict(reply, self._semantics), short)
        self._verdicts.keep(data, found)
        return found


class ClientRecords:
    """Records the decisions of a local client: `Client.local(source, decided=ClientRecords(directory))`.

    Args:
        directory: where records go; it is made if its parent is there.
        level: `refused` for decisions that are not callable, or `all`.
        mib: the most that the files of the directory take, in MiB.
        days: after how many days a file is removed.

    Raises:
        DestinationRefused: the directory is another user's, open to others, or cannot be used.
        ValueError: there is no such level.
    """

    def __init__(self, directory: str, *, level: str = "refused", mib: int = 1024, days: int = 30) -> None:
        destination = Destination(directory, mib * 1024 * 1024, days)
        destination.check()
        self._recorder = Recorder(RecordOptions(destination, RecordLevel(level)), By.CLIENT)

    @property
    def dropped(self) -> int:
        """How many records are lost."""
        return self._recorder.writer.dropped

    def __call__(self, method: str, request: bytes, reply: bytes, seconds: float) -> None:
        """Record a decision."""
        match method:
            case "CheckTool":
                self._recorder.decided_tool(request, reply, Call(Ended.DECIDED, seconds))
            case "ClassifyLoad":
                self._recorder.decided_load("", "", request, reply, seconds)
            case "ClassifyEnable":
                self._recorder.decided_enable("", "", request, reply, seconds)

    def close(self) -> None:
        """Write what waits."""
        self._recorder.close()


class FollowedFiles(Protocol):
    """Files that are followed, such as certificates."""

    changed: Callable[[bool], None]
    """Called after each edit, with whether it is in effect."""

    @property
    def seen(self) -> str:
        """The digest of the files as they were seen last."""


def record_edits(recorder: Recorder, change: Change, files: FollowedFiles) -> None:
    """Record each edit of files, with their digests before and after, beside what happens at an edit."""
    report, before = files.changed, files.seen

    def record(in_effect: bool) -> None:
        nonlocal before
        report(in_effect)
        recorder.record_change(change, applied=in_effect, before=before, after=files.seen)
        before = files.seen if in_effect else before

    files.changed = record


def _names(agent: str, server: str, tool: str) -> Mapping[str, str]:
    names = {"agent": agent, "server": server, "tool": tool}
    return {name: name_text(value) for name, value in names.items()}


def _trace(metadata: Sequence[tuple[str, str | bytes]]) -> str:
    """Return the member about the span of a caller, if it sent one."""
    for key, value in metadata:
        if key == TRACEPARENT and isinstance(value, str) and len(value) <= _MAX_TRACEPARENT:
            return f',"{TRACEPARENT}":{json_text(value)}'
    return ""
