"""The gateway's two files, watched: an edit is applied whole or not at all (A.7), and compared with policy and servers.

For servers with `trust: first_use`, the forms in which tools are first listed are recorded in the approvals.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from callability.adapter import DeclaredInputs, NotPublished
from callability.client import PolicyUnavailable
from callability.contract.finding import Finding, Severity, as_code, has_errors, in_order, line, list_names
from callability.contract.vocabulary import MAX_BYTES, byte_length, is_plain
from callability.files import document
from callability.files.editing import EditRefused, rewrite
from callability.files.spelling import Tree
from callability.files.watching import LOOK_SECONDS, looks
from callability.gateway.config.approvals import NO_APPROVALS, Approvals, Definitions, approved_part, load_approvals
from callability.gateway.config.checks import has_labels, label_findings
from callability.gateway.config.config import Config, ConfigRefused, load_config
from callability.gateway.config.variables import digest_of_secrets, secrets_beside
from callability.gateway.observability import FileStatus, Metrics
from callability.gateway.policy_client import GET_SECONDS, PolicyClient
from callability.gateway.upstream.failure import UpstreamError
from callability.gateway.upstream.listing import UpstreamTool
from callability.gateway.upstream.upstream import Upstream
from callability.process.background import end_tasks
from callability.process.logs import fields

RETRY_SECONDS = 10.0
"""How long to wait before a service that gave no answer is asked again, unless it answers another call first."""
_logger = logging.getLogger(__name__)


class LabelCheck:
    """Compares the labels of the current config with the latest policy; use it in one event loop.

    Its findings are for operators: they go to the log and the metrics, and not to agents (FR-007).
    """

    def __init__(self, policy: PolicyClient, metrics: Metrics) -> None:
        self._policy = policy
        self._metrics = metrics
        self.edition = 0
        """Grows whenever the policy is read: what was refused earlier may be accepted now."""
        self._declared: DeclaredInputs | None = None
        self._seen = ""
        self._config: Config | None = None
        self._logged: tuple[Finding, ...] = ()
        self._failed = False
        self._is_read = False
        self._wanted = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def start(self, config: Config) -> None:
        """Ask for the policy, and compare a config that is in effect already.

        Raises:
            ConfigRefused: the config has `strict_labels`, and labels that are not declared or cannot be checked.
        """
        await self._read()
        found = self.findings(config)
        if has_errors(found):
            raise ConfigRefused(found)
        if self._config is not None:
            self.apply(self._config)

    def findings(self, config: Config) -> tuple[Finding, ...]:
        """Return the findings about the labels of a config, by the latest policy; callable from any thread."""
        return label_findings(config, self._declared, answered=not self._failed)

    def apply(self, config: Config) -> None:
        """Apply a config that has come into effect: count its findings, and log them if they have changed."""
        self._config = config
        if not self._is_read:
            # The policy is still being proved: `start` compares then.
            return
        found = self.findings(config)
        checked = self._declared is not None
        self._metrics.labels_compared(len(found) if checked else 0, checked=checked or not has_labels(config))
        if self._failed:
            self._run()
        if found == self._logged:
            return
        self._logged = found
        for finding in found:
            _logger.log(logging.ERROR if has_errors((finding,)) else logging.WARNING, "%s", line(finding))
        if has_errors(found):
            _logger.error("the labels of the config do not match the policy; the gateway keeps running with both")

    def note_revision(self, revision: str) -> None:
        """Compare again if an answer comes from another revision of the policy."""
        if revision and revision != self._seen:
            self._seen = revision
            self.look()

    def look(self) -> None:
        """Ask for the policy and compare again, in a task of its own."""
        self._wanted.set()
        self._run()

    def _run(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="comparing labels")

    async def close(self) -> None:
        """End a comparison that is under way."""
        if self._looking is not None:
            await end_tasks(self._looking)

    async def _look(self) -> None:
        while self._wanted.is_set() or self._failed:
            if self._failed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), RETRY_SECONDS)
            self._wanted.clear()
            await self._read()
        if self._config is not None:
            self.apply(self._config)

    async def _read(self) -> None:
        self._is_read = True
        try:
            policy = await self._policy.get_policy(GET_SECONDS)
            declared: DeclaredInputs | None = DeclaredInputs.of(policy)
        except PolicyUnavailable:
            self._failed = True
            return
        except NotPublished:
            declared = None
        self._failed = False
        self.edition += 1
        self._declared, self._seen = declared, policy.revision


class NameWarnings:
    """Logs each sentence once for as long as the gateway runs."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def about_servers(self, config: Config, approvals: Approvals) -> None:
        """Warn of approval records for servers that the config lacks, and note the servers that are disabled."""
        for server in approvals.records:
            if server not in config.servers and server not in config.catalog:
                self._warn(f"the approvals have records of server {as_code(server)}, which is not in the config")
        for name, server_config in config.servers.items():
            if not server_config.enabled:
                self._log(f"`{name}` is switched off in the config, and is not connected", logging.INFO)

    async def about(self, upstream: Upstream, config: Config, approvals: Approvals) -> None:
        """Wait for the tools of a server, and warn of entries in its two lists and of records that no tool matches
        (A.2), and of tools whose names cannot be called.
        """
        try:
            await upstream.wait_until_open()
        except UpstreamError:
            return
        names = {tool.name for tool in upstream.tools}
        for finding in config.find_unmatched(upstream.name, names):
            self._warn(str(finding))
        for tool in approvals.tools(upstream.name):
            if tool not in names:
                self._warn(f"the approval record of {as_code(tool)} matches no tool of server `{upstream.name}`")
        uncallable = sum(not 0 < byte_length(name) <= MAX_BYTES for name in names)
        if uncallable:
            self._warn(
                f"`{upstream.name}` lists tools that cannot be called: names that are empty or have more than"
                f" {MAX_BYTES} bytes: {uncallable:,}"
            )

    def _warn(self, sentence: str) -> None:
        self._log(sentence, logging.WARNING)

    def _log(self, sentence: str, level: int) -> None:
        if sentence not in self._logged:
            self._logged.add(sentence)
            _logger.log(level, "%s", sentence)


