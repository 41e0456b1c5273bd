"""Counts what a gateway decides in its own process, by the metrics that a service has for its decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from callability.bundle import LocalPolicy, RuleSet
from callability.bundle.v1 import bundle_pb2
from callability.request_facts.outcome import enable_facts, load_facts
from callability.request_facts.tool import has_newer_status
from callability.service.observability.gaps import Cause, Gap, Gaps, gaps_of, undeclared
from callability.service.observability.metrics import PolicyMetrics
from callability.service.observability.verdict_counts import Counted
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from callability.v1.verdict_pb2 import ToolVerdict
from callability.vocabulary import ToolStatus

_TOOLS = "callability"
_SUBJECTS = {
    "agent": bundle_pb2.FACT_SUBJECT_AGENT,
    "server": bundle_pb2.FACT_SUBJECT_SERVER,
    "tool": bundle_pb2.FACT_SUBJECT_TOOL,
}
_Message = facts_pb2.Agent | facts_pb2.ServerFacts | facts_pb2.ToolFacts


@dataclass(frozen=True, slots=True, eq=False)
class _Result:
    """A result that many tools have."""

    counted: Counted
    unread: tuple[str, ...] = ()


class DecisionCounts:
    """Counts every answer of a policy in this process; it may be used from several threads."""

    def __init__(self, metrics: PolicyMetrics) -> None:
        self._metrics = metrics
        self._lock = Lock()
        self._of_policy: _PolicyCounts | None = None

    def decided(self, policy: LocalPolicy, request: Any, response: Any) -> None:
        """Count an answer. An explanation is none: it repeats a decision."""
        with self._lock:
            counts = self._of_policy
            if counts is None or counts.policy is not policy:
                counts = self._of_policy = _PolicyCounts(policy, self._metrics)
            match request:
                case pb.CheckToolRequest():
                    counts.tool(request, response)
                case pb.CheckToolsRequest():
                    counts.tools(request, response)
                case pb.ClassifyLoadRequest():
                    counts.outcome(policy.load_outcome, load_facts(request.signals, request.error_text))
                case pb.ClassifyEnableRequest():
                    counts.outcome(policy.enable_outcome, enable_facts(request.facts))


class _PolicyCounts:
    """Counts the decisions by one policy."""

    def __init__(self, policy: LocalPolicy, metrics: PolicyMetrics) -> None:
        self.policy = policy
        self._metrics = metrics
        self._gaps = Gaps(policy.revision, metrics)
        self._statuses = {each.number: each.name for each in policy.callability.question.statuses}
        facts = policy.callability.question.facts.values()
        self._declared = {
            subject: frozenset(each.key for each in facts if each.subject == number and _is_declared(each.kind))
            for subject, number in _SUBJECTS.items()
        }
        self._error = _Result(Counted(_TOOLS, ToolStatus.DISABLED_UNKNOWN, ""))

    def tool(self, request: pb.CheckToolRequest, response: pb.CheckToolResponse) -> None:
        """Count a decision about one tool."""
        result = self._result(response.verdict)
        messages = _messages(request)
        self._gaps.decided(result.counted)
        self._gaps.met(Counter((*self._ignored(messages), *self._missing(result, messages))))

    def tools(self, request: pb.CheckToolsRequest, response: pb.CheckToolsResponse) -> None:
        """Count the decisions of a batch."""
        of_agent: dict[str, _Message] = {"agent": request.agent} if request.HasField("agent") else {}
        gaps = Counter(self._ignored(of_agent))
        results: list[_Result] = []
        known: dict[bytes, _Result] = {}
        for sent, judged in zip(request.servers, response.servers, strict=True):
            gaps.update(self._ignored({"server": sent.facts}))
            for tool, each in zip(sent.tools, judged.results, strict=True):
                # Few results differ, and a look at their bytes costs less than one at their fields.
                encoded = each.SerializeToString()
                result = known.get(encoded)
                if result is None:
                    result = known[encoded] = self._result(each.verdict) if each.HasField("verdict") else self._error
                results.append(result)
                if result.unread:
                    messages = {**of_agent, "server": sent.facts, "tool": tool.facts}
                    gaps.update(self._missing(result, messages))
                if result is not self._error and tool.facts.HasField("declared_facts"):
                    gaps.update(self._ignored({"tool": tool.facts}))
        self._gaps.met(gaps)
        self._gaps.decided_batch([results], (), len(results))

    def outcome(self, rules: RuleSet, facts: Mapping[str, str]) -> None:
        """Count the classification of a load or of an enable."""
        points = rules.points_of(facts)
        verdict = rules.decide(points)
        name = rules.question.name
        if verdict.undetermined:
            self._gaps.met(dict.fromkeys(gaps_of(name, rules.unread(verdict, points)), 1))
        self._gaps.decided(Counted(name, verdict.status.name, "" if verdict.undetermined else verdict.rule))

    def _result(self, verdict: ToolVerdict) -> _Result:
        rule = "" if verdict.undetermined else verdict.rule
        return _Result(Counted(_TOOLS, self._statuses[verdict.status], rule), tuple(verdict.unread))

    def _ignored(self, messages: Mapping[str, _Message]) -> Iterator[Gap]:
        """Yield the facts that were sent and are not declared."""
        for subject, message in messages.items():
            yield from undeclared(subject, sum(key not in self._declared[subject] for key in _sent(message)))

    def _missing(self, result: _Result, messages: Mapping[str, _Message]) -> Iterator[Gap]:
        """Yield the facts that keep a decision undetermined."""
        for fact in result.unread:
            yield Gap(_TOOLS, fact, Cause.NOT_UNDERSTOOD if self._was_sent(fact, messages) else Cause.LEFT_OUT)

    def _was_sent(self, fact: str, messages: Mapping[str, _Message]) -> bool:
        known = self.policy.callability.question.facts[fact]
        tool = messages.get("tool")
        if fact == "approval.status":
            return isinstance(tool, facts_pb2.ToolFacts) and has_newer_status(tool)
        message = next((messages.get(name) for name, number in _SUBJECTS.items() if number == known.subject), None)
        if message is None:
            return False
        if known.kind == bundle_pb2.FACT_KIND_LABEL:
            return known.key in message.labels.values
        return _is_declared(known.kind) and known.key in _sent(message)


def _is_declared(kind: bundle_pb2.FactKind.ValueType) -> bool:
    return kind == bundle_pb2.FACT_KIND_DECLARED


def _messages(request: pb.CheckToolRequest) -> Mapping[str, _Message]:
    of_agent = {"agent": request.agent} if request.HasField("agent") else {}
    return {**of_agent, "server": request.server_facts, "tool": request.tool_facts}


def _sent(message: _Message) -> Mapping[str, str]:
    return message.declared_facts.values
