"""Records of what a gateway sees: calls, each with its last decision and its end, and changes of tools and files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult

from callability.client import PolicyUnavailable
from callability.gateway.config import Approvals, Config
from callability.gateway.config.approvals import ApprovalRecord, Definitions, approved_part, canonical_form
from callability.gateway.upstream import UpstreamTool
from callability.otel.traces import add_to_span
from callability.process import logs
from callability.records.format import Change, Ended, tool_status
from callability.records.reading import recent_commands
from callability.records.recorder import Call, Recorder
from callability.v1.callability_service_pb2 import CheckToolRequest, CheckToolResponse

if TYPE_CHECKING:
    from callability.records.shadow import Shadow

BY_HAND = "by hand: the file"
UNSEEN_COMMAND = "not known: commands write no records here"
BY_GATEWAY = "trust: first_use"
COMMAND_SECONDS = 1.0
"""How long a gateway waits for the record of the command that edited a file."""
_LOOK_SECONDS = 0.1
_Decided = tuple[Change, Mapping[str, Any]]


class ChangeRecords:
    """Writes records of changes. Without a recorder it does nothing.

    `directory` is where commands write theirs, None if they write none that this gateway could see.
    """

    def __init__(self, recorder: Recorder | None, directory: Path | None) -> None:
        self._recorder = recorder
        self._directory = directory
        self._heard = frozenset[tuple[str, str]]() if directory is None else recent_commands(directory)
        """The records of commands that belong to an earlier edit."""
        self._parts: dict[tuple[str, str], Mapping[str, bytes]] = {}

    def record_list(
        self,
        server: str,
        tools: Sequence[UpstreamTool],
        changed: Sequence[tuple[str, str, str]],
        approvals: Approvals,
        beside: Path,
    ) -> None:
        """Record the tools of a list that differ from an earlier form, or from the one that was approved.

        Args:
            server: the server that listed them.
            tools: its tools.
            changed: those in another form than earlier, each with both fingerprints.
            approvals: what people decided.
            beside: the approvals file, beside which the definitions are that were approved.
        """
        if self._recorder is None:
            return
        before = {name: earlier for name, earlier, _ in changed}
        for tool in {tool.name: tool for tool in reversed(tools)}.values():
            key = server, tool.name
            known = self._parts.get(key)
            record = approvals.record(server, tool.name)
            pin = record.sha256 if record is not None and record.is_pinned else ""
            differs = bool(pin) and not tool.fingerprint.matches(pin)
            if tool.name in before or (differs and known is None):
                about = {"before": before.get(tool.name), "after": tool.fingerprint.current}
                fields = _fields(tool, known, pin if differs else "", beside)
                approved = {"approved": pin} if differs else {}
                self._recorder.record_change(
                    Change.TOOL, server=server, tool=tool.name, **about, **approved, fields=fields
                )
            self._parts[key] = _parts(tool)

    async def record_decisions(self, file: str, digest: str, path: Path | None, changes: Collection[_Decided]) -> None:
        """Record what people changed in a file, unless the command that did it has recorded it.

        Args:
            file: `config` or `approvals`.
            digest: the digest of the file as it is now.
            path: the file.
            changes: what is different.
        """
        if self._recorder is None or not changes:
            return
        by_command = False
        try:
            until = asyncio.get_running_loop().time() + COMMAND_SECONDS
            while self._directory is not None and not by_command and asyncio.get_running_loop().time() < until:
                found = await asyncio.to_thread(recent_commands, self._directory) - self._heard
                matching = frozenset(each for each in found if each[1] == digest)
                self._heard |= matching
                by_command = bool(matching)
                if not by_command:
                    await asyncio.sleep(_LOOK_SECONDS)
        finally:
            if not by_command:
                command = UNSEEN_COMMAND if self._directory is None else BY_HAND
                owner = _owner(path)
                for change, about in changes:
                    self._recorder.record_change(change, **{"command": command, "user": owner, **about})

    def count_edit(self, file: str, before: str, after: str, *, applied: bool) -> None:
        """Record an edit of the config or the approvals, with the digests of the file."""
        if self._recorder is not None:
            self._recorder.record_change(Change(file), applied=applied, before=before, after=after)


def approval_changes(before: Approvals, now: Approvals) -> Iterator[_Decided]:
    """Yield what differs between two readings of the approvals."""
    if not (before.readable and now.readable):
        return
    for server in sorted({*before.records, *now.records}):
        old, new = before.records.get(server, {}), now.records.get(server, {})
        for tool in sorted({*old, *new}):
            if old.get(tool) != new.get(tool):
                yield from _record_changes(server, tool, old.get(tool), new.get(tool))


def _record_changes(
    server: str, tool: str, old: ApprovalRecord | None, new: ApprovalRecord | None
) -> Iterator[_Decided]:
    about = {"server": server, "tool": tool}
    if new is None:
        yield Change.RECORD_REMOVED, about
        return
    if bool(new.disabled) != bool(old.disabled if old else False):
        yield Change.BLOCK if new.disabled else Change.UNBLOCK, about
    was = (old.status, old.sha256) if old else (None, "")
    if not (new.has_status or new.is_pinned):
        if old is not None and (old.has_status or old.is_pinned):
            yield Change.RECORD_REMOVED, about
    elif new.status == "approved" and was != (new.status, new.sha256):
        # A gateway that records the first form of a tool writes no status.
        by = {} if new.has_status else {"command": BY_GATEWAY}
        yield Change.APPROVAL, {**about, "before": was[1], "after": new.sha256, **by}


def server_changes(before: Config, now: Config) -> Iterator[_Decided]:
    """Yield the servers that were switched, held or released between two readings of the config."""
    for name, server in now.servers.items():
        old = before.servers.get(name)
        if old is None:
            continue
        if old.enabled != server.enabled:
            yield Change.SERVER_ENABLED if server.enabled else Change.SERVER_DISABLED, {"server": name}
        if old.quarantined != server.quarantined:
            yield Change.QUARANTINE if server.quarantined else Change.RELEASE, {"server": name}


def _fields(tool: UpstreamTool, known: Mapping[str, bytes] | None, pin: str, beside: Path) -> list[str] | None:
    """Return which parts of a tool differ from the approved form or from the earlier one; None if that is not known."""
    if tool.definition is None:
        return None
    kept = Definitions.beside(beside).find(pin) if pin else None
    earlier = _digests(kept) if kept is not None else known
    if earlier is None:
        return None
    now = _parts(tool)
    return sorted(name for name in {*earlier, *now} if earlier.get(name) != now.get(name))


def _parts(tool: UpstreamTool) -> Mapping[str, bytes]:
    """Return a digest of each part of a tool that a person approves."""
    return {} if tool.definition is None else _digests(approved_part(tool.definition))


def _digests(part: Mapping[str, Any]) -> Mapping[str, bytes]:
    return {name: sha256(canonical_form({name: value})).digest() for name, value in part.items()}


def _owner(path: Path | None) -> int | None:
    try:
        return None if path is None else path.stat().st_uid
    except OSError:
        return None


CallResult = dict[str, Any] | CallToolResult
"""The gateway's own answer as JSON, or the upstream's."""


@dataclass(slots=True)
class _CurrentCall:
    """What is known of the call that this task answers."""

    request: CheckToolRequest | None = None
    response: CheckToolResponse | None = None
    ended: Ended | None = None


_CURRENT: ContextVar[_CurrentCall | None] = ContextVar("recorded_call", default=None)


def note_decision(request: CheckToolRequest, response: CheckToolResponse) -> None:
    """Note a decision about the current call, if there is one; the last one counts."""
    if (call := _CURRENT.get()) is not None:
        call.request, call.response = request, response


def note_unknown(*, hidden: bool) -> None:
    """Note that the tool of the current call does not exist for the agent; `hidden`: its server is out of scope."""
    if (call := _CURRENT.get()) is not None:
        call.request = call.response = None
        call.ended = Ended.OUT_OF_SCOPE if hidden else Ended.UNKNOWN


async def record_call(
    recorder: Recorder | None,
    agent: str,
    server: str,
    tool: str,
    answering: Awaitable[CallResult],
    shadow: Shadow | None = None,
) -> CallResult:
    """Return the answer of a call, and record it once it has ended.

    Args:
        recorder: what writes records; None if nobody asks for them.
        agent: who called; empty if the agent has no name.
        server: the server of the tool, as the agent named it.
        tool: the tool, as the agent named it.
        answering: what comes to the answer.
        shadow: a candidate that decides beside the policy in effect, if there is one.
    """
    call, started = _CurrentCall(), perf_counter()
    token = _CURRENT.set(call)
    ended = Ended.CANCELLED
    try:
        answer = await answering
        ended = call.ended or _call_end(answer)
        return answer
    except PolicyUnavailable:
        ended = Ended.NO_VERDICT
        call.request = call.response = None
        raise
    except Exception:
        ended = Ended.FAILED
        raise
    finally:
        _CURRENT.reset(token)
        _trace(call.response)
        if recorder is not None or shadow is not None:
            _record(recorder, shadow, (agent, server, tool), call, Call(ended, perf_counter() - started))


def _record(
    recorder: Recorder | None, shadow: Shadow | None, names: tuple[str, str, str], call: _CurrentCall, how: Call
) -> None:
    if call.request is None or call.response is None or not call.response.HasField("verdict"):
        if recorder is not None:
            recorder.record_undecided(*names, how)
        return
    request, reply = call.request.SerializeToString(), call.response.SerializeToString()
    other = None if shadow is None else shadow.other_reply(request, reply)
    if recorder is not None:
        recorder.decided_tool(request, reply, how._replace(shadow=other))


def _trace(response: CheckToolResponse | None) -> None:
    """Let the span and the log lines of the request have the verdict."""
    if response is not None and response.HasField("verdict"):
        about = {"status": tool_status(response.verdict.status), "rule": response.verdict.rule}
        logs.note(**about)
        add_to_span(about)


def _call_end(answer: CallResult) -> Ended:
    """Return how a call ended; only the gateway's own answers have a status, whatever an upstream puts into its own."""
    if isinstance(answer, CallToolResult):
        return Ended.TOOL_ERROR if answer.is_error else Ended.ANSWERED
    return Ended.REFUSED if (answer.get("structuredContent") or {}).get("status") else Ended.FAILED
