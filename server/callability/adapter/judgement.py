"""The verdicts of a response, tool by tool, and their counts by server (A.6), for the servers that the caller may see.

The request about one tool is derived from the request about all, so that both send the same facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from callability.adapter.texts import Phrases, fill, in_sentence, on_one_line, with_declared
from callability.contract.enum_words import TOOL_STATUS
from callability.contract.vocabulary import ToolStatus
from callability.v1.callability_service_pb2 import CheckToolRequest, CheckToolsRequest, CheckToolsResponse, ToolResult
from callability.v1.verdict_pb2 import ToolWords

UNEXPLAINED = "The policy service gives no reason. Tell the user. Next step: {check_logs}."
"""The text used if a service of another version sends no words that this version knows."""

MAX_NAMED = 10
"""Tools that the introduction of a text names; more are counted."""

SEPARATOR = ":"
"""What stands between server and tool in a qualified name, unless the proxy has names of another form."""


class AllServers(Enum):
    """The type of `ALL_SERVERS`."""

    ALL_SERVERS = "all servers"


ALL_SERVERS: Final = AllServers.ALL_SERVERS
"""The scope of an agent that may see every server. It is never a default: pass it where that is what you mean."""
Scope: TypeAlias = Collection[str] | AllServers
"""The servers that an agent may see, by name, or `ALL_SERVERS`. An empty collection is none of them."""


def in_scope(server: str, scope: Scope) -> bool:
    """Return whether a server is in a scope.

    Raises:
        TypeError: the scope is neither several names nor `ALL_SERVERS`.
    """
    if isinstance(scope, AllServers):
        return True
    if scope is None or isinstance(scope, str):
        found = "None" if scope is None else "one name"
        raise TypeError(f"the scope is {found}, but must be the names of servers, or `ALL_SERVERS`")
    return server in scope


_STATUSES = TOOL_STATUS.members(ToolStatus)


@dataclass(frozen=True, slots=True)
class ToolText:
    """What the upstream server says about a tool; None if it is not known or not given."""

    description: str | None = None
    input_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None


class JudgedTool(NamedTuple):
    """A tool with its status; `words_of` is the rule whose own words apply, or nothing.

    `undetermined`: the status is not a rule's own, and `unread` are the facts that could not be read for it.

    A named tuple, since thousands are made for one answer.
    """

    server: str
    tool: str
    status: ToolStatus
    withhold_text: bool
    words_of: str = ""
    undetermined: bool = False
    unread: tuple[str, ...] = ()
    separator: str = SEPARATOR

    @property
    def name(self) -> str:
        """The name by which an agent knows it, such as `server:tool`: server, separator, tool."""
        return f"{self.server}{self.separator}{self.tool}"

    @property
    def callable(self) -> bool:
        """Whether it can be called."""
        return self.status is ToolStatus.CALLABLE


@dataclass(frozen=True, slots=True)
class Judgement:
    """The tools of the visible servers, in the order of the request, and the words for their statuses.

    `refusals` are why the proxy's own gate refuses tools for good, by qualified name. `texts` are what the servers said
    about the tools when these were judged, by qualified name, if an inventory judged them. `duplicates` are the
    qualified names that two tools of an inventory have: neither is in the judgement, as if it did not exist.
    """

    tools: tuple[JudgedTool, ...]
    words: Mapping[tuple[ToolStatus, str], ToolWords]
    refusals: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, ToolText] = field(default_factory=dict)
    duplicates: tuple[str, ...] = ()
    # A proxy keeps a judgement of thousands of tools for many answers.
    _parts: dict[str, tuple[JudgedTool, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _named: dict[str, JudgedTool] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def callable(self) -> tuple[JudgedTool, ...]:
        """The tools that can be called."""
        return self._part("callable", lambda: (tool for tool in self.tools if tool.callable))

    @property
    def searchable(self) -> tuple[JudgedTool, ...]:
        """The locked tools whose text may be searched and shown (spec A.3)."""
        return self._part("searchable", lambda: (tool for tool in self.locked if not tool.withhold_text))

    @property
    def locked(self) -> tuple[JudgedTool, ...]:
        """The tools that exist and cannot be called."""
        return self._part("locked", lambda: (tool for tool in self.tools if not tool.callable))

    @property
    def by_name(self) -> Mapping[str, JudgedTool]:
        """The tools by their qualified names."""
        if len(self._named) < len(self.tools):
            self._named.update((tool.name, tool) for tool in self.tools)
        return self._named

    def _part(self, name: str, tools: Callable[[], Iterable[JudgedTool]]) -> tuple[JudgedTool, ...]:
        part = self._parts.get(name)
        if part is None:
            part = self._parts[name] = tuple(tools())
        return part

    def remediation(self, tools: Collection[JudgedTool], phrases: Phrases) -> dict[str, str]:
        """Return what to do about the statuses of some tools, one text a status (FR-005).

        A text is that of a tool's rejection: the words of its rule, or the reason why the proxy's own gate refuses it.
        If tools of one status have different texts, each text is introduced by the names of its tools.
        """
        by_status: dict[ToolStatus, dict[str, list[str]]] = {}
        filled: dict[tuple[ToolStatus, str], str] = {}
        for tool in tools:
            text = self._refusal(tool)
            if not text:
                key = tool.status, tool.words_of
                text = filled[key] = filled.get(key) or self._text(*key, phrases)
            by_status.setdefault(tool.status, {}).setdefault(text, []).append(tool.name)
        return {str(status): _join_texts(by_status[status]) for status in ToolStatus if status in by_status}

    def _text(self, status: ToolStatus, rule: str, phrases: Phrases) -> str:
        words = self.words.get((status, rule)) or self.words.get((status, ""))
        known = with_declared(phrases, words.phrases) if words else phrases
        return fill((words and words.remediation) or UNEXPLAINED, known)

    def _refusal(self, tool: JudgedTool) -> str:
        """Return why the proxy's own gate refuses a tool, if that is what its status says."""
        if tool.status is not ToolStatus.DISABLED_UNKNOWN or tool.undetermined:
            return ""
        return on_one_line(self.refusals.get(tool.name, ""))


