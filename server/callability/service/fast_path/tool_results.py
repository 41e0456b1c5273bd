"""Answers that are encoded once: for each verdict its bytes in a reply, and for facts on the wire their answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from callability.policy.deciding.space import Combination
from callability.policy.loading import Policy
from callability.policy.questions.fact import NameFact
from callability.policy.rules.unread import retry_of, unread_of
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import Templates, rule_words, status_words
from callability.service.observability.gaps import Gap, gaps_of
from callability.service.requests.errors import InvalidRequest, ServiceError
from callability.service.translation.messages import verdict_message, words_message
from callability.service.translation.tool_facts import FactReader, Names
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2
from callability.vocabulary import ToolStatus

MAX_KEPT = 1_024
"""Facts of tools that are kept with their answer, for one combination of server facts."""
MAX_KEPT_SERVERS = 64
"""Facts of servers for which answers are kept."""
MAX_KEY = 256
"""Bytes of facts that are kept at the most; longer ones are decided anew each time."""
MAX_UNDETERMINED = 4_096
"""Different answers that are kept which name facts that could not be read."""

_PLACES = {status: place for place, status in enumerate(ToolStatus)}

MAX_KEPT_RESULTS = 4_096
"""Servers with all their tools that are kept with their results."""
MAX_RESULTS_KEY = 4_096
"""Bytes of a `ServerTools` that is kept at the most."""

MAX_RESULTS = 16_384
"""Bytes of results that are kept at the most."""

WordsKey = tuple[str, str]
"""A status, and a rule or nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer to one item: its status by its place in their order, its bytes in a `ServerResults`, its words.

    `reply` are its bytes as a `CheckToolResponse`, and `gaps` the facts that keep it undetermined.
    """

    place: int
    result: bytes
    words: WordsKey | None = None
    verdict: verdict_pb2.ToolVerdict | None = None
    reply: bytes = b""
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """The answer about the tools of one server: how many there are, a `ServerResults` encoded, and its words.

    `gaps` are the facts that keep some of them undetermined, each with the number of tools.
    """

    tools: int
    encoded: bytes
    words: frozenset[WordsKey]
    gaps: Mapping[Gap, int]


def gaps_among(answers: Sequence[Answer]) -> Mapping[Gap, int]:
    """Return the gaps of some answers, each with the number of answers that have it."""
    found: dict[Gap, int] = {}
    for answer, count in Counter(answers).items():
        for gap in answer.gaps:
            found[gap] = found.get(gap, 0) + count
    return found


def error_answer(error: ServiceError) -> Answer:
    """Return the answer to an item that is an error: it counts as undetermined."""
    item = verdict_pb2.ItemError(reason=error.reason, message=error.message)
    result = pb.ServerResults(results=[pb.ToolResult(error=item)])
    return Answer(_PLACES[ToolStatus.DISABLED_UNKNOWN], result.SerializeToString(), (ToolStatus.DISABLED_UNKNOWN, ""))


class Answers:
    """The answers of one policy."""

    def __init__(self, policy: Policy) -> None:
        self.revision = policy.revision
        proved = policy.rule_sets["callability"]
        self._rule_set = proved.rule_set
        self._table = proved.table
        self._reader = FactReader(proved.table.space)
        facts = map(proved.rule_set.question.facts.__getitem__, proved.table.space.facts)
        self._names = {fact.name: fact for fact in facts if isinstance(fact, NameFact)}
        self._words = self._encode_words(policy)
        self._answers = {verdict: self._answer(verdict) for verdict in self._table.verdicts if not verdict.undetermined}
        self._undetermined: dict[tuple[Combination, frozenset[str]], Answer] = {}
        self._kept: dict[tuple[bytes, str, str | None], AnswersOfServer] = {}
        self._results: dict[tuple[bytes, str | None], Results] = {}

    @property
    def kept_servers(self) -> int:
        """How many combinations of server facts have answers that are kept."""
        return len(self._kept)

    @property
    def reads_tools(self) -> bool:
        """Whether rules read the names of tools."""
        return "tool.name" in self._names

    def known_as(self, fact: str, name: bytes) -> str:
        """Return the name that stands for a name to the rules; nothing where they do not read it."""
        return self._names[fact].classes.representative(name.decode()) if fact in self._names else ""

    def of_server(self, server_facts: bytes, server: bytes, agent: str | None) -> AnswersOfServer:
        """Return the answers for tools of a server with these facts and this name, for an agent."""
        key = (server_facts, self.known_as("server.name", server), agent)
        kept = self._kept.get(key)
        if kept is None:
            kept = AnswersOfServer(self, *key)
            if len(server_facts) <= MAX_KEY:
                if len(self._kept) >= MAX_KEPT_SERVERS:
                    self._kept.clear()
                self._kept[key] = kept
        return kept

    def results(self, server_tools: bytes, agent: str | None) -> Results | None:
        """Return the results for a `ServerTools` that was answered before, as it stands on the wire."""
        return self._results.get((server_tools, agent))

    def keep(self, server_tools: bytes, agent: str | None, results: Results) -> None:
        """Keep results: a proxy asks about the same tools again and again."""
        if len(server_tools) <= MAX_RESULTS_KEY and len(results.encoded) <= MAX_RESULTS:
            if len(self._results) >= MAX_KEPT_RESULTS:
                self._results.clear()
            self._results[server_tools, agent] = results

    def facts(self, server_facts: bytes, tool_facts: bytes, names: Names) -> dict[str, str]:
        """Return every fact of a tool, by name.

        Raises:
            InvalidRequest: those on the wire are malformed.
        """
        return self._reader.read(server_facts, tool_facts, names)

    def decide(self, server_facts: bytes, tool_facts: bytes, names: Names) -> Answer:
        """Return the answer for facts as they stand on the wire.

        Raises:
            InvalidRequest: they are malformed.
        """
        facts = self.facts(server_facts, tool_facts, names)
        verdict = self._table.verdict(facts)
        if not verdict.undetermined:
            return self._answers[verdict]
        key = self._table.combination(facts), self._reader.not_understood(server_facts, tool_facts)
        answer = self._undetermined.get(key)
        if answer is None:
            if len(self._undetermined) >= MAX_UNDETERMINED:
                self._undetermined.clear()
            unread = unread_of(self._rule_set, verdict, facts)
            answer = self._answer(verdict, unread, gaps_of("callability", unread, key[1]))
            self._undetermined[key] = answer
        return answer

    def reply(self, answer: Answer) -> pb.CheckToolResponse:
        """Return the reply about one tool for an answer that `decide` gave."""
        words = self._words[answer.words] if answer.words else None
        return pb.CheckToolResponse(revision=self.revision, verdict=answer.verdict, words=words)

    def encoded_words(self, keys: set[WordsKey]) -> list[bytes]:
        """Return words, encoded, with those of the statuses of rules that have their own; by status, then rule."""
        wanted = keys | {(status, "") for status, _ in keys}
        order = list(ToolStatus)
        return [
            self._words[key].SerializeToString()
            for key in sorted(wanted, key=lambda key: (order.index(ToolStatus(key[0])), key))
        ]

    def _answer(self, verdict: Verdict, unread: tuple[str, ...] = (), gaps: tuple[Gap, ...] = ()) -> Answer:
        message = verdict_message(verdict, retry_of(self._rule_set.question, verdict.status, unread), unread)
        result = pb.ServerResults(results=[pb.ToolResult(verdict=message)]).SerializeToString()
        words = None
        if verdict.status != ToolStatus.CALLABLE:
            own = (verdict.status, verdict.rule)
            words = own if own in self._words and not verdict.undetermined else (verdict.status, "")
        answer = Answer(_PLACES[ToolStatus(verdict.status)], result, words, message, gaps=gaps)
        return replace(answer, reply=self.reply(answer).SerializeToString())

    @staticmethod
    def _encode_words(policy: Policy) -> dict[WordsKey, verdict_pb2.ToolWords]:
        rule_set = policy.rule_sets["callability"].rule_set
        said: dict[WordsKey, Templates] = {(status, ""): status_words(rule_set, status) for status in rule_set.words}
        for rule in rule_set.rules:
            own = rule_words(rule_set, rule)
            if own:
                said[rule.status, rule.id] = own
        return {key: words_message(*key, words) for key, words in said.items()}


ToolKey = bytes | tuple[bytes, str]
"""The facts of a tool on the wire; where rules read its name, with what they know of it."""


class AnswersOfServer(dict[ToolKey, Answer]):
    """The answers for the tools of a server, decided when first asked for."""

    def __init__(self, answers: Answers, server_facts: bytes, server: str, agent: str | None) -> None:
        super().__init__()
        self._answers = answers
        self._server_facts = server_facts
        self._server = server
        self._agent = agent
        self.reads_tools = answers.reads_tools
        """Whether the key of a tool has more than its facts."""

    def of_tool(self, tool_facts: bytes, tool: bytes) -> Answer:
        """Return the answer for a tool with these facts and this name."""
        return self[(tool_facts, self._answers.known_as("tool.name", tool)) if self.reads_tools else tool_facts]

    def decide(self, tool_facts: bytes, tool: str = "") -> Answer:
        """Decide anew.

        Raises:
            InvalidRequest: the facts are malformed.
        """
        return self._answers.decide(self._server_facts, tool_facts, Names(self._server, tool, self._agent))

    def __missing__(self, key: ToolKey) -> Answer:
        tool_facts, tool = key if isinstance(key, tuple) else (key, "")
        try:
            answer = self.decide(tool_facts, tool)
        except InvalidRequest as error:
            return error_answer(error)
        if len(tool_facts) <= MAX_KEY:
            if len(self) >= MAX_KEPT:
                self.clear()
            self[key] = answer
        return answer
