"""The calls of `CallabilityService`, answered in this process: messages in, messages out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from callability.bounded_cache import BoundedCache
from callability.bundle.diagram import Points
from callability.bundle.policy import LocalPolicy
from callability.bundle.refusal import invalid
from callability.bundle.rule_set import RuleSet
from callability.bundle.tool_facts import InvalidName, ToolFactReader
from callability.bundle.v1 import bundle_pb2
from callability.bundle.verdict import Verdict, Words
from callability.reasoning.explanation import Trial
from callability.reasoning.path import Path, Step
from callability.request_facts.outcome import enable_facts, load_facts
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import outcome_pb2, verdict_pb2
from callability.vocabulary import LiftedBy, Retry

MAX_UNDETERMINED = 4_096
"""Different undetermined results that are kept; they name the facts that are unread."""
_Key = tuple[tuple[str, ...], bytes, tuple[int, ...]]
"""The facts of agent and server, those of a tool as bytes, and the classes of its name: they decide about it."""
_WordsKey = tuple[int, str]
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_TRUTHS = {True: pb.TRUTH_TRUE, False: pb.TRUTH_FALSE, None: pb.TRUTH_UNDETERMINED}


@dataclass(frozen=True, slots=True)
class _Result:
    """The result for a tool: the message, the number of its status, and the words that it needs."""

    message: pb.ToolResult
    status: int
    words: frozenset[_WordsKey]


class LocalCalls:
    """Answers as the service does that serves the same policy. Threads may share it.

    What the service refuses for its size is answered here, except names, which have at most 512 bytes.
    """

    def __init__(self, policy: LocalPolicy) -> None:
        self.policy = policy
        self.reader = ToolFactReader(policy.callability)
        self._tools = policy.callability
        self._numbers = {status.name: status.number for status in self._tools.question.statuses}
        self._undetermined = self._numbers[self._tools.question.undetermined]
        self._actions = {action.name: action for action in policy.actions}
        self._words = self._every_word()
        self._messages: BoundedCache[tuple[Verdict, tuple[str, ...]], verdict_pb2.ToolVerdict]
        self._messages = BoundedCache(MAX_UNDETERMINED)

    def check_tool(self, request: pb.CheckToolRequest) -> pb.CheckToolResponse:
        """Decide one tool.

        Raises:
            InvalidName: a name is empty or too long.
            BundleRefused: the bundle contradicts itself about a name, or lacks facts that a request can have.
        """
        points = _points(self._tools, self._facts(request))
        verdict = self._tools.decide(points)
        message = self.verdict_message(verdict, self._tools.unread(verdict, points))
        return pb.CheckToolResponse(revision=self.policy.revision, verdict=message, words=self.words_message(verdict))

    def check_tools(self, request: pb.CheckToolsRequest) -> pb.CheckToolsResponse:
        """Decide many tools; a name that is empty or too long is an error of its item.

        Raises:
            InvalidName: the name of the agent is too long.
            BundleRefused: the bundle contradicts itself about a name, or lacks facts that a request can have.
        """
        agent = self.reader.of_agent(request.agent if request.HasField("agent") else None)
        said: set[_WordsKey] = set()
        known: dict[_Key, _Result] = {}
        servers = [self._server_results(server, agent, said, known) for server in request.servers]
        words = [self._words[key] for key in sorted(said)]
        return pb.CheckToolsResponse(revision=self.policy.revision, servers=servers, words=words)

    def explain_tool(self, request: pb.ExplainToolRequest) -> pb.ExplainToolResponse:
        """Decide one tool and explain the decision.

        Raises:
            InvalidName: a name is empty or too long.
            BundleRefused: the bundle contradicts itself, or lacks facts that a request can have.
        """
        facts = self._facts(request)
        points = _points(self._tools, facts)
        verdict = self._tools.decide(points)
        explanation = self._tools.explain(facts)
        return pb.ExplainToolResponse(
            revision=self.policy.revision,
            verdict=self.verdict_message(verdict, self._tools.unread(verdict, points)),
            words=self.words_message(verdict),
            facts=[pb.FactValue(fact=name, value=facts[name]) for name in self._tools.facts],
            trials=[self._trial(trial) for trial in explanation.trials],
            path=self._path(explanation.path) if explanation.path else None,
        )

    def classify_load(self, request: pb.ClassifyLoadRequest) -> pb.ClassifyLoadResponse:
        """Classify one load of a server's tools.

        Raises:
            BundleRefused: the bundle lacks facts that a request can have.
        """
        rules = self.policy.load_outcome
        verdict = rules.decide(_points(rules, load_facts(request.signals, request.error_text)))
        status = verdict.status
        message = outcome_pb2.LoadVerdict(
            status=status.number,  # type: ignore[arg-type]  # checked when the bundle was read
            rule=verdict.rule,
            undetermined=verdict.undetermined,
            lifted_by=_lifted_by(status.lifted_by),
            retry=_retry(status.retry),
        )
        words = None
        if verdict.words:
            words = outcome_pb2.LoadWords(status=message.status, rule=verdict.words.rule, **verdict.words.texts)
        return pb.ClassifyLoadResponse(revision=self.policy.revision, verdict=message, words=words)

    def classify_enable(self, request: pb.ClassifyEnableRequest) -> pb.ClassifyEnableResponse:
        """Classify one attempt to enable a server.

        Raises:
            BundleRefused: the bundle lacks facts that a request can have.
        """
        rules = self.policy.enable_outcome
        verdict = rules.decide(_points(rules, enable_facts(request.facts)))
        status = verdict.status
        message = outcome_pb2.EnableVerdict(
            status=status.number,  # type: ignore[arg-type]  # checked when the bundle was read
            rule=verdict.rule,
            undetermined=verdict.undetermined,
            lifted_by=_lifted_by(status.lifted_by),
            retry=_retry(status.retry),
            error=status.error,
            entry=status.entry,  # type: ignore[arg-type]  # checked when the bundle was read
            tools_changed=status.tools_changed,
        )
        words = None
        if verdict.words:
            words = outcome_pb2.EnableWords(status=message.status, rule=verdict.words.rule, **verdict.words.texts)
        return pb.ClassifyEnableResponse(revision=self.policy.revision, verdict=message, words=words)

    def verdict_message(self, verdict: Verdict, unread: tuple[str, ...] = ()) -> verdict_pb2.ToolVerdict:
        """Return a verdict about a tool as the contract has it. The message is shared: do not change it."""
        key = verdict, unread
        message = self._messages.get(key)
        if message is None:
            message = verdict_pb2.ToolVerdict(
                status=verdict.status.number,  # type: ignore[arg-type]  # checked when the bundle was read
                rule=verdict.rule,
                undetermined=verdict.undetermined,
                lifted_by=_lifted_by(verdict.status.lifted_by),
                retry=_retry(self._tools.retry(verdict, unread)),
                withhold_text=verdict.withhold_text,
                unread=unread,
            )
            self._messages.keep(key, message)
        return message

    def words_message(self, verdict: Verdict) -> verdict_pb2.ToolWords | None:
        """Return what to say about a verdict about a tool, None if it is callable. The message is shared."""
        return self._words[verdict.status.number, verdict.words.rule] if verdict.words else None

    def _facts(self, request: pb.CheckToolRequest | pb.ExplainToolRequest) -> dict[str, str]:
        agent = request.agent if request.HasField("agent") else None
        return (
            self.reader.of_agent(agent)
            | self.reader.of_server(request.server_facts, request.server)
            | self.reader.of_tool(request.tool_facts, request.tool)
        )

    def _server_results(
        self, server: pb.ServerTools, agent: Mapping[str, str], said: set[_WordsKey], known: dict[_Key, _Result]
    ) -> pb.ServerResults:
        """Return the results for the tools of a server; the words that they need are added to `said`."""
        results = self._results(server, agent, known)
        for words in {result.words for result in results}:
            said |= words
        counts = Counter(result.status for result in results)
        return pb.ServerResults(
            results=[result.message for result in results],
            counts=[verdict_pb2.StatusCount(status=number, count=counts[number]) for number in sorted(counts)],  # type: ignore[arg-type]
        )

    def _results(
        self, server: pb.ServerTools, agent: Mapping[str, str], known: dict[_Key, _Result]
    ) -> Sequence[_Result]:
        try:
            above = {**agent, **self.reader.of_server(server.facts, server.name)}
        except InvalidName as error:
            return [self._error(error)] * len(server.tools)
        values = tuple(above.values())
        return [self._result(tool, above, values, known) for tool in server.tools]

    def _result(
        self, tool: pb.Tool, above: Mapping[str, str], values: tuple[str, ...], known: dict[_Key, _Result]
    ) -> _Result:
        """Return the result for a tool below some facts; one that is `known` is not decided again."""
        try:
            key = values, tool.facts.SerializeToString(), self.reader.class_of_tool(tool.name)
        except InvalidName as error:
            return self._error(error)
        result = known.get(key)
        if result is None:
            result = known[key] = self._decided({**above, **self.reader.of_tool(tool.facts, tool.name)})
        return result

    def _decided(self, facts: Mapping[str, str]) -> _Result:
        points = _points(self._tools, facts)
        verdict = self._tools.decide(points)
        message = self.verdict_message(verdict, self._tools.unread(verdict, points))
        number = verdict.status.number
        words = frozenset({(number, ""), (number, verdict.words.rule)} if verdict.words else ())
        return _Result(pb.ToolResult(verdict=message), number, words)

    def _error(self, error: InvalidName) -> _Result:
        item = verdict_pb2.ItemError(reason=error.reason, message=str(error))
        return _Result(pb.ToolResult(error=item), self._undetermined, frozenset({(self._undetermined, "")}))

    def _every_word(self) -> dict[tuple[int, str], verdict_pb2.ToolWords]:
        """Return the words of each status and of each rule that has its own, by number of the status and rule."""
        question = self._tools.question
        declared = {
            fact.action
            for fact in question.facts.values()
            if fact.kind == bundle_pb2.FACT_KIND_DECLARED and fact.action in self._actions
        }
        own = [(self._numbers[rule.status], rule.words) for rule in self._tools.rules if rule.words]
        of_status = [(self._numbers[status], words) for status, words in self._tools.status_words.items()]
        return {
            (number, words.rule): verdict_pb2.ToolWords(
                status=number,  # type: ignore[arg-type]  # of a newer version, it is kept as a number
                rule=words.rule,
                remediation=words.texts["remediation"],
                rejection=words.texts["rejection"],
                phrases={name: self._actions[name].phrase for name in declared if _names(words, name)},
            )
            for number, words in (*of_status, *own)
        }

    def _trial(self, trial: Trial) -> pb.RuleTrial:
        return pb.RuleTrial(
            rule=trial.rule.id,
            status=self._numbers[trial.rule.status],  # type: ignore[arg-type]  # as above
            truth=_TRUTHS[trial.truth],
            reads=[pb.FactValue(fact=fact, value=value) for fact, value in trial.reads],
            why=trial.why,
        )

    def _path(self, path: Path) -> pb.PathToCallable:
        return pb.PathToCallable(
            steps=[self._step(step) for step in path.steps],
            end=pb.PathEnd.Value(f"PATH_END_{path.end.upper()}"),
            find_out=path.find_out,
        )

    def _step(self, step: Step) -> pb.PathStep:
        changes = []
        for change in step.changes:
            action = self._actions.get(change.fact.action)
            message = pb.FactChange(
                fact=change.fact.name,
                current=change.value,
                wanted=change.wanted,
                wanted_values=change.wanted_values,
                changed_by=_lifted_by(change.fact.opened_by or LiftedBy.NONE),
                action=change.fact.action,
                phrase=action.phrase if action else "",
            )
            changes.append(message)
        return pb.PathStep(rule=step.rule.id, status=self._numbers[step.rule.status], changes=changes)  # type: ignore[arg-type]


def _points(rules: RuleSet, facts: Mapping[str, str]) -> Points:
    """Return the points of the facts of a request. No reader knows which facts can occur together."""
    try:
        return rules.points_of(facts)
    except KeyError:
        raise invalid("an axis has no point for facts that a request can have") from None


def _names(words: Words, action: str) -> bool:
    return any(action in _PLACEHOLDER.findall(text) for text in words.texts.values())


def _lifted_by(owner: LiftedBy) -> verdict_pb2.LiftedBy.ValueType:
    return verdict_pb2.LiftedBy.Value(f"LIFTED_BY_{owner.upper()}")


def _retry(retry: Retry) -> verdict_pb2.Retry.ValueType:
    return verdict_pb2.Retry.Value(f"RETRY_{retry.upper()}")
