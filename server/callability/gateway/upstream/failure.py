"""Why an upstream failed: a sentence in the gateway's own words, and the facts behind it.

An error of the HTTP client becomes a failure with what failed, and how far the exchange had come.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
from mcp_types import Tool
from pydantic import ValidationError
from pydantic_core import from_json

from callability.contract.timeout_signature import timed_out_on_the_way
from callability.contract.vocabulary import LoadFailure, LoadPhase

NOT_SENT = "; the call was not sent"
MAY_HAVE_RUN = "; the call may have been carried out"
NOT_CARRIED_OUT = "; the call was not carried out"
MESSAGE_BYTES = 16 * 1024 * 1024
"""The longest message that is accepted from an upstream."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of one failure; `words` follow the server's name in a sentence and hold nothing an upstream wrote.

    `exception` and `cause` name the types of the error and of the operating system's error inside it, `exit_code` is
    negative for a signal, `retry_after` is in seconds, `in_session` says that the HTTP request named an established
    session, and `executed` whether a request may have been carried out. `kind` and `phase` say what failed and how far
    it had come, where that is known. `body` is the upstream's own text, for a classifier only: it is never shown or
    logged. `others` are the failures that came with this one, in a group of errors.
    """

    words: str
    exception: str = ""
    cause: str = ""
    errno: int | None = None
    exit_code: int | None = None
    status: int | None = None
    retry_after: float | None = None
    in_session: bool = False
    executed: bool = True
    kind: LoadFailure = LoadFailure.OTHER
    phase: LoadPhase | None = None
    body: str = field(default="", repr=False)
    others: tuple[Failure, ...] = field(default=(), repr=False)

    @classmethod
    def together(cls, failures: Iterable[Failure]) -> Failure:
        """Return the first of some failures, with the others that differ."""
        first, *others = dict.fromkeys(each for failure in failures for each in failure.each)
        return replace(first, others=tuple(others))

    @property
    def is_denial(self) -> bool:
        """Whether access was refused, and no timeout on the way explains it."""
        return self.status in {401, 403} and not timed_out_on_the_way(self.body)

    @property
    def each(self) -> tuple[Failure, ...]:
        """This failure and the others, each alone."""
        return (replace(self, others=()), *self.others)


NOT_MCP = "answered with something that is not MCP"
CLOSED = Failure("closed the connection before it answered", kind=LoadFailure.CLOSED, phase=LoadPhase.RESPONSE)
TOO_LONG = Failure(f"sent a message of more than {MESSAGE_BYTES // 1024 // 1024} MiB", phase=LoadPhase.RESPONSE)


def ending_of(failure: Failure) -> str:
    """Return how the sentence about a call that was sent ends."""
    return MAY_HAVE_RUN if failure.executed else NOT_CARRIED_OUT


class UpstreamError(Exception):
    """An upstream could not be connected or did not carry out a call; `str()` is one sentence, safe for an agent."""

    def __init__(self, name: str, failure: Failure, ending: str = "") -> None:
        super().__init__(f"`{name}` {failure.words}{ending}")
        self.failure = failure


class UpstreamRefusal(UpstreamError):
    """The upstream answered a call with JSON-RPC error `code`; `message` is its own text without the secrets of its
    target, which `str()` leaves out.
    """

    def __init__(self, name: str, code: int, message: str) -> None:
        super().__init__(name, Failure(f"refused the call with JSON-RPC error {code}"))
        self.code = code
        self.message = message


MOST_NAMED = 5
"""Tools that one sentence names."""
MOST_NESTED = 200
"""Levels of JSON that the SDK reads in one message."""
_TOOL_LEVEL = 4
"""Levels down to a tool: the message, its result, the list, the tool."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# A string that is not closed takes the rest: otherwise each quote in it would be tried as the beginning of another.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_TOO_DEEP = f"is nested more than {MOST_NESTED} levels deep"
_DEEP = "callability/deep"
"""The one member of what stands for a tool that is nested too deeply; its value is the tool's name."""
_EVENT_END = re.compile(rb"\r?\n\r?\n")
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)
_MOST_LOOKED_AT = 1024 * 1024
"""Bytes of an answer in which the tool is looked for that is nested too deeply."""
_DISPENSABLE = {"title": str, "outputSchema": dict}
"""The members of a tool without which it is as usable, and their types."""
_READ = ("name", "description", "inputSchema", "annotations", "execution", *_DISPENSABLE)
"""The members of a tool that are shown, searched, approved or decided by."""


