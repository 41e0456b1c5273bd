"""The results of one policy: for each verdict its encoded result, and for facts on the wire their verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from callability.bounded_cache import BoundedCache
from callability.policy.loading import Policy
from callability.policy.questions.fact import NameFact
from callability.policy.rules.retry import retry_of
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import Templates, declared_phrases, rule_words, status_words
from callability.service.fast_path.encoded_results import PLACES, EncodedResult, WordsKey
from callability.service.fast_path.tool_results import ToolResults, fact_key
from callability.service.observability.gaps import Gap, gaps_of, undeclared
from callability.service.observability.verdict_counts import Counted
from callability.service.requests import limits
from callability.service.translation.messages import verdict_message, words_message
from callability.service.translation.tool_facts import AgentValues, FactReader, FactValues
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2
from callability.vocabulary import ToolStatus

MAX_SERVERS = 64
"""Facts of servers for which results are kept."""
MAX_UNDETERMINED = 4_096
"""Different undetermined results that are kept; they name the facts that are unread."""


class PolicyResults:
    """The results of one policy."""

    def __init__(self, policy: Policy) -> None:
        self.revision = policy.revision
        proved = policy.rule_sets["callability"]
        self._rule_set = proved.rule_set
        self._diagram = proved.diagram
        self.reader = FactReader(proved.diagram.space)
        facts = map(proved.rule_set.question.facts.__getitem__, proved.diagram.space.facts)
        self._names = {fact.name: fact for fact in facts if isinstance(fact, NameFact)}
        self._words = _encode_words(policy)
        self._determined = {each: self._encoded(each) for each in self._diagram.verdicts if not each.undetermined}
        self._undetermined: BoundedCache[tuple[Verdict, tuple[str, ...], frozenset[str]], EncodedResult]
        self._undetermined = BoundedCache(MAX_UNDETERMINED)
        self._servers: BoundedCache[tuple[bytes | str, str, AgentValues], ToolResults] = BoundedCache(MAX_SERVERS)

    @property
    def kept_servers(self) -> int:
        """How many combinations of server facts have results that are kept."""
        return len(self._servers)

    def known_as(self, fact: str, name: bytes) -> str:
        """Return the name that represents a name for the rules; nothing if they do not read it."""
        return self._names[fact].classes.representative(name.decode()) if fact in self._names else ""

    def agent_of(self, request: Any) -> tuple[AgentValues, tuple[Gap, ...]]:
        """Return what rules know of the agent in a lazy request, and its facts that are not declared.

        Raises:
            InvalidRequest: its name is not one, or its facts exceed a limit.
        """
        if not request.HasField("agent"):
            return self.reader.of_agent(None)[0], ()
        agent = request.agent
        limits.check_name(agent.name, "agent", empty=True)
        limits.check_agent(agent.ByteSize())
        known, ignored = self.reader.of_agent(agent, self.known_as("agent.name", agent.name))
        return known, undeclared("agent", ignored)

    def of_server(self, server_facts: bytes, server: bytes, agent: AgentValues) -> ToolResults:
        """Return the results for tools of a server with these facts and this name, for an agent."""
        known = self.known_as("server.name", server)
        key = (fact_key(server_facts), known, agent)
        results = self._servers.get(key)
        if results is None:
            read = partial(self.reader.of_server, server_facts, known, agent)
            results = ToolResults(self.reader, read, self._names.get("tool.name"), self.of_facts)
            self._servers.keep(key, results)
        return results

    def of_facts(self, facts: FactValues) -> EncodedResult:
        """Return the result for all facts of a tool."""
        verdict = self._diagram.verdict(facts.values)
        if not verdict.undetermined:
            return self._determined[verdict]
        unread = self._diagram.unread(verdict, facts.values)
        key = verdict, unread, facts.not_understood
        result = self._undetermined.get(key)
        if result is None:
            result = self._encoded(verdict, unread, facts.not_understood)
            self._undetermined.keep(key, result)
        return result

    def response(self, result: EncodedResult) -> pb.CheckToolResponse:
        """Return the response about one tool that a verdict is."""
        words = self._words[result.words] if result.words else None
        return pb.CheckToolResponse(revision=self.revision, verdict=result.verdict, words=words)

    def encoded_words(self, keys: Iterable[WordsKey]) -> list[bytes]:
        """Return words, encoded, with those of the statuses of rules that have their own; by status, then rule."""
        wanted = {*keys, *((status, "") for status, _ in keys)}
        order = list(ToolStatus)
        return [
            self._words[key].SerializeToString()
            for key in sorted(wanted, key=lambda key: (order.index(ToolStatus(key[0])), key))
        ]

    def _encoded(
        self, verdict: Verdict, unread: tuple[str, ...] = (), not_understood: frozenset[str] = frozenset()
    ) -> EncodedResult:
        message = verdict_message(verdict, retry_of(self._rule_set.question, verdict.status, unread), unread)
        encoded = pb.ServerResults(results=[pb.ToolResult(verdict=message)]).SerializeToString()
        words = None
        if verdict.status != ToolStatus.CALLABLE:
            own = (verdict.status, verdict.rule)
            words = own if own in self._words and not verdict.undetermined else (verdict.status, "")
        gaps = gaps_of("callability", unread, not_understood)
        counted = Counted("callability", verdict.status, "" if verdict.undetermined else verdict.rule)
        result = EncodedResult(PLACES[ToolStatus(verdict.status)], encoded, words, message, gaps=gaps, counted=counted)
        return replace(result, reply=self.response(result).SerializeToString())


def _encode_words(policy: Policy) -> dict[WordsKey, verdict_pb2.ToolWords]:
    rule_set = policy.rule_sets["callability"].rule_set
    said: dict[WordsKey, Templates] = {(status, ""): status_words(rule_set, status) for status in rule_set.words}
    for rule in rule_set.rules:
        own = rule_words(rule_set, rule)
        if own:
            said[rule.status, rule.id] = own
    question = rule_set.question
    return {key: words_message(*key, words, declared_phrases(words, question)) for key, words in said.items()}