def _join_texts(names: Mapping[str, Sequence[str]]) -> str:
    """Return the texts about tools, each introduced by the names of its tools if there are several."""
    if len(names) == 1:
        return next(iter(names))
    return " ".join(f"For {_list_names(those)}: {text}" for text, those in names.items())


def _list_names(names: Sequence[str]) -> str:
    shown = ", ".join(map(in_sentence, names[:MAX_NAMED]))
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"


def known_status(number: int) -> bool:
    """Say whether a number of the contract is a status that this version knows."""
    return number in _STATUSES


def status_of(number: int) -> ToolStatus:
    """Return a status of the contract; one that this version does not know is held back as undetermined."""
    return _STATUSES.get(number, ToolStatus.DISABLED_UNKNOWN)


def judge(
    request: CheckToolsRequest,
    response: CheckToolsResponse,
    *,
    visible: Scope,
    refusals: Mapping[str, str] | None = None,
    separator: str = SEPARATOR,
) -> Judgement:
    """Join a request with its response, for the servers in `visible`, or for all that were asked about (`ALL_SERVERS`).

    A tool outside the caller's scope does not belong into the request (FR-007); `visible` leaves out what is there all
    the same. An item that is an error counts as undetermined, and its text is withheld. `refusals` say, by
    qualified name, why the proxy's own gate refuses a tool for good, where it sent `caller_refuses`; see `rejection`.
    `separator` stands between server and tool in a qualified name.

    Raises:
        ValueError: the response is not one to this request, or two tools of it have one qualified name.
        TypeError: `visible` is neither several names nor `ALL_SERVERS`.
    """
    in_scope("", visible)
    if len(request.servers) != len(response.servers):
        raise ValueError("the response has another number of servers than the request")
    words = {(_STATUSES[said.status], said.rule): said for said in response.words if said.status in _STATUSES}
    tools: list[JudgedTool] = []
    verdicts: dict[bytes, _Verdict] = {}
    for sent, judged in zip(request.servers, response.servers, strict=True):
        if len(sent.tools) != len(judged.results):
            raise ValueError("the response has another number of tools than the request")
        if in_scope(sent.name, visible):
            server = sent.name
            for tool, result in zip(sent.tools, judged.results, strict=True):
                # Few results differ, and a look at their bytes costs less than one at their fields.
                encoded = result.SerializeToString()
                verdict = verdicts.get(encoded)
                if verdict is None:
                    verdict = verdicts[encoded] = _read_verdict(result, words)
                tools.append(JudgedTool(server, tool.name, *verdict, separator))
    if len({tool.name for tool in tools}) < len(tools):
        raise ValueError("two tools of the request have the same name")
    return Judgement(tuple(tools), words, refusals or {})


_Verdict = tuple[ToolStatus, bool, str, bool, tuple[str, ...]]
"""What a judged tool has beside its names, in the order of its fields."""


def _read_verdict(result: ToolResult, words: Mapping[tuple[ToolStatus, str], ToolWords]) -> _Verdict:
    if not result.HasField("verdict") or not known_status(result.verdict.status):
        return ToolStatus.DISABLED_UNKNOWN, True, "", True, ()
    verdict = result.verdict
    status = status_of(verdict.status)
    own = verdict.rule if (status, verdict.rule) in words and not verdict.undetermined else ""
    return status, verdict.withhold_text, own, verdict.undetermined, tuple(verdict.unread)


_ORDER = (
    ToolStatus.DISABLED_BY_CONFIG,
    ToolStatus.DISABLED_BY_USER,
    ToolStatus.PENDING_APPROVAL,
    ToolStatus.SERVER_DISABLED,
    ToolStatus.SERVER_QUARANTINED,
    ToolStatus.DISABLED_UNKNOWN,
)


def tool_counts(judgement: Judgement) -> dict[str, dict[str, int]]:
    """Return, for each server with a tool that is not callable, how many are callable, and how many are not and why.

    A server whose tools are all callable is not in it, so that its entry gains nothing (SC-005).
    """
    found: dict[str, Counter[ToolStatus]] = {}
    for tool in judgement.tools:
        found.setdefault(tool.server, Counter())[tool.status] += 1
    return {
        server: {
            "callable": counts[ToolStatus.CALLABLE],
            **{str(each): counts[each] for each in _ORDER if counts[each]},
        }
        for server, counts in found.items()
        if counts[ToolStatus.CALLABLE] < counts.total()
    }


def check_tool_request(inventory: CheckToolsRequest, server: str, tool: str) -> CheckToolRequest:
    """Return the request about a tool of an inventory.

    Raises:
        KeyError: it is not in it.
    """
    for each in inventory.servers:
        if each.name == server:
            for one in each.tools:
                if one.name == tool:
                    request = CheckToolRequest(server=server, server_facts=each.facts, tool=tool, tool_facts=one.facts)
                    # An agent that is absent is unknown; copied, it would be present and without a name.
                    if inventory.HasField("agent"):
                        request.agent.CopyFrom(inventory.agent)
                    return request
    raise KeyError(tool)
