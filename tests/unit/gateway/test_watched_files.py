"""The gateway's files, when they cannot be read for want of a file descriptor."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from callability.files import watching
from callability.gateway.config.approvals import Approvals, load_approvals
from callability.gateway.config.config import load_config
from callability.gateway.observability import FileStatus, Metrics
from callability.gateway.runtime import watched_files
from callability.gateway.runtime.watched_files import Files
from support.edits import replace


@contextmanager
def _no_descriptors() -> Iterator[None]:
    """Use up the descriptors of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 4, hard))
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _written(directory: Path) -> tuple[Path, Path]:
    """Write a config and approvals."""
    path, approvals = directory / "gateway.json", directory / "approvals.json"
    path.write_text('{"mcpServers": {}}')
    approvals.write_text("{}")
    return path, approvals


def test_a_file_that_cannot_be_read_for_want_of_descriptors_is_no_edit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so; the next edit is read as any other."""
    monkeypatch.setattr(watching, "LOOK_SECONDS", 1)
    path, approvals = _written(tmp_path)

    async def run() -> None:
        status = FileStatus()
        files = Files(load_config(path), approvals, Metrics(), status)
        caplog.set_level("INFO")
        edits = files.edits()
        # The first look may be at any time from here on.
        reading = asyncio.ensure_future(anext(edits))
        with _no_descriptors():
            while not caplog.records and not reading.done():  # noqa: ASYNC110  # it is a line of the log
                await asyncio.sleep(0.01)
        assert not reading.done()
        assert not status.config_broken
        replace(path, '{"mcpServers": {}, "strict_labels": true}')
        assert (await reading).config
        assert files.config.strict_labels

    asyncio.run(run())
    assert "refused" not in caplog.text
    assert sum("too many open files" in each.message for each in caplog.records) == 1


def test_files_are_followed_after_a_look_that_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line says so: at a limit of threads, for example, no file can be read in one."""
    monkeypatch.setattr(watching, "LOOK_SECONDS", 1)
    path = tmp_path / "gateway.json"
    path.write_text('{"mcpServers": {}}')

    async def run() -> None:
        files = Files(load_config(path), None, Metrics(), FileStatus())
        ended = ThreadPoolExecutor()
        ended.shutdown()
        asyncio.get_running_loop().set_default_executor(ended)
        reading = asyncio.ensure_future(anext(files.edits()))
        while not caplog.records and not reading.done():  # noqa: ASYNC110  # it is a line of the log
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        replace(path, '{"mcpServers": {}, "strict_labels": true}')
        assert (await reading).config
        assert files.config.strict_labels

    asyncio.run(run())
    assert "the files could not be read" in caplog.text


def test_an_edit_is_reported_once_it_is_applied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An operator who reads in the log that a tool is locked can rely on it."""
    caplog.set_level("INFO")
    path = tmp_path / "gateway.json"
    path.write_text('{"mcpServers": {}}')

    async def run() -> None:
        files = Files(load_config(path), None, Metrics(), FileStatus())
        reading = asyncio.ensure_future(anext(files.edits()))
        replace(path, '{"mcpServers": {}, "strict_labels": true}')
        edit = await reading
        assert "is applied" not in caplog.text
        files.report_applied(edit)
        assert caplog.messages == ["the edit of the config is applied"]

    asyncio.run(run())


def test_a_config_is_applied_although_the_approvals_could_not_be_looked_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look that accepts the config fails; the next one, of which the config is no edit, does not lose it."""
    monkeypatch.setattr(watching, "LOOK_SECONDS", 1)
    path, approvals = _written(tmp_path)
    faults = [MemoryError()]

    def failing(path: Path) -> Approvals:
        if faults:
            raise faults.pop()
        return load_approvals(path)

    async def run() -> None:
        files = Files(load_config(path), approvals, Metrics(), FileStatus())
        monkeypatch.setattr(watched_files, "load_approvals", failing)
        reading = asyncio.ensure_future(anext(files.edits()))
        replace(approvals, '{"files": {}}')
        replace(path, '{"mcpServers": {}, "strict_labels": true}')
        edit = await reading
        assert (edit.config, edit.accepted) == (True, ("config", "approvals"))
        assert files.config.strict_labels

    asyncio.run(run())
    assert "the files could not be read" in caplog.text
