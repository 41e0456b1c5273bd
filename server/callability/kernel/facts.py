"""From the facts of a request to readings by name: the only reader of facts about a tool, a load and an enable.

A text of an error is read only if no signal is sent (L-2), the most careful sense counts, and URLs, paths and names of
hosts are never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Literal, TypeVar

from google.protobuf.message import DecodeError

from callability.bundle.v1 import bundle_pb2
from callability.contract.enum_words import (
    APPROVAL_STATUS,
    ENABLE_AUTHORIZATION,
    ENABLE_CREDENTIALS,
    ENABLE_END,
    LOAD_FAILURE,
    LOAD_PHASE,
    LOAD_STATUS,
)
from callability.contract.timeout_signature import DECIDED, TIMEOUT, timed_out_on_the_way, without_addresses
from callability.contract.vocabulary import (
    NO_LABEL,
    UNKNOWN,
    EnableAuthorization,
    EnableCredentials,
    EnableEnd,
    LoadFailure,
    LoadPhase,
    LoadStatus,
)
from callability.kernel import limits
from callability.kernel.limits import InvalidRequest
from callability.kernel.rule_set import Fact, RuleSet
from callability.v1 import facts_pb2 as pb
from callability.v1 import outcome_pb2 as outcome_pb
from callability.v1.outcome_pb2 import LoadFailure as WireFailure
from callability.v1.outcome_pb2 import LoadPhase as WirePhase
from callability.v1.outcome_pb2 import LoadSignals

HTTP_STATUSES = tuple(
    "400 401 403 404 405 408 409 410 413 415 421 425 426 429 500 501 502 503 504".split()  # noqa: SIM905  # a table
)
"""The HTTP status numbers that rules can distinguish; any other is `other`, of its class."""
HTTP_CLASSES = ("3xx", "4xx", "5xx", "other")

HINT_DEFAULTS = {"annotations.read_only": "false", "annotations.destructive": "true", "annotations.idempotent": "false"}
"""The hints that depend on each other, with the defaults that MCP defines."""
READS_ONLY = ("true", "false", "true")
"""What they are for a tool that only reads."""

_CONNECTED = (LoadPhase.REQUEST, LoadPhase.RESPONSE, LoadPhase.LIST)
_PHASES = {
    LoadFailure.NONE: (LoadPhase.LIST,),
    LoadFailure.TIMEOUT: tuple(LoadPhase)[1:],
    LoadFailure.REFUSED: (LoadPhase.CONNECT,),
    LoadFailure.RESET: (LoadPhase.CONNECT, LoadPhase.TLS, *_CONNECTED),
    LoadFailure.CLOSED: (LoadPhase.CONNECT, LoadPhase.TLS, *_CONNECTED),
    LoadFailure.NAME_NOT_FOUND: (LoadPhase.RESOLVE, LoadPhase.CONNECT),
    LoadFailure.TLS: (LoadPhase.CONNECT, LoadPhase.TLS),
    LoadFailure.BAD_CONFIG: (LoadPhase.CONFIG,),
    LoadFailure.MISSING_COMMAND: (LoadPhase.CONFIG, LoadPhase.CONNECT),
    LoadFailure.EXITED: (LoadPhase.CONNECT, *_CONNECTED),
    LoadFailure.NOT_MCP: _CONNECTED,
    LoadFailure.HTTP_STATUS: (LoadPhase.CONNECT, *_CONNECTED),
    LoadFailure.OTHER: tuple(LoadPhase),
}

MAY_HAVE_FAILED = (EnableEnd.FAILED, UNKNOWN)
"""Ends of an attempt with which its load may have a status."""
MAY_BE_UNANSWERED = (EnableAuthorization.UNANSWERED, UNKNOWN)
"""Ends of a dialog with which it may have expired."""
FAILED_LOADS = (LoadStatus.TRANSIENT, LoadStatus.DENIED, LoadStatus.PERMANENT)
"""Statuses of a load that failed."""


def normalized_hints(given: Mapping[str, str]) -> dict[str, str]:
    """Return the three hints that depend on each other, for those that an upstream, or somebody in its words, gives.

    `destructiveHint` and `idempotentHint` mean something only if `readOnlyHint` is false (MCP): a tool that is known to
    be read-only destroys nothing and is idempotent, whatever else it says. A hint that is left out has MCP's default,
    or is unknown if one that is given is.
    """
    if given.get("annotations.read_only") == "true":
        return dict(zip(HINT_DEFAULTS, READS_ONLY, strict=True))
    rest = UNKNOWN if UNKNOWN in given.values() else None
    return {name: given.get(name, rest or default) for name, default in HINT_DEFAULTS.items()}


def http_facts(number: int) -> tuple[str, str]:
    """Return class and number of an HTTP status as the facts have them."""
    http_class = f"{number // 100}xx"
    text = str(number)
    return http_class if http_class in HTTP_CLASSES else "other", text if text in HTTP_STATUSES else "other"


def can_fail(failure: str, phase: str) -> bool:
    """Say whether a phase can end in a failure; an unknown failure may be any."""
    return failure == UNKNOWN or phase in _PHASES[LoadFailure(failure)]


def attempt_facts(authorization: str, ended: str, load_status: str, dialog_expired: str) -> dict[str, str]:
    """Return the facts of an attempt that depend on each other, for what a caller sends of them.

    Only a load that failed has a status, and only a dialog that nobody answered can have expired. What does not go
    with how the attempt ended is not looked at, and what is not known of a failure is unknown.
    """
    failed = ended == EnableEnd.FAILED
    load = "none"
    if ended in MAY_HAVE_FAILED:
        load = load_status if failed and load_status in FAILED_LOADS else UNKNOWN
    expired = "false"
    if ended in MAY_HAVE_FAILED and authorization in MAY_BE_UNANSWERED:
        expired = dialog_expired if failed or dialog_expired == "false" else UNKNOWN
    return {
        "enable.authorization": authorization,
        "enable.ended": ended,
        "enable.load_status": load,
        "enable.dialog_expired": expired,
    }


Hint = Literal["read_only", "destructive", "idempotent", "open_world"]
_DEPENDENT: tuple[Hint, ...] = ("read_only", "destructive", "idempotent")


def server_fields(facts: pb.ServerFacts) -> dict[str, str]:
    """Return the fields of the facts of a server."""
    return {
        "server.enabled": _boolean(facts.enabled, known=facts.HasField("enabled")),
        "server.quarantined": _boolean(facts.quarantined, known=facts.HasField("quarantined")),
    }


def tool_fields(facts: pb.ToolFacts) -> dict[str, str]:
    """Return the fields of the facts of a tool, without its annotations."""
    disabled, status = _approval(facts)
    return {
        "tool.config_denied": _boolean(facts.config_denied, known=facts.HasField("config_denied")),
        "approval.disabled": disabled,
        "approval.status": status,
        "caller.refuses": _boolean(facts.caller_refuses, known=True),
    }


def hints(facts: pb.ToolFacts) -> dict[str, str]:
    """Return the annotations of a tool. One that is left out has MCP's default; left out together, all are unknown."""
    if not facts.HasField("annotations"):
        return {f"annotations.{hint}": UNKNOWN for hint in (*_DEPENDENT, "open_world")}
    said = facts.annotations
    given = {
        f"annotations.{hint}": _boolean(getattr(said, hint), known=True) for hint in _DEPENDENT if said.HasField(hint)
    }
    open_world = not said.HasField("open_world") or said.open_world
    return normalized_hints(given) | {"annotations.open_world": _boolean(open_world, known=True)}


