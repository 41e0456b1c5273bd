"""The gateway's two files, watched: an edit is applied whole or not at all (A.7)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from callability import document
from callability.finding import Finding, Severity, has_errors, in_order, line
from callability.gateway.config import NO_APPROVALS, Approvals, Config, ConfigRefused, load_approvals, load_config
from callability.gateway.observability.file_status import FileStatus
from callability.gateway.observability.metrics import Metrics
from callability.gateway.runtime.label_check import LabelCheck
from callability.watching import LOOK_SECONDS, looks

_logger = logging.getLogger(__name__)
_UNKNOWN = "unknown"
"""The digest of no file: whatever is read next is an edit."""


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
            self._metrics.edited(file, taken_over=True)
            self._metrics.stands(file, broken=False)
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
        rewritten = stamp != self._config_stamp
        edition = self._labels.edition if self._labels else 0
        self._config_stamp = stamp
        if seen == self._config_seen and self._refused_under in (None, edition):
            if rewritten and not self.file_status.config_broken:
                _logger.info("the config was written again without a change")
            return rewritten
        self._config_seen, self._refused_under = seen, None
        try:
            self.config = self._loaded()
        except ConfigRefused as refused:
            if isinstance(refused.__cause__, document.OutOfDescriptors):
                self._config_seen = _UNKNOWN
                raise refused.__cause__ from None
            _log(refused.findings, refusing=True)
            self.file_status.config_broken = True
            self._report_refused("config")
        else:
            _log(self.config.warnings, refusing=False)
            self._config_seen = self.config.digest
            self.file_status.config_broken = False
            self._accepted.append("config")
        return True

    def _loaded(self) -> Config:
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
        self._metrics.edited(file, taken_over=False)
        self._metrics.stands(file, broken=True)
        _logger.error("the edit of the %s is refused: the previous state stays in effect", file)

    def _files(self) -> tuple[Path, ...]:
        return (self.config.path, self._path) if self._path else (self.config.path,)


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
