"""The calls of `CallabilityService` by one policy: bytes in and bytes out, or messages in and messages out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from callability.bundle.v1 import bundle_pb2
from callability.contract.enum_words import FINDING_SEVERITY, LIFTED_BY, RETRY
from callability.contract.finding import Finding
from callability.contract.vocabulary import NO_LABEL, Action, LiftedBy
from callability.kernel import limits
from callability.kernel.byte_calls import ByteCalls, Steps
from callability.kernel.envelope import invalid
from callability.kernel.facts import enable_facts, load_facts
from callability.kernel.limits import InvalidRequest, finish
from callability.kernel.path import Trial, explain
from callability.kernel.policy import LocalPolicy
from callability.kernel.results import (
    Counted,
    EncodedResult,
    EncodedServerResults,
    Gap,
    Observer,
    ToolMessages,
    gaps_of,
)
from callability.kernel.rule_set import Fact, RuleSet, Status, Verdict
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import outcome_pb2
from callability.v1 import policy_service_pb2 as policy_pb

_Info = TypeVar("_Info")
_SUBJECTS = {
    bundle_pb2.FACT_SUBJECT_SERVER: policy_pb.FACT_SUBJECT_SERVER,
    bundle_pb2.FACT_SUBJECT_TOOL: policy_pb.FACT_SUBJECT_TOOL,
    bundle_pb2.FACT_SUBJECT_AGENT: policy_pb.FACT_SUBJECT_AGENT,
}
MAX_COMBINATIONS = 2**32 - 1
"""Combinations that the contract can count."""


def description(policy: LocalPolicy) -> policy_pb.GetPolicyResponse:
    """Return what a bundle says of its policy; what only a service knows, such as its limits, is left out."""
    return policy_pb.GetPolicyResponse(
        revision=policy.revision,
        semantics=policy.semantics,
        bundle_digest=policy.digest,
        rule_sets=[rule_set_message(name, each, policy.actions) for name, each in sorted(policy.rule_sets.items())],
        statuses=[_info(policy_pb.StatusInfo, status) for status in policy.callability.question.statuses],
        actions=[
            policy_pb.Action(
                name=action.name, owner=LIFTED_BY.numbers[action.owner], fact=action.fact or "", phrase=action.phrase
            )
            for action in policy.actions
        ],
        load_statuses=[_info(policy_pb.LoadStatusInfo, status) for status in policy.load_outcome.question.statuses],
        enable_statuses=[
            _info(
                policy_pb.EnableStatusInfo,
                status,
                error=status.error,
                entry=status.entry,
                tools_changed=status.tools_changed,
            )
            for status in policy.enable_outcome.question.statuses
        ],
    )


def _info(message: Callable[..., _Info], status: Status, **more: bool | int) -> _Info:
    return message(
        status=status.number,
        name=status.name,
        lifted_by=LIFTED_BY.numbers[status.lifted_by],
        retry=RETRY.numbers[status.retry],
        **more,
    )


def rule_set_message(name: str, rules: RuleSet, actions: Iterable[Action]) -> policy_pb.RuleSet:
    """Return what a bundle says of a rule set; `actions` are those of its policy."""
    phrases = {action.name: action.phrase for action in actions}
    reads = {fact for rule in rules.rules for fact in rule.reads}
    facts = rules.question.facts.values()
    return policy_pb.RuleSet(
        name=name,
        rules=[rule.id for rule in rules.rules],
        facts=rules.facts,
        reads=[fact.name for fact in facts if fact.name in reads],
        labels=[
            policy_pb.DeclaredLabel(fact=fact.name, values=[value for value in fact.values if value != NO_LABEL])
            for fact in facts
            if fact.kind == bundle_pb2.FACT_KIND_LABEL
        ],
        declared_facts=[
            _declare(fact, phrases.get(fact.action, "")) for fact in facts if fact.kind == bundle_pb2.FACT_KIND_DECLARED
        ],
        combinations=min(rules.counts.combinations, MAX_COMBINATIONS),
        inner_nodes=rules.inner_nodes,
        exact_combinations=str(rules.counts.combinations),
        regions=str(rules.counts.regions),
        tests_passed=rules.counts.tests,
        witnesses=rules.counts.witnesses,
    )


def _declare(fact: Fact, phrase: str) -> policy_pb.DeclaredFact:
    return policy_pb.DeclaredFact(
        fact=fact.name,
        subject=_SUBJECTS.get(fact.subject, policy_pb.FACT_SUBJECT_UNSPECIFIED),
        values=fact.values,
        default_value=fact.open_value,
        owner=LIFTED_BY.numbers[fact.opened_by or LiftedBy.NONE],
        action=fact.action,
        asserted=fact.asserted,
        phrase=phrase,
    )


def finding_message(finding: Finding) -> policy_pb.PolicyFinding:
    """Return a finding as the contract has it."""
    return policy_pb.PolicyFinding(
        file=finding.place.file,
        line=finding.place.line,
        column=finding.place.column,
        severity=FINDING_SEVERITY.numbers[finding.severity],
        code=finding.code,
        sentence=finding.sentence,
        hint=finding.advice,
    )


Request = TypeVar("Request", bound=Message)
_check_tool_reply = pb.CheckToolResponse.FromString
_TRUTHS = {True: pb.TRUTH_TRUE, False: pb.TRUTH_FALSE, None: pb.TRUTH_UNDETERMINED}


class Unobserved:
    """Counts nothing."""

    def count_verdict(self, kind: Counted) -> None:
        """Do nothing."""

    def decided_batch(
        self, fresh: Sequence[Sequence[EncodedResult]], again: Sequence[EncodedServerResults], tools: int
    ) -> None:
        """Do nothing."""

    def count_gaps(self, found: Mapping[Gap, int]) -> None:
        """Do nothing."""


UNOBSERVED: Observer = Unobserved()


class EncodedCalls:
    """Answers requests that are encoded. Threads may share it.

    Each method raises `InvalidRequest` for a request that is malformed or over a limit, and `BundleRefused` if the
    bundle contradicts itself. Unless it is `limited`, a request may be of any size; its names and facts have limits.
    """

    def __init__(self, policy: LocalPolicy, observer: Observer = UNOBSERVED, *, limited: bool = False) -> None:
        self.policy = policy
        self._limited = limited
        self._observer = observer
        self._messages = ToolMessages(policy)
        self.tools = ByteCalls(policy, self._messages, observer, limited=limited)
        self._loads = _Outcomes(policy.load_outcome, self._load_reply, observer)
        self._enables = _Outcomes(policy.enable_outcome, self._enable_reply, observer)

    def check_tool(self, data: bytes) -> bytes:
        """Answer a `CheckToolRequest` with a `CheckToolResponse`."""
        return self.tools.check_tool(data)

    def check_tools(self, data: bytes) -> Steps:
        """Answer a `CheckToolsRequest` with a `CheckToolsResponse`."""
        return self.tools.check_tools(data)

    def explain_tool(self, data: bytes) -> bytes:
        """Answer an `ExplainToolRequest` with an `ExplainToolResponse`."""
        rules = self.policy.callability
        readings = self.tools.read(parse(pb.ExplainToolRequest, data))
        decided = pb.CheckToolResponse.FromString(self.tools.of_readings(readings).reply)
        explanation = explain(rules, readings.values)
        return pb.ExplainToolResponse(
            revision=decided.revision,
            verdict=decided.verdict,
            words=decided.words if decided.HasField("words") else None,
            facts=[pb.FactValue(fact=name, value=readings.values[name]) for name in rules.facts],
            trials=[self._trial(trial) for trial in explanation.trials],
            path=self._messages.path(explanation.path) if explanation.path else None,
        ).SerializeToString()

    def classify_load(self, data: bytes) -> bytes:
        """Answer a `ClassifyLoadRequest` with a `ClassifyLoadResponse`."""
        request = parse(pb.ClassifyLoadRequest, data)
        if self._limited:
            limits.check_error_text(request.error_text)
        return self._loads.reply(load_facts(request.signals, request.error_text))

    def classify_enable(self, data: bytes) -> bytes:
        """Answer a `ClassifyEnableRequest` with a `ClassifyEnableResponse`."""
        return self._enables.reply(enable_facts(parse(pb.ClassifyEnableRequest, data).facts))

    def _load_reply(self, verdict: Verdict) -> Message:
        status, words = verdict.status, None
        message = outcome_pb2.LoadVerdict(
            status=status.number,  # type: ignore[arg-type]  # checked when the bundle was read
            rule=verdict.rule,
            undetermined=verdict.undetermined,
            lifted_by=LIFTED_BY.numbers[status.lifted_by],
            retry=RETRY.numbers[status.retry],
        )
        if verdict.words:
            words = outcome_pb2.LoadWords(status=message.status, rule=verdict.words.rule, **verdict.words.texts)
        return pb.ClassifyLoadResponse(revision=self.policy.revision, verdict=message, words=words)

    def _enable_reply(self, verdict: Verdict) -> Message:
        status, words = verdict.status, None
        message = outcome_pb2.EnableVerdict(
            status=status.number,  # type: ignore[arg-type]  # checked when the bundle was read
            rule=verdict.rule,
            undetermined=verdict.undetermined,
            lifted_by=LIFTED_BY.numbers[status.lifted_by],
            retry=RETRY.numbers[status.retry],
            error=status.error,
            entry=status.entry,  # type: ignore[arg-type]  # checked when the bundle was read
            tools_changed=status.tools_changed,
        )
        if verdict.words:
            words = outcome_pb2.EnableWords(status=message.status, rule=verdict.words.rule, **verdict.words.texts)
        return pb.ClassifyEnableResponse(revision=self.policy.revision, verdict=message, words=words)

    def _trial(self, trial: Trial) -> pb.RuleTrial:
        return pb.RuleTrial(
            rule=trial.rule.id,
            status=self._messages.numbers[trial.rule.status],  # type: ignore[arg-type]  # as above
            truth=_TRUTHS[trial.truth],
            reads=[pb.FactValue(fact=fact, value=value) for fact, value in trial.reads],
            why=trial.why,
        )


class _Outcomes:
    """The replies to one question, encoded once for each verdict."""

    def __init__(self, rules: RuleSet, write: Callable[[Verdict], Message], observer: Observer) -> None:
        self._rules = rules
        self._observer = observer
        self._replies = {verdict: write(verdict).SerializeToString() for verdict in rules.verdicts}

    def reply(self, facts: Mapping[str, str]) -> bytes:
        rules = self._rules
        try:
            points = rules.points_of(facts)
        except KeyError:
            raise invalid("an axis has no point for facts that a request can have") from None
        verdict = rules.decide(points)
        name = rules.question.name
        if verdict.undetermined:
            self._observer.count_gaps(dict.fromkeys(gaps_of(name, rules.unread(verdict, points)), 1))
        self._observer.count_verdict(Counted(name, verdict.status.name, "" if verdict.undetermined else verdict.rule))
        return self._replies[verdict]


class LocalCalls:
    """Answers messages by messages, as the service does that serves the same policy. Threads may share it.

    A request may be larger than the service takes. Its names and facts have the same limits.
    """

    def __init__(self, policy: LocalPolicy, observer: Observer = UNOBSERVED) -> None:
        self.policy = policy
        self.encoded = EncodedCalls(policy, observer)
        # Two attributes and a frame less make a call a tenth shorter.
        self._check_tool = self.encoded.tools.check_tool

    def check_tool(self, request: pb.CheckToolRequest) -> pb.CheckToolResponse:
        """Decide one tool.

        Raises:
            InvalidRequest: a name is empty or too long, or the facts exceed a limit.
            BundleRefused: the bundle contradicts itself about a name, or lacks facts that a request can have.
        """
        return _check_tool_reply(self._check_tool(request.SerializeToString()))

    def check_tools(self, request: pb.CheckToolsRequest) -> pb.CheckToolsResponse:
        """Decide many tools; a name that is empty or too long, or facts over a limit, are an error of their item.

        Raises:
            InvalidRequest: the name of the agent is too long, or its facts exceed a limit.
            BundleRefused: the bundle contradicts itself about a name, or lacks facts that a request can have.
        """
        return pb.CheckToolsResponse.FromString(finish(self.encoded.check_tools(request.SerializeToString())))

    def explain_tool(self, request: pb.ExplainToolRequest) -> pb.ExplainToolResponse:
        """Decide one tool and explain the decision.

        Raises:
            InvalidRequest: a name is empty or too long, or the facts exceed a limit.
            BundleRefused: the bundle contradicts itself, or lacks facts that a request can have.
        """
        return pb.ExplainToolResponse.FromString(self.encoded.explain_tool(request.SerializeToString()))

    def classify_load(self, request: pb.ClassifyLoadRequest) -> pb.ClassifyLoadResponse:
        """Classify one load of a server's tools.

        Raises:
            BundleRefused: the bundle lacks facts that a request can have.
        """
        return pb.ClassifyLoadResponse.FromString(self.encoded.classify_load(request.SerializeToString()))

    def classify_enable(self, request: pb.ClassifyEnableRequest) -> pb.ClassifyEnableResponse:
        """Classify one attempt to enable a server.

        Raises:
            BundleRefused: the bundle lacks facts that a request can have.
        """
        return pb.ClassifyEnableResponse.FromString(self.encoded.classify_enable(request.SerializeToString()))


def parse(message: type[Request], data: bytes) -> Request:
    """Return the message that bytes hold.

    Raises:
        InvalidRequest: they hold none.
    """
    try:
        return message.FromString(data)
    except DecodeError:
        raise InvalidRequest("REQUEST_MALFORMED", f"the request is not a `{message.DESCRIPTOR.name}`") from None