def outside_domain(facts: pb.ToolFacts) -> frozenset[str]:
    """Return the facts of the approval record that were read with a value outside their domain, and so are unknown."""
    record = facts.approval.record
    found = set()
    if record.disabled_unspecified and not record.HasField("disabled"):
        found.add("approval.disabled")
    if record.HasField("status") and record.status not in APPROVAL_STATUS.words:
        found.add("approval.status")
    return frozenset(found)


def _boolean(value: bool, *, known: bool) -> str:
    return str(value).lower() if known else UNKNOWN


def _approval(tool: pb.ToolFacts) -> tuple[str, str]:
    """An approval that is absent is unknown; one without a record says that there is none (spec A.2)."""
    if not tool.HasField("approval"):
        return UNKNOWN, UNKNOWN
    if not tool.approval.HasField("record"):
        return "false", "none"
    record = tool.approval.record
    return _boolean(record.disabled, known=record.HasField("disabled")), APPROVAL_STATUS.words.get(
        record.status, UNKNOWN
    )


_REASONS = "|".join(re.escape(status.phrase.lower()) for status in HTTPStatus if status >= HTTPStatus.BAD_REQUEST)
_NUMBERS = (
    re.compile(r"\bhttp(?:/\d(?:\.\d)?)?\W{0,3}(?:(?:status|error|response|code)\W{1,3}){0,2}([345]\d\d)\b"),
    re.compile(r"\b(?:status|status[ _-]?code|code|error|returned|got|response)[\"']?\W{1,3}([345]\d\d)\b"),
    re.compile(rf"\b([45]\d\d)[\"']?:? (?:{_REASONS})\b"),
)
_DENIALS = {"unauthorized": HTTPStatus.UNAUTHORIZED, "forbidden": HTTPStatus.FORBIDDEN}
_WAITS = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)

