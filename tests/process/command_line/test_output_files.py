"""What every command does with the output that it is given: a file, a link, a pipe, a device, or one of its inputs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from callability.kernel.policy import read
from callability.process.regular_file import PIPE_SECONDS
from support.checkout import POLICY
from support.commands import callability
from support.running import COMMAND

TABLE = (
    "server.name,tool.name,server.enabled,server.quarantined,tool.config_denied,approval.disabled,approval.status,"
    "caller.refuses\ngit,git_log,true,false,false,false,approved,false\n"
)
COMMANDS = {
    "bundle build": "bundle build policy --output",
    "test --junit": "test policy --junit",
    "inventory": "inventory --config gateway.json --offline --output",
    "inventory decide": "inventory decide tools.csv --output",
    "inventory decide to Parquet": "inventory decide tools.csv --output",
    "inventory decide to Arrow": "inventory decide tools.csv --output",
    "inventory diff": "inventory diff tools.csv --against policy --output",
}
"""Each command that writes one file, up to the name of the file."""
ENDINGS = {"inventory": ".json", "inventory decide to Parquet": ".parquet", "inventory decide to Arrow": ".arrow"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with an input of each kind."""
    shutil.copytree(POLICY, tmp_path / "policy", ignore=shutil.ignore_patterns("schema", "examples"))
    (tmp_path / "tools.csv").write_text(TABLE)
    (tmp_path / "gateway.json").write_text('{"mcpServers": {"git": {"command": "git", "enabled": false}}}')
    return tmp_path


def _run(place: Path, command: str, output: str | Path) -> subprocess.CompletedProcess[str]:
    return callability(*COMMANDS[command].split(), str(output), cwd=place)


def _ending(command: str) -> str:
    return ENDINGS.get(command, ".csv")


@contextmanager
def _reader(pipe: Path) -> Iterator[list[bytes]]:
    """Read a pipe to its end in a thread."""
    found: list[bytes] = []
    thread = Thread(target=lambda: found.append(pipe.read_bytes()))
    thread.start()
    yield found
    thread.join()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_link_leads_to_the_file_that_is_written(place: Path, command: str) -> None:
    """One that leads to no file yet makes it; the file keeps its mode, and nothing is left beside it."""
    (place / "releases").mkdir()
    file, link = place / f"releases/1{_ending(command)}", place / f"current{_ending(command)}"
    link.symlink_to(f"releases/1{_ending(command)}")
    assert _run(place, command, link).returncode == 0
    assert link.is_symlink()
    first = file.read_bytes()
    assert first
    file.write_text("older")
    file.chmod(0o640)
    assert _run(place, command, link.name).returncode == 0
    assert (link.is_symlink(), file.read_bytes() == first or command == "test --junit") == (True, True)
    assert file.stat().st_mode & 0o777 == 0o640
    assert [*(place / "releases").iterdir()] == [file]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_named_pipe_is_written_and_stays_one(place: Path, command: str) -> None:
    """Its reader gets the whole output."""
    file, pipe = place / f"file{_ending(command)}", place / f"pipe{_ending(command)}"
    assert _run(place, command, file).returncode == 0
    os.mkfifo(pipe)
    with _reader(pipe) as found:
        assert _run(place, command, pipe).returncode == 0
    assert pipe.is_fifo()
    assert found == [file.read_bytes()]


def test_a_named_pipe_that_nobody_reads_is_an_error(place: Path) -> None:
    """The command would wait for ever."""
    pipe = place / "pipe.bundle"
    os.mkfifo(pipe)
    done = _run(place, "bundle build", pipe)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"callability: `{pipe}` cannot be written: no program has read this pipe for {PIPE_SECONDS} s"
    ]
    assert pipe.is_fifo()


@pytest.mark.parametrize("command", ["bundle build", "test --junit", "inventory"])
def test_a_device_is_written_and_stays_one(place: Path, command: str) -> None:
    """And a full one is an error in one line."""
    for device, code in (("/dev/null", 0), ("/dev/full", 1)):
        (place / "device").symlink_to(device)
        done = _run(place, command, "device")
        assert done.returncode == code
        assert Path(device).is_char_device()
        assert code == 0 or done.stderr.endswith("callability: `device` cannot be written: no space left on device\n")
        (place / "device").unlink()


