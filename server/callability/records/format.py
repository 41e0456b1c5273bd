"""The lines of records: which members each kind has, how facts and verdicts are written, and the JSON Schema of both.

A line is made of parts that are encoded once and joined: what a call is about, its verdict, and how it ended. The
writer puts the version and the number of the record in front.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from google.protobuf.message import Message

from callability.contract.enum_words import ENABLE_STATUS, LIFTED_BY, LOAD_STATUS, RETRY, TOOL_STATUS, EnumWords
from callability.contract.vocabulary import MAX_BYTES
from callability.v1 import callability_service_pb2 as pb

VERSION = 1
"""The version of the format; a reader ignores members and kinds that it does not know."""
BY_HAND = "by hand: the file"
BY_PAGE = "the page of the gateway"
BY_GATEWAY = "trust: first_use"
UNSEEN_COMMAND = "not known: commands write no records here"
"""What made a change, if no command that writes records did."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class By(StrEnum):
    """Who wrote a decision."""

    GATEWAY = "gateway"
    SERVICE = "service"
    CLIENT = "client"
    COMMAND = "command"


class Question(StrEnum):
    """What was decided: a call of a tool, how a load ended, or how an enable ended."""

    TOOL = "tool"
    LOAD = "load"
    ENABLE = "enable"


class Ended(StrEnum):
    """How a call ended."""

    DECIDED = "decided"
    REFUSED = "refused"
    ANSWERED = "answered"
    TOOL_ERROR = "tool_error"
    FAILED = "failed"
    CANCELLED = "cancelled"
    NO_VERDICT = "no_verdict"
    OUT_OF_SCOPE = "out_of_scope"
    UNKNOWN = "unknown"


class Change(StrEnum):
    """What changed."""

    TOOL = "tool"
    APPROVAL = "approval"
    BLOCK = "block"
    UNBLOCK = "unblock"
    RECORD_REMOVED = "record_removed"
    TOOL_LISTED = "tool_listed"
    TOOL_UNLISTED = "tool_unlisted"
    TOOL_DENIED = "tool_denied"
    TOOL_ALLOWED = "tool_allowed"
    SERVER_ADDED = "server_added"
    SERVER_REMOVED = "server_removed"
    SERVER_CHANGED = "server_changed"
    TRUST = "trust"
    AGENT_ADDED = "agent_added"
    AGENT_REMOVED = "agent_removed"
    AGENT_CHANGED = "agent_changed"
    SCOPE_ADDED = "scope_added"
    SCOPE_REMOVED = "scope_removed"
    SERVER_ENABLED = "server_enabled"
    SERVER_DISABLED = "server_disabled"
    QUARANTINE = "quarantine"
    RELEASE = "release"
    POLICY = "policy"
    CONFIG = "config"
    APPROVALS = "approvals"
    CALLERS = "callers"
    CERTIFICATES = "certificates"
    SHADOW = "shadow"