_MAYBE_DENIED = re.compile(rf"{DECIDED}|\b40[13]\b")
"""In such a text nothing certainly recovers by itself."""

_NEEDS_ATTENTION = (
    (WireFailure.LOAD_FAILURE_NAME_NOT_FOUND, r"getaddrinfo|name resolution|name or service not known|unknown host"),
    (WireFailure.LOAD_FAILURE_NAME_NOT_FOUND, r"nodename nor servname|enotfound|could not resolve"),
    (WireFailure.LOAD_FAILURE_REFUSED, r"connection refused|econnrefused|actively refused|connect call failed"),
    (WireFailure.LOAD_FAILURE_MISSING_COMMAND, r"command not found|no such file or directory|enoent\b"),
    (WireFailure.LOAD_FAILURE_EXITED, r"exited (?:with|before)|exit (?:code|status)|terminated by signal"),
    (WireFailure.LOAD_FAILURE_BAD_CONFIG, r"invalid (?:url|config|port)|malformed config|unsupported protocol"),
    (WireFailure.LOAD_FAILURE_TLS, r"certificate|sslerror|\bssl\b|tls alert|wrong version number"),
    (WireFailure.LOAD_FAILURE_NOT_MCP, r"not (?:an? )?mcp|not json|invalid json|jsondecodeerror|unexpected content"),
)
_TRANSIENT = (
    (WireFailure.LOAD_FAILURE_TIMEOUT, rf"{TIMEOUT}|etimedout"),
    (WireFailure.LOAD_FAILURE_RESET, r"connection reset|econnreset|broken pipe|epipe"),
    (WireFailure.LOAD_FAILURE_CLOSED, r"connection (?:was )?closed|closed (?:the )?connection|server disconnected"),
    (WireFailure.LOAD_FAILURE_CLOSED, r"remoteprotocolerror|unexpected eof|incomplete ?(?:read|chunked)"),
)
_TEMPORARY = re.compile(r"(?:getaddrinfo(?: failed)?\W+)?(?:\beai_again\b|temporary failure in name resolution)")
"""How a text says that a name could not be looked up for now, which counts as a timeout."""
_WHEN_OPEN = (WireFailure.LOAD_FAILURE_RESET, WireFailure.LOAD_FAILURE_CLOSED)
"""Failures of an open connection: before, a connection is refused or fails in TLS."""
_BUSY = {"too many requests": 429, "internal server error": 500, "bad gateway": 502, "service unavailable": 503}