_UNKNOWN = "unknown"
"""The digest of no file: whatever is read next is an edit."""


class Edited(Protocol):
    """Hears of an edit of `config` or `approvals`, with the digests of what was in effect and of what was written."""

    def __call__(self, file: str, before: str, after: str, *, applied: bool) -> None:
        """Hear of it."""


def _unheard(file: str, before: str, after: str, *, applied: bool) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What was written.

    `config`: the config was, if only with the same content, and it is accepted. `accepted` are the files whose new
    content is to be applied.
    """

    config: bool
    accepted: tuple[str, ...] = ()


class Files:
    """The last good state of the config and of the approvals; `given` is an approvals file other than the config's.

    If the approvals cannot be read at the start, they have no state, and every approval is unknown.
    """

    def __init__(
        self,
        config: Config,
        given: Path | None,
        metrics: Metrics,
        file_status: FileStatus,
        labels: LabelCheck | None = None,
    ) -> None:
        # Absolute from the start: the directory in which the gateway was started may be removed.
        self.config = replace(config, path=config.path.absolute(), approvals=_absolute(config.approvals))
        self.given = _absolute(given)
        self.file_status = file_status
        self._metrics = metrics
        self._labels = labels
        self.count_edit: Edited = _unheard
        """Called after each edit, from any thread."""
        self._refused_under: int | None = None
        """The edition of the policy by which the labels of the config were refused, if they are."""
        self._out_of_descriptors = False
        self._accepted: list[str] = []
        self._looking = asyncio.Lock()
        self._config_seen = config.digest
        self._config_stamp = _stamp(self.config.path)
        self._path = self.approvals_path(self.config)
        self.approvals = _approvals(self._path)
        self._approvals_seen = self.approvals.digest
        self.file_status.approvals_readable = self.approvals.readable
        self._in_effect = {"config": self._config_seen, "approvals": self._approvals_seen}
        self.needs_start = False
        """Whether the config that was awaited has `records`, which begin at a start: no call may go unrecorded."""
        metrics.stands("config", broken=config.is_awaited)
        metrics.stands("approvals", broken=not self.approvals.readable)
        _log(self.approvals.warnings, refusing=not self.approvals.readable)

    def approvals_path(self, config: Config) -> Path | None:
        """Return the approvals file that is in effect under a config."""
        return self.given or config.approvals

    async def edits(self) -> AsyncIterator[Edit]:
        """Yield every edit, accepted or not, forever. What was accepted is to be applied and then `report_applied`."""
        async for _ in looks(self._files):
            try:
                edit = await self.look()
            except Exception:
                _logger.exception("the files could not be read: they are read again in %d s", LOOK_SECONDS)
                continue
            if edit:
                yield edit

    async def look(self) -> Edit | None:
        """Return what was written since the last look, None if nothing was."""
        async with self._looking:
            # In a thread: a large and odd file takes seconds to read, and calls go on meanwhile.
            return await asyncio.to_thread(self._read)

    def report_applied(self, edit: Edit) -> None:
        """Report that an edit is in effect."""
        for file in edit.accepted:
            self._metrics.count_edit(file, applied=True)
            self._metrics.stands(file, broken=False)
            before, now = self._in_effect[file], self._last_seen(file)
            self._in_effect[file] = now
            self.count_edit(file, before, now, applied=True)
            _logger.info("the edit of the %s is applied", file)

    def _read(self) -> Edit | None:
        """Read what was written since the last time; None if nothing was."""
        config_written = self._if_descriptors(self._read_config)
        approvals_written = self._if_descriptors(self._read_approvals)
        # The previous look may have accepted the config, and failed then.
        accepted, self._accepted = tuple(self._accepted), []
        if not config_written and not approvals_written and not accepted:
            return None
        return Edit("config" in accepted or (config_written and not self.file_status.config_broken), accepted)

    def _if_descriptors(self, read: Callable[[], bool]) -> bool:
        """Read a file; without a free descriptor, nothing is known of an edit, and the next look reads the file."""
        try:
            written = read()
        except document.OutOfDescriptors as error:
            if not self._out_of_descriptors:
                _log(error.findings, refusing=False)
                _logger.warning("the files are read again in %d s: the previous state stays in effect", LOOK_SECONDS)
            self._out_of_descriptors = True
            return False
        self._out_of_descriptors = False
        return written

    def _read_config(self) -> bool:
        """Read the config if it was written, and return whether it was, even if its content is the same."""
        # The stamp comes first: if the file is written between the two, the next look sees another stamp.
        stamp = _stamp(self.config.path)
        seen = _digest(self.config.path)
        seen += digest_of_secrets(self.config.path) if seen else ""
        rewritten = stamp != self._config_stamp
        edition = self._labels.edition if self._labels else 0
        self._config_stamp = stamp
        # The keyring may give now what it did not give then.
        retries = rewritten and any(each.code == "no-keyring" for each in self.config.warnings)
        if seen == self._config_seen and self._refused_under in (None, edition) and not retries:
            if rewritten and not self.file_status.config_broken:
                _logger.info("the config was written again without a change")
            return rewritten
        self._config_seen, self._refused_under = seen, None
        try:
            loaded = self._load()
        except ConfigRefused as refused:
            if isinstance(refused.__cause__, document.OutOfDescriptors):
                self._config_seen = _UNKNOWN
                raise refused.__cause__ from None
            _log(refused.findings, refusing=True)
            self.file_status.config_broken = True
            self._report_refused("config")
            return True
        if self.config.is_awaited and loaded.records is not None:
            self.needs_start = True
            return False
        self.config = loaded
        _log(loaded.warnings, refusing=False)
        self._config_seen = loaded.digest
        self.file_status.config_broken, self.file_status.config_awaited = False, ""
        self._accepted.append("config")
        return True

    def _load(self) -> Config:
        """Load the current config.

        Raises:
            ConfigRefused: it has errors, labels that the policy does not declare and `strict_labels`, or servers whose
                tools cannot be recorded.
        """
        config = load_config(self.config.path, os.environ)
        config.check_recordable(self.approvals_path(config))
        if self._labels is None:
            return config
        edition, found = self._labels.edition, self._labels.findings(config)
        if has_errors(found):
            self._refused_under = edition
            raise ConfigRefused(in_order((*config.warnings, *found)))
        return config

    def _read_approvals(self) -> bool:
        path = self.approvals_path(self.config)
        if path == self._path and _digest(path) == self._approvals_seen:
            return False
        approvals = _approvals(path)
        if not approvals.digest:
            # Raises if there is no free descriptor; then there is no edit.
            _digest(path)
        # The last good state was of the same file; another file has no good state yet.
        if approvals.readable or path != self._path:
            self.approvals = approvals
            self.file_status.approvals_readable = approvals.readable
        self._path, self._approvals_seen = path, approvals.digest
        _log(approvals.warnings, refusing=not approvals.readable)
        self.file_status.approvals_broken = not approvals.readable
        if approvals.readable:
            self._accepted.append("approvals")
        else:
            self._report_refused("approvals")
        return True

    def _report_refused(self, file: str) -> None:
        self._metrics.count_edit(file, applied=False)
        self._metrics.stands(file, broken=True)
        self.count_edit(file, self._in_effect[file], self._last_seen(file), applied=False)
        if self.config.is_awaited and file == "config":
            _logger.error("the config is refused: no server is opened until its errors are corrected")
            return
        _logger.error("the edit of the %s is refused: the previous state stays in effect", file)

    def _last_seen(self, file: str) -> str:
        return self._config_seen if file == "config" else self._approvals_seen

    def _files(self) -> tuple[Path, ...]:
        config = (self.config.path, secrets_beside(self.config.path))
        return (*config, self._path) if self._path else config


def _absolute(path: Path | None) -> Path | None:
    return path.absolute() if path else None


def _approvals(path: Path | None) -> Approvals:
    return load_approvals(path) if path else NO_APPROVALS


def _digest(path: Path | None) -> str:
    """Return the digest of a file; empty if it cannot be read.

    Raises:
        document.OutOfDescriptors: it cannot be read for want of a descriptor.
    """
    try:
        return document.digest(document.read_bytes(path)) if path else ""
    except document.OutOfDescriptors:
        raise
    except document.Refused:
        return ""


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what differs between two times that a file was written; empty if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_mtime_ns)


def _log(findings: Iterable[Finding], *, refusing: bool) -> None:
    for finding in findings:
        if refusing:
            _logger.error("%s", line(replace(finding, severity=Severity.ERROR)))
        else:
            _logger.warning("%s", line(finding))


MAX_RECORDS = 256
"""Records of one server beyond which no other is added: a server that lists new names must not fill the file."""
_Forms = dict[str, tuple[UpstreamTool, ...]]
"""Tools without a recorded form, by their server."""


class FirstForms:
    """Writes records, several servers at once; `apply` applies the edit of the approvals that this is."""

    def __init__(self, files: Files, apply: Callable[[Edit], None]) -> None:
        self._files = files
        self._apply = apply
        self._wanted: _Forms = {}
        self._writing: asyncio.Task[None] | None = None
        self._crowded: set[str] = set()

    async def record(self, server: str, tools: Iterable[UpstreamTool]) -> None:
        """Record the tools that have no form yet, and return when the records are in effect; a failure is logged.

        A tool with an odd name, and one too many of a server, waits for a review.
        """
        config = self._files.config
        if server not in config.names or config.server(server).trust != "first_use":
            return
        approvals = self._files.approvals
        missing = _without_form(approvals, server, tools)
        opened = [tool for tool in missing if approvals.record(server, tool.name) is not None]
        new = [tool for tool in missing if approvals.record(server, tool.name) is None]
        room = max(0, MAX_RECORDS - len(approvals.tools(server)))
        if len(new) > room:
            self._report_crowd(server)
        if not opened and not new[:room]:
            return
        self._wanted[server] = (*opened, *new[:room])
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="recording first forms")
        # The deadline of one opening must not end what is written for other servers.
        await asyncio.shield(self._writing)

    async def close(self) -> None:
        """Wait until every record that was started is written."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            path = self._files.approvals_path(self._files.config)
            try:
                if path is not None:
                    await asyncio.to_thread(_record, path, wanted)
                edit = await self._files.look()
                if edit is not None:
                    self._apply(edit)
            except (OSError, EditRefused, document.Refused) as error:
                _report_failure(wanted, error)

    def _report_crowd(self, server: str) -> None:
        if server not in self._crowded:
            self._crowded.add(server)
            words = "`%s` lists tools beyond the %d that are recorded of a server: the others wait for a review"
            _logger.warning(words, server, MAX_RECORDS, extra=fields(server=server))


