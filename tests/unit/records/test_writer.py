"""Where records go, and what is lost on the way there."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from callability.records.format import By, Change, Ended
from callability.records.reading import RecordReading, follow_records, sources_of
from callability.records.recorder import Call, Recorder, RecordLevel, RecordOptions
from callability.records.writer import QUEUE_LINES, Destination, DestinationRefused, RecordWriter


def _writer(directory: Path, **bounds: int) -> RecordWriter:
    return RecordWriter(Destination(str(directory), **bounds), "service")


def _numbers(directory: Path) -> list[int]:
    reading = RecordReading(sources_of([str(directory)]))
    return [json.loads(line)["n"] for line in reading.lines()]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory for records."""
    Destination(str(tmp_path / "records")).check()
    return tmp_path / "records"


def test_the_lines_of_all_threads_are_written_and_numbered(directory: Path) -> None:
    """The last one says how many there were."""
    writer = _writer(directory)

    def append() -> None:
        for _ in range(500):
            writer.append('"kind":"x"')

    threads = [threading.Thread(target=append) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    writer.close()
    assert _numbers(directory) == [*range(1, 2_002)]
    assert (writer.written, writer.dropped) == (2_000, 0)


def test_files_are_rotated_and_the_oldest_removed_within_the_total(directory: Path) -> None:
    """Files of processes that still write are left alone."""
    other = _writer(directory, total_bytes=80_000)
    other.append('"kind":"x"')
    other.close()
    running = _writer(directory, total_bytes=80_000)
    _fill(running, 1)
    for _ in range(8):
        writer = _writer(directory, total_bytes=80_000)
        _fill(writer, 300)
        writer.close()
    _fill(running, 1)
    running.close()
    sizes = [path.stat().st_size for path in directory.glob("*.jsonl")]
    assert sum(sizes) <= 80_000
    assert max(sizes) <= 10_000
    assert running.dropped == 0


def _fill(writer: RecordWriter, lines: int) -> None:
    """Append lines, and wait until they are written."""
    wanted = writer.written + writer.dropped + lines
    for _ in range(lines):
        writer.append(f'"kind":"x","text":"{"a" * 60}"')
    while writer.written + writer.dropped < wanted:
        pass


def test_a_file_is_removed_at_its_age(directory: Path) -> None:
    """Whatever room there is."""
    old = directory / "service-20200101T000000000Z-1.jsonl"
    old.write_text("")
    os.utime(old, (0, 0))
    _fill(writer := _writer(directory), 1)
    writer.close()
    assert not old.exists()


@pytest.mark.parametrize(
    "breaking",
    [
        lambda directory: directory.rename(directory.with_name("gone")),
        lambda directory: directory.joinpath(".lock").mkdir(),
    ],
    ids=["vanished", "without a lock"],
)
def test_a_place_that_cannot_be_written_costs_records_that_are_counted(
    breaking: Callable[[Path], object], directory: Path
) -> None:
    """Whoever decides is not disturbed."""
    breaking(directory)
    writer = _writer(directory)
    _fill(writer, 10)
    writer.close()
    assert (writer.written, writer.dropped) == (0, 10)


def test_a_full_queue_drops_lines_and_leaves_a_gap_in_the_numbers(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers count what is missing."""
    full = threading.Event()
    monkeypatch.setattr("callability.records.writer.time.sleep", lambda _: full.wait())
    writer = _writer(directory)
    for _ in range(QUEUE_LINES + 7):
        writer.append('"kind":"x"')
    full.set()
    while not writer.written:
        pass
    writer.append('"kind":"x"')
    writer.close()
    reading = RecordReading(sources_of([str(directory)]))
    assert len([*reading.lines()]) == QUEUE_LINES + 2
    assert (writer.dropped, reading.lost, reading.unended) == (7, 7, 0)


def test_a_torn_line_and_a_process_without_an_end_are_counted(directory: Path) -> None:
    """They are what a process leaves that was killed."""
    writer = _writer(directory)
    _fill(writer, 3)
    [path] = directory.glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-5])
    reading = RecordReading(sources_of([str(directory)]))
    assert len([*reading.lines()]) == 2
    assert (reading.torn, reading.damaged, reading.unended) == (1, 1, 1)


def test_a_file_that_is_followed_may_become_shorter(directory: Path) -> None:
    """As if a full disk cut its end, or if somebody emptied it: what comes then is read, from its start."""
    first, later = directory / "a.jsonl", directory / "b.jsonl"
    first.write_bytes(b"one\ntwo\n")
    lines = follow_records([str(directory)])
    assert [next(lines), next(lines)] == [b"one\n", b"two\n"]
    first.write_bytes(b"")
    later.write_bytes(b"of another file\n")
    # Once this is read, the first file was looked at.
    assert next(lines) == b"of another file\n"
    first.write_bytes(b"three, which is longer\n")
    assert next(lines) == b"three, which is longer\n"


def test_a_directory_of_another_user_or_open_to_others_is_refused(tmp_path: Path) -> None:
    """Records say who did what."""
    tmp_path.chmod(0o750)
    with pytest.raises(DestinationRefused, match="is open to others, as its mode is 750: run chmod 700 on it"):
        Destination(str(tmp_path)).check()
    tmp_path.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(tmp_path, 65_534, 65_534)
        with pytest.raises(DestinationRefused, match="belongs to user 65534"):
            Destination(str(tmp_path)).check()


def test_names_are_cut_and_escaped(directory: Path) -> None:
    """An agent may call a tool by any text."""
    recorder = Recorder(RecordOptions(Destination(str(directory)), RecordLevel.ALL), By.GATEWAY)
    recorder.record_undecided("a\n", "\ud800", "ä" * 600, Call(Ended.UNKNOWN, 0.0))
    recorder.record_change(Change.POLICY, applied=False, before="1", after="2")
    recorder.close()
    [path] = directory.glob("*.jsonl")
    first, *_ = path.read_text(encoding="ascii").splitlines()
    record = json.loads(first)
    assert (record["agent"], record["server"], len(record["tool"])) == ("a\n", "?", 256)