@dataclass(frozen=True, slots=True)
class UnreadAnswer:
    """An answer that is no message: the `data` of the error that replaces it, which no upstream can send."""

    text: bytes = field(repr=False)


class ListFault(Exception):
    """The tools cannot be read from the list."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.failure = Failure(words, exception=type(self).__name__, kind=LoadFailure.NOT_MCP, phase=LoadPhase.RESPONSE)


def fault_of_shape(error: ValidationError) -> ListFault:
    """Return what is wrong with a result that is JSON and no list of tools."""
    place = error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]
    if place[0] == "nextCursor":
        return ListFault(f"{NOT_MCP}: the `nextCursor` of its list of tools is not text")
    return ListFault(f"{NOT_MCP}: the result of `tools/list` has no list `tools`")


def usable_tool(index: int, given: object) -> Tool | str:
    """Return a tool with what the gateway shows and decides by; if that cannot be read, what is wrong with it."""
    if not isinstance(given, dict):
        return f"{_which(index, None)} is not an object"
    read = {name: given[name] for name in _READ if name in given}
    read |= {name: None for name, kind in _DISPENSABLE.items() if not isinstance(read.get(name), kind)}
    if _DEEP in given:
        return f"{_which(index, given[_DEEP])} {_TOO_DEEP}"
    which = _which(index, given.get("name"))
    try:
        tool = Tool.model_validate(read, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        wrong = "has no" if first["type"] == "missing" else "has no valid"
        return f"{which} {wrong} `{'.'.join(map(str, first['loc']))}`"
    return tool if tool.input_schema.get("type", "object") == "object" else f"{which} has no valid `inputSchema.type`"


def misplaced_header(index: int, tool: Tool) -> str:
    """Return what is wrong with a tool that the SDK leaves out, as MCP demands."""
    return f"{_which(index, tool.name)} has an `x-mcp-header` that MCP does not allow"


def few_of(faults: Sequence[str]) -> str:
    """Return the first faults in words, and how many more there are."""
    more = f" and {len(faults) - MOST_NAMED:,} more" if len(faults) > MOST_NAMED else ""
    return ", ".join(faults[:MOST_NAMED]) + more


def fault_of_text(text: bytes) -> ListFault:
    """Return what is wrong with a text that the SDK cannot read as a message."""
    for index, element in enumerate(_elements(text[:_MOST_LOOKED_AT].decode("utf-8", "replace"))):
        if element.is_deep:
            return ListFault(f"{NOT_MCP}: {_which(index, _value(element.name))} {_TOO_DEEP}")
    return ListFault(NOT_MCP)


def without_deep_tools(text: bytes) -> dict[str, Any] | None:
    """Return the result in a text that the SDK cannot read because tools are nested too deeply; None if there is none.

    What stands for such a tool is no tool, and `usable_tool` says why.
    """
    message = _message_in(text).decode("utf-8", "replace")
    if len(text) > _MOST_LOOKED_AT:
        return None
    kept, end = "", 0
    for element in _elements(message):
        if element.is_deep:
            kept += f"{message[end : element.start]}{{{json.dumps(_DEEP)}:{element.name or 'null'}}}"
            end = element.end
    try:
        read = from_json(kept + message[end:])
    except ValueError:
        return None
    result = read.get("result") if isinstance(read, dict) else None
    return result if isinstance(result, dict) and isinstance(result.get("tools"), list) else None


def _message_in(text: bytes) -> bytes:
    """Return the message with tools in a body, which is JSON or an event stream."""
    events = (b"".join(_DATA.findall(event)) for event in _EVENT_END.split(text))
    return text if text.lstrip().startswith(b"{") else next((event for event in events if b'"tools"' in event), b"")


def _which(index: int, name: object) -> str:
    return f"tool `{name}`" if isinstance(name, str) and _NAME.fullmatch(name) else f"tool number {index + 1}"


@dataclass(frozen=True, slots=True)
class _Element:
    """An object, or a list, in a list of tools: where it is in the text, its name as JSON, and whether it is nested too
    deeply.
    """

    start: int
    end: int
    name: str
    is_deep: bool


def _elements(text: str) -> Iterator[_Element]:
    """Yield what is in a list of tools, of a text that may be nested too deeply for any parser, or cut."""
    level, start, is_deep = 0, -1, False
    member = last = name = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "[{":
            level += 1
            if level == _TOOL_LEVEL and member == '"tools"':
                start, name, is_deep = match.start(), "", False
            is_deep = is_deep or level > MOST_NESTED
        elif token in "]}":
            if level == _TOOL_LEVEL and start >= 0:
                yield _Element(start, match.end(), name, is_deep)
                start = -1
            level -= 1
        elif level == _TOOL_LEVEL - 2:
            member = token
        elif level == _TOOL_LEVEL:
            name = token if last == '"name"' else name
            last = token
    if start >= 0:
        yield _Element(start, len(text), name, is_deep)


def _value(token: str) -> object:
    try:
        return json.loads(token)
    except ValueError:
        return None


_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.InvalidURL,
    httpx2.PoolTimeout,
    httpx2.LocalProtocolError,
    httpx2.UnsupportedProtocol,
)
_Facts = tuple[str, LoadFailure, LoadPhase]
"""The words of a failure, what failed, and how far it had come."""
_GONE: _Facts = (CLOSED.words, LoadFailure.CLOSED, LoadPhase.REQUEST)
# A name server that cannot be asked, as on a machine without a network, may know the name later.
_UNRESOLVED: _Facts = (
    "could not be reached: its host name could not be looked up for now",
    LoadFailure.TIMEOUT,
    LoadPhase.RESOLVE,
)
_UNREACHED: _Facts = ("could not be reached", LoadFailure.OTHER, LoadPhase.CONNECT)
_BY_CAUSE: tuple[tuple[type[Exception], _Facts], ...] = (
    (
        ConnectionRefusedError,
        ("refused the connection (nothing listens there)", LoadFailure.REFUSED, LoadPhase.CONNECT),
    ),
    (
        socket.gaierror,
        ("could not be reached: its host name was not found", LoadFailure.NAME_NOT_FOUND, LoadPhase.RESOLVE),
    ),
    # The peer accepted, and went away in the handshake: that is no fault of its certificate.
    (ssl.SSLEOFError, _GONE),
    (ssl.SSLWantReadError, _GONE),
    (ssl.SSLWantWriteError, _GONE),
    (ssl.SSLError, ("could not be reached: no trusted TLS connection could be made", LoadFailure.TLS, LoadPhase.TLS)),
    (TimeoutError, ("could not be reached in time", LoadFailure.TIMEOUT, LoadPhase.CONNECT)),
    # Only a connection that was accepted is reset: without a listener it is refused, without an answer it times out.
    (ConnectionError, (CLOSED.words, LoadFailure.RESET, LoadPhase.REQUEST)),
)
_BY_ERROR: tuple[tuple[type[Exception], _Facts], ...] = (
    (httpx2.ConnectTimeout, ("could not be reached in time", LoadFailure.TIMEOUT, LoadPhase.CONNECT)),
    (httpx2.PoolTimeout, ("has too many calls under way", LoadFailure.TIMEOUT, LoadPhase.REQUEST)),
    (httpx2.WriteTimeout, ("did not answer in time", LoadFailure.TIMEOUT, LoadPhase.REQUEST)),
    (httpx2.TimeoutException, ("did not answer in time", LoadFailure.TIMEOUT, LoadPhase.RESPONSE)),
    (httpx2.InvalidURL, ("could not be reached: its URL is not valid", LoadFailure.BAD_CONFIG, LoadPhase.CONFIG)),
    (
        httpx2.UnsupportedProtocol,
        ("could not be reached: its URL is not http or https", LoadFailure.BAD_CONFIG, LoadPhase.CONFIG),
    ),
    (
        httpx2.LocalProtocolError,
        (
            "could not be asked: its URL or headers hold a character that is not allowed there",
            LoadFailure.BAD_CONFIG,
            LoadPhase.CONFIG,
        ),
    ),
    (httpx2.ProxyError, ("could not be reached through the proxy", LoadFailure.OTHER, LoadPhase.CONNECT)),
    (httpx2.DecodingError, ("sent a body that could not be decoded", LoadFailure.CLOSED, LoadPhase.RESPONSE)),
)
_HARMLESS = (httpx2.DecodingError, httpx2.PoolTimeout)
_NOT_OF_THE_CONNECTION = frozenset({LoadFailure.NOT_MCP, LoadFailure.BAD_CONFIG})


def transport_failure(error: Exception) -> Failure:
    """Put an error of the HTTP client into words and facts; of several addresses each may have failed in its way."""
    return Failure.together(_transport_failure(error, cause) for cause in _innermost(error))


def ends_connection(error: Exception, failure: Failure) -> bool:
    """Say whether the network failed; any other error says nothing about the next request."""
    return not isinstance(error, _HARMLESS) and failure.kind not in _NOT_OF_THE_CONNECTION


def is_pool_full(failure: Failure) -> bool:
    """Say whether a request was not sent because other requests had all connections of the client."""
    return failure.exception == httpx2.PoolTimeout.__name__


def _transport_failure(error: Exception, cause: BaseException) -> Failure:
    words, kind, phase = _facts_of(error, cause)
    return Failure(
        words,
        exception=type(error).__name__,
        cause=type(cause).__name__,
        errno=cause.errno if isinstance(cause, OSError) else None,
        executed=not isinstance(error, _UNSENT),
        kind=kind,
        phase=phase,
    )


def _facts_of(error: Exception, cause: BaseException) -> _Facts:
    for kind, facts in _BY_ERROR:
        if isinstance(error, kind):
            return facts
    if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_AGAIN:
        return _UNRESOLVED
    if isinstance(error, httpx2.ConnectError):
        return next((facts for kind, facts in _BY_CAUSE if isinstance(cause, kind)), _UNREACHED)
    # The one case in which only the library's text distinguishes two errors.
    if isinstance(error, httpx2.RemoteProtocolError) and not re.search("disconnected|closed connection", str(error)):
        return "answered with something that is not HTTP", LoadFailure.NOT_MCP, LoadPhase.RESPONSE
    phase = LoadPhase.REQUEST if isinstance(error, httpx2.WriteError) else LoadPhase.RESPONSE
    return CLOSED.words, LoadFailure.RESET if isinstance(cause, ConnectionResetError) else LoadFailure.CLOSED, phase


def _innermost(error: BaseException) -> tuple[BaseException, ...]:
    """Return the operating system's errors at the ends of the causes, of which a group has several, or the error."""
    group = error.exceptions if isinstance(error, BaseExceptionGroup) else (error.__cause__ or error.__context__,)
    ends = (end for deeper in group if deeper is not None for end in _innermost(deeper))
    return tuple(end for end in ends if isinstance(end, OSError)) or (error,)
