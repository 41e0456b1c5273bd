"""Reports of tools whose definitions change, whatever the trust of their server; nothing decides by them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from callability.editing.rewriting import replace, turn
from callability.finding import MAX_LISTED, shown
from callability.gateway.config import NO_APPROVALS, Approvals, Config
from callability.gateway.config.fingerprint import Fingerprint
from callability.gateway.upstream import UpstreamTool
from callability.log_output import fields
from callability.regular_file import read_regular
from callability.tool_name import MAX_BYTES, byte_length

MAX_FORMS = 20_000
"""Forms that are kept of one server: it may list other names each time."""
_MODE = 0o600
_MAX_FILE = 64 * 1024 * 1024
_NONE: Mapping[str, Fingerprint] = {}
_Forms = dict[str, dict[str, str]]
"""The fingerprint of each tool that was ever listed, by server and name."""

_logger = logging.getLogger(__name__)


class DefinitionChanges:
    """Compares each list of tools with the forms that were seen before, in this process and in earlier ones.

    The forms are kept in a file beside the approvals, which gateways may share. Use it in one event loop; `counts` can
    be called from any thread.
    """

    def __init__(self) -> None:
        self._config: Config | None = None
        self._approvals = NO_APPROVALS
        self._file: Path | None = None
        self._seen: _Forms = {}
        self._now: Mapping[str, Mapping[str, Fingerprint]] = {}
        self._changed: Mapping[str, frozenset[str]] = {}
        self._unwritten: set[str] = set()
        self._writing: asyncio.Task[None] | None = None
        self._is_loss_reported = False

    def apply(self, config: Config, approvals: Approvals, beside: Path) -> None:
        """Apply the files of the gateway; the forms are kept beside the approvals file."""
        self._config, self._approvals = config, approvals
        file = beside.with_name(f"{beside.stem}.seen.json")
        if file != self._file:
            self._file = file
            before = self._read(file)
            self._seen = {name: before.get(name, {}) | self._seen.get(name, {}) for name in before | self._seen}

    def take(self, server: str, tools: Iterable[UpstreamTool]) -> None:
        """Report the tools of a new list that differ from what was seen of them before."""
        now: dict[str, Fingerprint] = {}
        for tool in tools:
            # If a name is listed twice, the first one counts; one that is too long cannot be called.
            if byte_length(tool.name) <= MAX_BYTES:
                now.setdefault(tool.name, tool.fingerprint)
        before = self._seen.get(server, {})
        changed = [name for name, form in now.items() if name in before and not form.matches(before[name])]
        self._now = {**self._now, server: now}
        if changed:
            self._changed = {**self._changed, server: self._changed.get(server, frozenset()).union(changed)}
            _log(server, [(name, before[name], now[name].current) for name in changed])
        self._keep(server, {name: form.current for name, form in now.items()})

    def unreviewed(self, server: str) -> int:
        """Return how many listed tools of a server have changed and are not approved in the form that they have."""
        return len(self._unreviewed(server))

    def counts(self) -> Mapping[str, int]:
        """Return `unreviewed` of every server that has listed its tools."""
        return {server: self.unreviewed(server) for server in self._now}

    async def close(self) -> None:
        """Wait until the forms that were seen are kept."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)

    def _unreviewed(self, server: str) -> Collection[str]:
        now, approvals = self._now.get(server, _NONE), self._approvals
        changed = (name for name in self._changed.get(server, ()) if name in now)
        return [name for name in changed if not _is_accepted(approvals, server, name, now[name])]

    def _keep(self, server: str, forms: Mapping[str, str]) -> None:
        kept = _merged(self._seen.get(server, {}), forms)
        if kept == self._seen.get(server):
            return
        self._seen[server] = kept
        self._unwritten.add(server)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write(), name="keeping forms of tools")

    async def _write(self) -> None:
        while self._unwritten and self._file is not None:
            servers, self._unwritten = self._unwritten, set()
            forms = {server: dict(self._seen[server]) for server in servers}
            try:
                # In a thread: it waits for other gateways that write the file.
                await asyncio.to_thread(_write, self._file, forms)
            except OSError as error:
                self._report_loss(f"{shown(str(self._file))} cannot be written: {(error.strerror or 'error').lower()}")

    def _read(self, file: Path) -> _Forms:
        try:
            return _read(file)
        except OSError as error:
            self._report_loss(f"{shown(str(file))} cannot be read: {(error.strerror or 'error').lower()}")
        except (ValueError, RecursionError):
            self._report_loss(f"{shown(str(file))} is damaged, and is written again")
        return {}

    def _report_loss(self, why: str) -> None:
        """Report once that a change across a restart passes unseen, if there is a server that is open to it."""
        config = self._config
        if self._is_loss_reported or config is None:
            return
        if any(config.server(name).trust == "auto" for name in config.names):
            self._is_loss_reported = True
            words = "changes of tools across restarts are not seen, and `trust: auto` accepts them: %s"
            _logger.warning(words, why)


def _is_accepted(approvals: Approvals, server: str, tool: str, form: Fingerprint) -> bool:
    """Say whether a person approved a tool in a form, or in any."""
    record = approvals.records.get(server, {}).get(tool)
    if record is None or record.status != "approved":
        return False
    return record.is_for_any_form or form.matches(record.sha256)


def _log(server: str, changes: Collection[tuple[str, str, str]]) -> None:
    for tool, before, now in list(changes)[:MAX_LISTED]:
        about = fields(server=server, tool=tool, before=before, now=now)
        words = "`%s`: the definition of tool %s changed from %s to %s"
        _logger.warning(words, server, shown(tool), before, now, extra=about)
    if len(changes) > MAX_LISTED:
        words = "`%s`: the definitions of %d more tools changed"
        _logger.warning(words, server, len(changes) - MAX_LISTED, extra=fields(server=server))


def _merged(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the forms of a server, the latest last; the oldest are dropped if there are too many."""
    older = [(name, form) for name, form in before.items() if name not in now]
    room = max(0, MAX_FORMS - len(now))
    return {**dict(older[max(0, len(older) - room) :]), **now}


def _read(file: Path) -> _Forms:
    """Return the forms of a file; there are none if it does not exist.

    Raises:
        OSError: it cannot be read.
        ValueError, RecursionError: it holds something else.
    """
    try:
        data: Any = json.loads(read_regular(file, _MAX_FILE))
    except FileNotFoundError:
        return {}
    forms = [*data.values()] if isinstance(data, dict) else [None]
    if not all(isinstance(tools, dict) and all(isinstance(form, str) for form in tools.values()) for tools in forms):
        raise ValueError("does not map servers to tools to fingerprints")
    return {**data}


def _write(file: Path, forms: Mapping[str, Mapping[str, str]]) -> None:
    """Add the forms of servers to those in a file, which other gateways may write at the same time.

    Raises:
        OSError: it cannot be written.
    """
    target = file.resolve()
    with turn(target.parent):
        try:
            before = _read(target)
        except (ValueError, RecursionError):
            before = {}
        merged = before | {server: _merged(before.get(server, {}), tools) for server, tools in forms.items()}
        if merged != before:
            data = json.dumps(merged, indent=1).encode("utf-8")
            replace(target, data, mode=_MODE)