def _report_failure(servers: Iterable[str], error: Exception) -> None:
    words = "the tools that %s lists for the first time cannot be recorded, and wait for a review: %s"
    why = (error.strerror or "error").lower() if isinstance(error, OSError) else str(error)
    _logger.error(words, list_names(servers), why)


def _without_form(approvals: Approvals, server: str, tools: Iterable[UpstreamTool]) -> list[UpstreamTool]:
    """Return the tools with plain names that have no record, or one without a form; nothing of unreadable approvals."""
    missing: dict[str, UpstreamTool] = {}
    for tool in tools if approvals.readable else ():
        record = approvals.record(server, tool.name)
        if is_plain(tool.name) and (record is None or record.is_open):
            # If a name is listed twice, the first one counts.
            missing.setdefault(tool.name, tool)
    return [*missing.values()]


def _record(path: Path, wanted: _Forms) -> None:
    """Record forms in an approvals file, unless somebody decided about a tool meanwhile.

    Raises:
        OSError: the file, or a definition beside it, cannot be written.
        EditRefused, document.Refused: the file is not what it should be.
    """
    definitions = Definitions.beside(path)
    for tool in (tool for tools in wanted.values() for tool in tools):
        if tool.definition is not None:
            definitions.keep(tool.fingerprint.current, approved_part(tool.definition))

    def tree() -> Tree:
        approvals = load_approvals(path)
        missing = {server: _without_form(approvals, server, tools) for server, tools in wanted.items()}
        return {
            server: {tool.name: {"sha256": tool.fingerprint.current} for tool in tools}
            for server, tools in missing.items()
            if tools
        }

    rewrite(path, tree)
