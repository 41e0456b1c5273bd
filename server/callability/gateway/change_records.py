"""Records of changes that a gateway sees: of tools, of what people decided about them, and of its files."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from callability.gateway.config import Approvals, Config
from callability.gateway.config.approvals import ApprovalRecord, Definitions, approved_part, canonical_form
from callability.gateway.upstream import UpstreamTool
from callability.records.format import Change
from callability.records.reading import recent_commands
from callability.records.recorder import Recorder

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

    def listed(
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
                self._recorder.changed(Change.TOOL, server=server, tool=tool.name, **about, **approved, fields=fields)
            self._parts[key] = _parts(tool)

    async def decided(self, file: str, digest: str, path: Path | None, changes: Collection[_Decided]) -> None:
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
                    self._recorder.changed(change, **{"command": command, "user": owner, **about})

    def count_edit(self, file: str, before: str, after: str, *, applied: bool) -> None:
        """Record an edit of the config or the approvals, with the digests of the file."""
        if self._recorder is not None:
            self._recorder.changed(Change(file), applied=applied, before=before, after=after)


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
    if new.status == "approved" and was != (new.status, new.sha256):
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
    kept = Definitions.beside(beside).kept(pin) if pin else None
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