class Clock:
    """Writes the current time in UTC with milliseconds; what stays equal for a second is written once."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def now(self) -> str:
        """Return the current time."""
        moment = time.time()
        second = math.floor(moment)
        # Both in one look, because another thread may write them.
        known, text = self._second, self._text
        if second != known:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._text, self._second = text, second
        return f"{text}.{math.floor(1_000 * (moment - second)):03d}Z"


def json_text(value: object) -> str:
    """Return a value as JSON in one line of ASCII."""
    return json.dumps(value, separators=(",", ":"))


def members(values: Mapping[str, Any]) -> str:
    """Return the members of an object without its braces."""
    return json_text(values)[1:-1]


def name_text(name: str) -> str:
    """Return a name as a record has it: whoever calls may send one of any length, and half a character."""
    return name.encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore")


def _plain(message: Message) -> dict[str, Any]:
    """Return a message as the JSON of protobuf has it."""
    # Most gateways record nothing, and would import it at their start.
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415

    written: dict[str, Any] = MessageToDict(message)
    return written


def tool_facts_of(agent: Message | None, server: Message | None, tool: Message | None) -> str:
    """Return the facts of a request about a tool: a `CheckToolRequest` in the JSON of protobuf, without its names."""
    parts = {"agent": agent, "serverFacts": server, "toolFacts": tool}
    written = {name: _plain(part) for name, part in parts.items() if part is not None}
    if "agent" in written:
        written["agent"].pop("name", None)
    return json_text(written)


def load_facts_of(request: pb.ClassifyLoadRequest) -> str:
    """Return the facts of a load as JSON: what was read of the text of an error is in them, and the text is not."""
    signals = request.signals
    if request.error_text and not any(signals.HasField(name) for name in ("phase", "failure", "http_status")):
        # What decides is imported with the first policy.
        from callability.kernel.facts import signals_in_text  # noqa: PLC0415

        found = signals_in_text(request.error_text)
        found.MergeFrom(signals)
        signals = found
    return json_text({"signals": _plain(signals)})


def enable_facts_of(request: pb.ClassifyEnableRequest) -> str:
    """Return the facts of an enable as JSON."""
    return json_text({"facts": _plain(request.facts)})


def tool_verdict(reply: pb.CheckToolResponse, semantics: int | None) -> str:
    """Return the members of a decision about a tool that are about its verdict."""
    verdict = reply.verdict
    remaining = [{"rule": step.rule, "status": tool_status(step.status)} for step in reply.remaining.steps]
    return members(
        {
            "revision": reply.revision,
            **_semantics(semantics),
            "status": tool_status(verdict.status),
            **_verdict(verdict),
            "unread": [*verdict.unread],
            "remaining": remaining,
        }
    )


def load_verdict(reply: pb.ClassifyLoadResponse, semantics: int | None) -> str:
    """Return the members of a decision about a load that are about its verdict."""
    status = LOAD_STATUS.word(reply.verdict.status)
    return members({"revision": reply.revision, **_semantics(semantics), "status": status, **_verdict(reply.verdict)})


def enable_verdict(reply: pb.ClassifyEnableResponse, semantics: int | None) -> str:
    """Return the members of a decision about an enable that are about its verdict."""
    status = ENABLE_STATUS.word(reply.verdict.status)
    return members({"revision": reply.revision, **_semantics(semantics), "status": status, **_verdict(reply.verdict)})


VERDICTS: Mapping[str, tuple[type[Message], EnumWords[Any]]] = {
    "CheckTool": (pb.CheckToolResponse, TOOL_STATUS),
    "ClassifyLoad": (pb.ClassifyLoadResponse, LOAD_STATUS),
    "ClassifyEnable": (pb.ClassifyEnableResponse, ENABLE_STATUS),
}
"""The calls whose reply is one verdict, with the words of its status."""


def verdict_of(method: str, reply: bytes) -> Mapping[str, str]:
    """Return the status and the rule of the reply to one of the calls in `VERDICTS`."""
    message, statuses = VERDICTS[method]
    verdict: Any = message.FromString(reply).verdict  # type: ignore[attr-defined]
    return {"status": statuses.word(verdict.status), "rule": verdict.rule}


def tool_status(number: int) -> str:
    """Return the name of a status of a tool; the number itself for one of a later version."""
    return TOOL_STATUS.word(number)


def _verdict(verdict: Any) -> Mapping[str, Any]:
    return {
        "rule": verdict.rule,
        "undetermined": verdict.undetermined,
        "lifted_by": LIFTED_BY.word(verdict.lifted_by),
        "retry": RETRY.word(verdict.retry),
    }


def _semantics(semantics: int | None) -> Mapping[str, int]:
    return {} if semantics is None else {"semantics": semantics}


_TEXT = {"type": "string"}
_REVISION = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def _describe(kind: dict[str, Any], words: str) -> dict[str, Any]:
    return {**kind, "description": words}


def _one_of(words: type[StrEnum], about: str) -> dict[str, Any]:
    return {"enum": [*map(str, words)], "description": about}


_COMMON: Mapping[str, Any] = {
    "v": {"const": VERSION, "description": "The version of the format."},
    "n": {
        "type": "integer",
        "minimum": 1,
        "description": "The number of the record in its process. A number that is left out is a record that is lost.",
    },
    "time": {
        "type": "string",
        "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$",
        "description": "When it was written, in UTC.",
    },
}
_VERDICT: Mapping[str, Any] = {
    "revision": _describe(_REVISION, "The revision of the policy that decided."),
    "semantics": {"type": "integer", "description": "The semantics of the policy, if they are known."},
    "status": _describe(_TEXT, "The status, as rule files name it."),
    "rule": _describe(_TEXT, "The rule that decided; empty if the verdict is undetermined without one."),
    "undetermined": {"type": "boolean", "description": "Whether a fact that could not be read leaves it open."},
    "unread": {"type": "array", "items": _TEXT, "description": "Those facts."},
    "lifted_by": {"enum": ["user", "operator", "undetermined", "none"], "description": "Who can lift the status."},
    "retry": {"enum": ["never", "later", "now"], "description": "Whether trying again can help."},
    "remaining": {
        "type": "array",
        "items": {"type": "object", "properties": {"rule": _TEXT, "status": _TEXT}, "required": ["rule", "status"]},
        "description": "The locks that remain once this one is lifted.",
    },
}
_DECISION: Mapping[str, Any] = {
    "id": _describe(
        _TEXT, "The id of the request. A gateway or a client sends it on, so that a service writes the same one."
    ),
    "by": _one_of(By, "Who wrote it."),
    "question": _one_of(Question, "What was decided: a call of a tool, a load of a server, or an enable."),
    "caller": _describe(_TEXT, "The caller of a service, by the name in its callers file."),
    "traceparent": _describe(_TEXT, "The span of the call, as W3C Trace Context writes it."),
    "agent": _describe(_TEXT, "The agent; empty if it has no name."),
    "server": _describe(_TEXT, "The server, if it is known."),
    "tool": _describe(_TEXT, "The tool."),
    "facts": {
        "type": "object",
        "description": "The facts as they were read: the request of the contract as protobuf writes it in JSON, without"
        " names.",
    },
    "ended": _one_of(Ended, "How the call ended; a service and a client only decide."),
    "milliseconds": {"type": "number", "minimum": 0, "description": "How long it took."},
    "shadow": {
        "type": "object",
        "properties": {name: _VERDICT[name] for name in ("revision", "status", "rule", "undetermined")},
        "required": ["revision", "status", "rule", "undetermined"],
        "description": "What the candidate of `--shadow` would have decided, if that differs.",
    },
    **_VERDICT,
}
_CHANGE: Mapping[str, Any] = {
    "change": _one_of(Change, "What changed."),
    "by": _describe(_TEXT, "Who wrote it: `gateway`, `service` or `command`."),
    "command": _describe(_TEXT, f"The command that made the change, or `{BY_PAGE}`; `{BY_HAND}` if none did."),
    "user": {"type": "integer", "description": "The user id of whoever ran the command, or owns the file."},
    "agent": _describe(_TEXT, "The agent."),
    "server": _describe(_TEXT, "The server."),
    "tool": _describe(_TEXT, "The tool."),
    "before": _describe(
        _TEXT, "The fingerprint, the revision, the digest or the `trust` before; the earlier name of a tool."
    ),
    "after": _describe(
        _TEXT,
        "The same after; for an approval, the fingerprint that was on screen; for a tool that is not listed, its new"
        " name.",
    ),
    "approved": _describe(_TEXT, "The fingerprint that was approved, if the tool differs from it."),
    "fields": {
        "type": "array",
        "items": _TEXT,
        "description": "Which parts of a definition, or which settings, differ, if both are known.",
    },
    "file": _describe(_TEXT, "The digest of the file once a command has changed it."),
    "applied": {"type": "boolean", "description": "Whether an edit was applied; `false`: it was refused."},
}


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a record."""
    kinds = {
        "decision": (_DECISION, ["id", "by", "question", "agent", "ended", "milliseconds"]),
        "change": (_CHANGE, ["change", "by"]),
        "end": (
            {
                "written": {"type": "integer", "description": "Records that the process has written."},
                "dropped": {"type": "integer", "description": "Records that it has lost."},
            },
            ["written", "dropped"],
        ),
    }
    return {
        "$schema": DIALECT,
        "title": "A record of callability",
        "description": "One line of a file of records. Ignore members and kinds that you do not know.",
        "type": "object",
        "required": ["v", "n", "kind", "time"],
        "properties": {**_COMMON, "kind": {"enum": [*kinds]}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}},
                "then": {"properties": dict(own), "required": required},
            }
            for kind, (own, required) in kinds.items()
        ],
    }