@pytest.mark.parametrize(
    ("command", "limit", "named"),
    [
        ("policy export new", 8, "new/callability.yaml"),
        ("policy export new", 10, "new/enable_outcome_test.yaml"),
        ("callers token new.token", 0, "new.token"),
    ],
)
def test_a_full_disk_is_an_error_that_names_the_file_and_the_same_command_works_later(
    place: Path, command: str, limit: int, named: str
) -> None:
    """Nothing that was written in part is left. The limit is one of the size of a file, in 512 bytes."""
    limited = ["/bin/sh", "-c", f'ulimit -f {limit}; exec "$@"', "sh", *COMMAND, *command.split()]
    done = subprocess.run(limited, cwd=place, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"callability: `{named}` cannot be written: file too large\n")
    assert [path for path in place.rglob("new*") if path.is_file()] == []
    assert [*place.glob("new/*")] == []
    assert callability(*command.split(), cwd=place).returncode == 0


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("bundle build", "policy/callability.yaml"),
        ("test --junit", "policy/callability_test.yaml"),
        ("inventory", "gateway.json"),
        ("inventory decide", "tools.csv"),
        ("inventory diff", "tools.csv"),
    ],
)
@pytest.mark.parametrize("linked", [False, True])
def test_an_output_that_is_an_input_is_refused(place: Path, command: str, name: str, *, linked: bool) -> None:
    """By its own name, and by that of a link."""
    before, output = (place / name).read_bytes(), place / name
    if linked:
        output = place / f"link{_ending(command)}"
        output.symlink_to(name)
    done = _run(place, command, output)
    assert (done.returncode, (place / name).read_bytes()) == (1, before)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"callability: `{output}` cannot be written: it is ")
    assert last.endswith("; name another file")


def test_the_bundle_of_a_policy_is_no_output_of_its_verdicts(place: Path) -> None:
    """Whatever its name ends in."""
    bundle = place / "bundle.csv"
    assert _run(place, "bundle build", bundle).returncode == 0
    done = callability(
        "inventory", "decide", "tools.csv", "--policy", "bundle.csv", "--output", "bundle.csv", cwd=place
    )
    assert done.stderr == "callability: `bundle.csv` cannot be written: it is an input; name another file\n"
    read(bundle.read_bytes())


def test_a_failure_leaves_the_output_as_it_was(place: Path) -> None:
    """The second row is refused after the first was decided."""
    rows = TABLE.splitlines()[1].replace("git_log", "tool") + "\n"
    (place / "tools.csv").write_text(TABLE + rows * 100_000 + rows.replace("approved,false", "approved,maybe"))
    output = place / "verdicts.csv"
    output.write_text("older")
    assert _run(place, "inventory decide", output).returncode == 1
    assert output.read_text() == "older"
    assert sorted(each.name for each in place.iterdir()) == ["gateway.json", "policy", "tools.csv", "verdicts.csv"]


def test_standard_output_may_be_named_as_a_file(place: Path) -> None:
    """A bundle is then all that is written; what the file held before stays."""
    whole, file = place / "whole.bundle", place / "file"
    assert _run(place, "bundle build", whole).returncode == 0
    file.write_bytes(b"before")
    with file.open("ab") as stream:
        command = [*COMMAND, "bundle", "build", "policy", "--output", "/dev/stdout"]
        subprocess.run(command, cwd=place, stdout=stream, timeout=120, check=True)
    assert file.read_bytes() == b"before" + whole.read_bytes()


def test_schemas_are_written_to_where_links_lead(place: Path) -> None:
    """`schema policy` writes several files, and overwrites those that are there."""
    (place / "schema").mkdir()
    (place / "kept.json").write_text("{}")
    (place / "schema/callability.schema.json").symlink_to("../kept.json")
    assert callability("schema", "policy", "schema", cwd=place).returncode == 0
    assert (place / "schema/callability.schema.json").is_symlink()
    assert '"$schema"' in (place / "kept.json").read_text()


def test_an_inventory_may_come_from_a_pipe_that_is_given_and_not_from_a_named_one(place: Path) -> None:
    """Standard input ends with its writer; a named pipe without one would be waited for."""
    assert _run(place, "inventory", "tools.json").returncode == 0
    command = [*COMMAND, "diff", "policy", "policy", "--inventory"]
    text = (place / "tools.json").read_text()
    given = subprocess.run(
        [*command, "/dev/stdin"], cwd=place, input=text, capture_output=True, text=True, timeout=120, check=False
    )
    assert (given.returncode, given.stderr) == (0, "")
    os.mkfifo(place / "pipe.json")
    refused = callability("diff", "policy", "policy", "--inventory", "pipe.json", cwd=place)
    assert (refused.returncode, refused.stderr) == (
        1, "callability: `pipe.json` cannot be read: is not a regular file\n"
    )  # fmt: skip


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow", ".jsonl"])
def test_a_table_is_no_pipe(place: Path, ending: str) -> None:
    """It is read more than once, and a pipe would be waited for."""
    os.mkfifo(place / f"pipe{ending}")
    refused = callability("inventory", "counts", f"pipe{ending}", cwd=place)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"callability: pipe{ending}: is not a regular file; a table is read more than ")


@pytest.mark.parametrize(
    "call",
    [
        "inventory counts tools.csv --policy pipe.bundle",
        "inventory diff tools.csv --against pipe.bundle",
        "bundle verify pipe.bundle",
        "bundle inspect pipe.bundle",
        "bundle build policy --sign key=pipe.bundle --output out.bundle",
        "check pipe.bundle",
        "diff pipe.bundle policy",
        "callers check pipe.bundle",
        "config check --config pipe.bundle",
    ],
)
def test_a_named_pipe_is_no_input(place: Path, call: str) -> None:
    """No command waits for one."""
    os.mkfifo(place / "pipe.bundle")
    done = callability(*call.split(), cwd=place)
    assert done.returncode == 1
    assert "is not a regular file" in done.stdout + done.stderr