def signals_in_text(text: str) -> LoadSignals:
    """Return what a text certainly says about the failure of a load; nothing if it says nothing certain."""
    lowered = _TEMPORARY.sub("timed out", without_addresses(text).lower())
    numbers = set(_numbers(lowered))
    if numbers:
        return LoadSignals(http_status=min(numbers, key=_carelessness), timeout_signature=timed_out_on_the_way(text))
    failure = _first(_NEEDS_ATTENTION, lowered)
    if failure or _MAYBE_DENIED.search(lowered):
        return LoadSignals(failure=failure)
    failure = _first(_TRANSIENT, lowered)
    if failure:
        return LoadSignals(failure=failure, phase=WirePhase.LOAD_PHASE_RESPONSE if failure in _WHEN_OPEN else None)
    return LoadSignals(http_status=next((number for reason, number in _BUSY.items() if reason in lowered), None))


def _first(table: tuple[tuple[WireFailure.ValueType, str], ...], text: str) -> WireFailure.ValueType | None:
    return next((failure for failure, pattern in table if re.search(pattern, text)), None)


def _numbers(text: str) -> Iterator[int]:
    for pattern in _NUMBERS:
        yield from (int(match[1]) for match in pattern.finditer(text))
    yield from (number for reason, number in _DENIALS.items() if reason in text)


def _carelessness(number: int) -> tuple[int, int]:
    """Return how little care a status needs: a denial the most, then what does not recover by itself (L-1)."""
    if number in _DENIALS.values():
        return 0, number
    transient = number in _WAITS or number >= HTTPStatus.INTERNAL_SERVER_ERROR
    return 1 + transient, number


_FIRST_ERROR = 400


_PHASE_NAMES = LOAD_PHASE.members(LoadPhase)
_FAILURES = LOAD_FAILURE.members(LoadFailure)
_LOAD_STATUSES = LOAD_STATUS.members(LoadStatus)
_CREDENTIALS = ENABLE_CREDENTIALS.members(EnableCredentials)
_AUTHORIZATIONS = ENABLE_AUTHORIZATION.members(EnableAuthorization)
_ENDS = ENABLE_END.members(EnableEnd)


def load_facts(signals: outcome_pb.LoadSignals, error_text: str) -> dict[str, str]:
    """Return every fact of a load by name; the text is looked at only where the signals say nothing (L-2)."""
    if error_text and not any(signals.HasField(name) for name in ("phase", "failure", "http_status")):
        found = signals_in_text(error_text)
        found.MergeFrom(signals)
        signals = found
    failure, http = _failure(signals)
    phase = _PHASE_NAMES.get(signals.phase, UNKNOWN)
    http_class, http_status = http
    return {
        "load.phase": phase if phase == UNKNOWN or can_fail(failure, phase) else UNKNOWN,
        "load.failure": failure,
        "load.http_class": http_class,
        "load.http_status": http_status,
        "load.timeout_signature": _known_boolean(signals.timeout_signature),
        "load.in_session": _known_boolean(signals.in_session),
        "load.tries_left": _known_boolean(signals.tries_left > 0),
        "load.retry_scheduled": _known_boolean(signals.retry_scheduled),
    }


def enable_facts(facts: outcome_pb.EnableFacts) -> dict[str, str]:
    """Return every fact of an enable by name."""
    load_status = _LOAD_STATUSES.get(facts.load_status, UNKNOWN) if facts.HasField("load_status") else UNKNOWN
    expired = _known_boolean(facts.dialog_expired) if facts.HasField("dialog_expired") else UNKNOWN
    authorization, ended = _AUTHORIZATIONS.get(facts.authorization, UNKNOWN), _ENDS.get(facts.ended, UNKNOWN)
    return {
        "enable.known": _known_boolean(facts.known) if facts.HasField("known") else UNKNOWN,
        "enable.was_connected": _known_boolean(facts.was_connected) if facts.HasField("was_connected") else UNKNOWN,
        "enable.credentials": _CREDENTIALS.get(facts.credentials, UNKNOWN),
        **attempt_facts(authorization, ended, load_status, expired),
        "enable.callable_tools": _known_boolean(facts.callable_tools) if facts.HasField("callable_tools") else UNKNOWN,
    }


