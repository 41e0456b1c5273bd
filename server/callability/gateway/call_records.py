"""Records of what a gateway sees: calls, each with its last decision and its end, and changes of tools and files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult

from callability.client import PolicyUnavailable
from callability.contract.vocabulary import MAX_BYTES, byte_length
from callability.files import document
from callability.gateway.config.approvals import Approvals, Definitions, approved_part, canonical_form
from callability.gateway.config.changes import Decided
from callability.gateway.config.config import Config
from callability.gateway.upstream.listing import UpstreamTool
from callability.otel.traces import add_to_span
from callability.process import logs
from callability.records.format import BY_HAND, BY_PAGE, UNSEEN_COMMAND, Change, Ended, name_text, tool_status
from callability.records.reading import recent_commands
from callability.records.recorder import Call, Recorder
from callability.v1.callability_service_pb2 import CheckToolRequest, CheckToolResponse

if TYPE_CHECKING:
    from callability.records.shadow import Shadow

COMMAND_SECONDS = 1.0
"""How long a gateway waits for the record of the command that edited a file."""
_LOOK_SECONDS = 0.1
MAX_TOOLS = 1_000
"""How many tools of one list that came or went are recorded: a server may list other names each time."""


class ChangeRecords:
    """Writes records of changes. Without a recorder it does nothing.

    `directory` is where commands write theirs, None if they write none that this gateway could see; `config` is the
    config in effect.
    """

    def __init__(self, recorder: Recorder | None, directory: Path | None, config: Config) -> None:
        self._recorder = recorder
        self._directory = directory
        heard = frozenset[tuple[str, str]]() if directory is None else recent_commands(directory)
        unapplied = _unapplied(config)
        self._heard = frozenset(each for each in heard if each[1] != unapplied)
        """The records of commands that belong to an earlier edit."""
        self._parts: dict[tuple[str, str], Mapping[str, bytes]] = {}
        self._listed: dict[str, Collection[str]] = {}
        self._by_page: set[str] = set()

    def record_list(
        self,
        server: str,
        tools: Sequence[UpstreamTool],
        changed: Sequence[tuple[str, str, str]],
        ever_listed: Collection[str],
        approvals: Approvals,
        beside: Path,
    ) -> None:
        """Record what came and went in a list, and the tools in another form than earlier, or than was approved.

        Args:
            server: the server that listed them.
            tools: its tools.
            changed: those in another form than earlier, each with both fingerprints.
            ever_listed: the names of those that it ever listed, in earlier processes too; empty if none are known.
            approvals: what people decided.
            beside: the approvals file, beside which the definitions are that were approved.
        """
        if self._recorder is None:
            return
        self._record_names(server, {tool.name: tool for tool in reversed(tools)}, ever_listed)
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

    def _record_names(self, server: str, tools: Mapping[str, UpstreamTool], ever_listed: Collection[str]) -> None:
        """Record the tools that a server lists for the first time or again, and those that it no longer lists."""
        assert self._recorder is not None
        earlier = self._listed.get(server, ever_listed)
        gone = sorted({*self._listed.get(server, ())} - tools.keys())
        new = sorted(name for name in tools if name not in earlier and byte_length(name) <= MAX_BYTES)
        is_first = server not in self._listed and not ever_listed
        self._listed[server] = frozenset(tools)
        if is_first:
            return
        forms = {_without_name(self._parts.get((server, name), {})): name for name in reversed(gone)}
        forms.pop(frozenset(), None)
        renamed = {name: forms.pop(_without_name(_parts(tools[name])), "") for name in new}
        names = {before: name for name, before in renamed.items()}
        for name in gone[:MAX_TOOLS]:
            about = {"server": server, "tool": name_text(name), "after": names.get(name, "")}
            self._recorder.record_change(Change.TOOL_UNLISTED, **about)
        for name in new[:MAX_TOOLS]:
            self._recorder.record_change(Change.TOOL_LISTED, server=server, tool=name, before=name_text(renamed[name]))

    def last_list(self, server: str) -> Collection[str]:
        """Return the names of the tools that a server listed last; none if it has listed none yet."""
        return self._listed.get(server, ())

    def note_page_edit(self, digest: str) -> None:
        """Note that a person edits a file on the page: no command writes a record of it."""
        self._by_page.add(digest)

    async def record_decisions(self, file: str, digest: str, path: Path | None, changes: Collection[Decided]) -> None:
        """Record what people changed in a file, unless the command that did it has recorded it.

        Args:
            file: `config` or `approvals`.
            digest: the digest of the file as it is now.
            path: the file.
            changes: what is different.
        """
        if self._recorder is None or not changes:
            return
        command: str | None = UNSEEN_COMMAND if self._directory is None else BY_HAND
        try:
            command = await self._find_author(digest)
        finally:
            if command is not None:
                owner = _owner(path)
                for change, about in changes:
                    self._recorder.record_change(change, **{"command": command, "user": owner, **about})

    async def _find_author(self, digest: str) -> str | None:
        """Return what edited a file to what it is now; None if that is a command, which has recorded it."""
        until = asyncio.get_running_loop().time() + COMMAND_SECONDS
        while True:
            # The digest of a config has that of its secrets behind it.
            if on_page := {each for each in tuple(self._by_page) if digest.startswith(each)}:
                self._by_page -= on_page
                return BY_PAGE
            if self._directory is None:
                return UNSEEN_COMMAND
            found = await asyncio.to_thread(recent_commands, self._directory) - self._heard
            matching = frozenset(each for each in found if digest.startswith(each[1]))
            self._heard |= matching
            if matching:
                return None
            if asyncio.get_running_loop().time() >= until:
                return BY_HAND
            await asyncio.sleep(_LOOK_SECONDS)

    def count_edit(self, file: str, before: str, after: str, *, applied: bool) -> None:
        """Record an edit of the config or the approvals, with the digests of the file."""
        if self._recorder is not None:
            self._recorder.record_change(Change(file), applied=applied, before=before, after=after)


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


def _unapplied(config: Config) -> str:
    """Return the digest of a config file that was edited since it was read; empty if it was not."""
    try:
        written = document.digest(document.read_bytes(config.path))
    except document.Refused:
        return ""
    return "" if config.digest.startswith(written) else written


def _without_name(parts: Mapping[str, bytes]) -> frozenset[tuple[str, bytes]]:
    return frozenset(each for each in parts.items() if each[0] != "name")


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