def _failure(signals: outcome_pb.LoadSignals) -> tuple[str, tuple[str, str]]:
    """Return the failure, and the class and the number of the HTTP status if there is one.

    An error status is the failure, whatever was seen after it: a server that answered did not time out.
    """
    failure = _FAILURES.get(signals.failure, UNKNOWN)
    has_status = signals.HasField("http_status")
    if has_status and (signals.http_status >= _FIRST_ERROR or failure in {LoadFailure.HTTP_STATUS, UNKNOWN}):
        return LoadFailure.HTTP_STATUS, http_facts(signals.http_status)
    if failure in {LoadFailure.HTTP_STATUS, UNKNOWN}:
        return failure, (UNKNOWN, UNKNOWN)
    return failure, ("none", "none")


def _known_boolean(value: bool) -> str:
    return str(value).lower()


_Group = TypeVar("_Group", pb.ServerFacts, pb.ToolFacts)
_Message = pb.ServerFacts | pb.ToolFacts | pb.Agent
_SUBJECTS = {
    "agent": bundle_pb2.FACT_SUBJECT_AGENT,
    "server": bundle_pb2.FACT_SUBJECT_SERVER,
    "tool": bundle_pb2.FACT_SUBJECT_TOOL,
}
_KEPT_NAMES = 4_096
"""Names whose classes are kept."""


@dataclass(frozen=True, slots=True)
class Readings:
    """What a request says of facts, by name, and which of them are unknown although the caller sent them.

    `stays_unknown` are those that are unknown until a person changes something: no later request has them.
    """

    values: Mapping[str, str]
    not_understood: frozenset[str] = frozenset()
    stays_unknown: frozenset[str] = frozenset()
    undeclared: int = 0
    """How many facts were sent that the rule file does not declare."""

    def __or__(self, other: Readings) -> Readings:
        return Readings(
            {**self.values, **other.values},
            self.not_understood | other.not_understood,
            self.stays_unknown | other.stays_unknown,
            self.undeclared + other.undeclared,
        )

    @property
    def key(self) -> tuple[tuple[tuple[str, str], ...], frozenset[str], frozenset[str]]:
        """What distinguishes it from other readings of the same subject."""
        return tuple(self.values.items()), self.not_understood, self.stays_unknown


class FactReader:
    """Reads the facts that the rules of a bundle read. It keeps nothing of a request but the classes of names.

    What is read of an agent, a server and a tool is joined by `|` to the readings of a decision. Facts that are empty
    on the wire are all unknown. A label whose value is not declared is unknown and not understood, and so is such a
    declared fact, unless it is asserted.
    """

    def __init__(self, rule_set: RuleSet) -> None:
        facts = [fact for axis in rule_set.axes for fact in axis.facts]
        self._facts = {
            subject: tuple(fact for fact in facts if fact.subject == number) for subject, number in _SUBJECTS.items()
        }
        self._hints = any(fact.hint for fact in facts)
        declared = [fact for fact in rule_set.question.facts.values() if fact.kind == bundle_pb2.FACT_KIND_DECLARED]
        self._read_declared = {
            subject: frozenset(fact.key for fact in declared if fact.subject == number)
            for subject, number in _SUBJECTS.items()
        }
        classes = {
            subject: tuple(fact.classes for fact in facts if fact.kind == bundle_pb2.FACT_KIND_NAME and fact.classes)
            for subject, facts in self._facts.items()
        }
        self._names = frozenset(subject for subject, each in classes.items() if each)

        def class_of(subject: str, name: str) -> tuple[int, ...]:
            return tuple([each.class_of(name) for each in classes[subject]])

        # It does not refer to the reader, which would then live until a collection, with the policy.
        self.class_of = lru_cache(_KEPT_NAMES)(class_of)
        """What rules distinguish of the name of a subject, such as `tool`: empty if they do not read it."""

    def reads_name(self, subject: str) -> bool:
        """Return whether rules read the name of a subject."""
        return subject in self._names

    def of_agent(self, agent: pb.Agent | None, name: str = "") -> Readings:
        """Return what an agent says; everything about it is unknown without one. Its own name is not looked at.

        Raises:
            InvalidRequest: its labels or its declared facts exceed a limit.
            BundleRefused: the bundle contradicts itself about a name.
        """
        return self._read("agent", {}, agent or pb.Agent(), name if agent is not None else None)

    def of_server(self, facts: pb.ServerFacts, name: str) -> Readings:
        """Return what the facts and the name of a server say.

        Raises:
            InvalidRequest: the facts exceed a limit.
            BundleRefused: the bundle contradicts itself about a name.
        """
        return self._read("server", server_fields(facts), facts, name)

    def of_tool(self, facts: pb.ToolFacts, name: str) -> Readings:
        """Return what the facts and the name of a tool say.

        Raises:
            InvalidRequest: the facts exceed a limit.
            BundleRefused: the bundle contradicts itself about a name.
        """
        fields = tool_fields(facts) | (hints(facts) if self._hints else {})
        return self._read("tool", fields, facts, name, outside_domain(facts))

    def parse(self, message: type[_Group], data: bytes) -> _Group:
        """Return the facts of a server or a tool that are encoded.

        Raises:
            InvalidRequest: they are malformed, or have too many bytes.
        """
        limits.check_facts(data)
        try:
            return message.FromString(data)
        except DecodeError:
            sentence = "the facts are not a `ServerFacts` and a `ToolFacts` message"
            raise InvalidRequest("FACTS_MALFORMED", sentence) from None

    def _read(
        self,
        subject: str,
        fields: Mapping[str, str],
        message: _Message,
        name: str | None,
        not_understood: frozenset[str] = frozenset(),
    ) -> Readings:
        limits.check_labels(message.labels.values, subject)
        limits.check_declared_facts(message.declared_facts.values, subject)
        found: dict[str, str] = {}
        sent = set(not_understood)
        for fact in self._facts[subject]:
            match fact.kind:
                case bundle_pb2.FACT_KIND_NAME:
                    found[fact.name] = UNKNOWN if name is None else fact.of_name(name)
                    continue
                case bundle_pb2.FACT_KIND_LABEL:
                    found[fact.name], was_sent = _label(fact, message), fact.key in message.labels.values
                case bundle_pb2.FACT_KIND_DECLARED:
                    found[fact.name], was_sent = (
                        _read_declared(fact, message),
                        fact.key in message.declared_facts.values,
                    )
                case _:
                    # A field that this version does not know is one that nobody can send.
                    found[fact.name] = fields.get(fact.name, fact.open_value if fact.asserted else UNKNOWN)
                    continue
            if was_sent and found[fact.name] == UNKNOWN:
                sent.add(fact.name)
        undeclared = 0
        if message.HasField("declared_facts"):
            undeclared = sum(key not in self._read_declared[subject] for key in message.declared_facts.values)
        # Without an agent, nothing about it is ever sent.
        stays = frozenset(
            fact.name
            for fact in self._facts[subject]
            if found[fact.name] == UNKNOWN and (fact.stays_unknown or fact.name in sent or name is None)
        )
        return Readings(found, frozenset(sent), stays, undeclared)


def _label(fact: Fact, message: _Message) -> str:
    if not message.HasField("labels"):
        return UNKNOWN
    value = message.labels.values.get(fact.key)
    if value is None:
        return NO_LABEL
    return value if value in fact.numbers and value != NO_LABEL else UNKNOWN


def _read_declared(fact: Fact, message: _Message) -> str:
    value = message.declared_facts.values.get(fact.key)
    if value is not None and value in fact.numbers:
        return value
    return fact.open_value if fact.asserted else UNKNOWN
