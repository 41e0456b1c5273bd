"""The approvals file: what it says, and what is unknown."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.contract.finding import Severity
from callability.gateway.config.approvals import NO_APPROVALS, ApprovalRecord, Approvals, load_approvals

UNKNOWN = ApprovalRecord(disabled=None, status=None)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings then name the file alone."""
    monkeypatch.chdir(tmp_path)


def loaded(text: str, name: str = "approvals.yaml") -> Approvals:
    """Write an approvals file and load it."""
    Path(name).write_text(text, encoding="utf-8")
    return load_approvals(Path(name))


def test_records_are_read_by_server_and_tool() -> None:
    """A record sets both, and the tools keep the order of the file."""
    approvals = loaded("files:\n  write: {disabled: true, status: changed}\n  read: {status: pending}\nclock: {}\n")
    assert approvals.readable
    assert approvals.warnings == ()
    assert approvals.record("files", "write") == ApprovalRecord(disabled=True, status="changed")
    assert approvals.record("files", "read") == ApprovalRecord(disabled=False, status="pending")
    assert (approvals.tools("files"), approvals.tools("clock"), approvals.tools("nobody")) == (
        ("write", "read"),
        (),
        (),
    )


def test_json_is_read_like_yaml() -> None:
    """The name of the file decides."""
    approvals = loaded('{"files": {"write": {"disabled": true}}}', "approvals.json")
    assert approvals.record("files", "write") == ApprovalRecord(disabled=True, status="approved")


@pytest.mark.parametrize("record", ["{}", ""], ids=["braces", "nothing"])
def test_what_a_record_leaves_out_has_its_default(record: str) -> None:
    """It was read, so it is not unknown (A.2); a record may omit both."""
    approvals = loaded(f"files:\n  write: {record}\n")
    assert approvals.record("files", "write") == ApprovalRecord(disabled=False, status="approved")


def test_a_tool_that_is_not_in_the_file_has_no_record() -> None:
    """No record is a value of its own, and not a record of defaults."""
    approvals = loaded("files: {write: {}}")
    assert approvals.record("files", "Write") is approvals.record("clock", "write") is None


def test_a_file_without_servers_has_no_records() -> None:
    """Braces say that the file is empty on purpose."""
    approvals = loaded("{}")
    assert approvals.readable
    assert approvals.record("files", "write") is None


def test_no_configured_file_means_no_records() -> None:
    """It is readable and empty (A.7)."""
    assert NO_APPROVALS.readable
    assert NO_APPROVALS.record("files", "write") is None
    assert NO_APPROVALS.tools("files") == ()


@pytest.mark.parametrize(
    ("record", "expected", "line"),
    [
        (
            "disabled: 'true'",
            ApprovalRecord(disabled=None, status="approved"),
            "1:27: `disabled` of tool `write` of server `files` is none of `true`, `false`, and counts as unknown "
            "(write it without quotes)",
        ),
        (
            "disabled: 1",
            ApprovalRecord(disabled=None, status="approved"),
            "1:27: `disabled` of tool `write` of server `files` is none of `true`, `false`, and counts as unknown",
        ),
        (
            "status: Pending",
            ApprovalRecord(disabled=False, status=None),
            "1:25: `status` of tool `write` of server `files` is none of `approved`, `pending`, `changed`, "
            "and counts as unknown (did you mean `pending`?)",
        ),
        (
            "status: , disabled: true",
            ApprovalRecord(disabled=True, status=None),
            "1:17: `status` of tool `write` of server `files` is none of `approved`, `pending`, `changed`, "
            "and counts as unknown",
        ),
        (
            "status: [approved]",
            ApprovalRecord(disabled=False, status=None),
            "1:25: `status` of tool `write` of server `files` is none of `approved`, `pending`, `changed`, "
            "and counts as unknown",
        ),
        (
            "disabeld: true",
            ApprovalRecord(disabled=False, status="approved"),
            "1:17: unknown key `disabeld` in the record of tool `write` of server `files` is passed over "
            "(did you mean `disabled`?)",
        ),
    ],
)
def test_a_value_outside_its_domain_is_unknown_and_nothing_else_is(
    record: str, expected: ApprovalRecord, line: str
) -> None:
    """The fault stays within its field, and a warning says where it is (A.2)."""
    approvals = loaded(f"files: {{write: {{{record}}}, read: {{}}}}")
    assert approvals.readable
    assert approvals.record("files", "write") == expected
    assert approvals.record("files", "read") == ApprovalRecord(disabled=False, status="approved")
    assert list(map(str, approvals.warnings)) == [f"approvals.yaml:{line}"]
    assert approvals.warnings[0].severity is Severity.WARNING


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [" is empty"]),
        ("# nothing\n", [" is empty"]),
        ("[files]", ["1:1: the file does not map servers to tools"]),
        ("files: ", ["1:1: server `files` does not map tools to records (write `{}` where there is none)"]),
        (
            "files:\n  write: approved\n  read: {}\nclock: [now]\n",
            [
                "2:10: the record of tool `write` of server `files` is not a mapping "
                "(write for example `{disabled: true}`)",
                "4:8: server `clock` does not map tools to records (write `{}` where there is none)",
            ],
        ),
        (
            "files:\nwrite:\n  disabled: true\n",
            [
                "1:1: server `files` does not map tools to records (write `{}` where there is none)",
                "3:13: the record of tool `disabled` of server `write` is not a mapping "
                "(write for example `{disabled: true}`)",
            ],
        ),
        ("files: {write: {}, write: {disabled: true}}", ["1:20: key `write` is repeated (first in line 1)"]),
    ],
    ids=["empty", "comments", "list", "server without tools", "record", "indentation", "duplicate"],
)
def test_a_malformed_file_leaves_every_approval_unknown(text: str, lines: list[str]) -> None:
    """One malformed record makes all of them unreliable; all reasons are reported (A.7)."""
    approvals = loaded(text)
    assert not approvals.readable
    assert approvals.record("files", "read") == approvals.record("files", "write") == UNKNOWN
    assert approvals.tools("files") == ()
    assert {finding.severity for finding in approvals.warnings} == {Severity.WARNING}
    places = [str(finding).removeprefix("approvals.yaml:") for finding in approvals.warnings]
    assert places == lines


def test_a_file_that_is_not_there_leaves_every_approval_unknown(tmp_path: Path) -> None:
    """A missing file is not a file without records; neither is a directory."""
    missing, directory = load_approvals(Path("nowhere.yaml")), load_approvals(tmp_path)
    assert missing.record("files", "write") == directory.record("files", "write") == UNKNOWN
    assert str(missing.warnings[0]) == "nowhere.yaml: cannot be read: no such file or directory"


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just("pending")
RECORDS = VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(st.sampled_from(["disabled", "status", "x"]), VALUES)
TOOLS = VALUES | st.dictionaries(st.sampled_from(["write", "read", ""]), RECORDS)
FILES = VALUES | st.dictionaries(st.sampled_from(["files", "clock"]), TOOLS)


def written(directory: str, data: bytes) -> Approvals:
    """Write the bytes of an approvals file and load it."""
    path = Path(directory, "approvals.json")
    path.write_bytes(data)
    return load_approvals(path)


@given(FILES)
def test_no_data_gives_a_value_outside_the_domains(data: object) -> None:
    """Whatever a file contains, each fact is in its domain or unknown, and each fault is reported."""
    with TemporaryDirectory() as directory:
        approvals = written(directory, json.dumps(data).encode())
    for record in (approvals.record(server, tool) for server in ("files", "clock") for tool in ("write", "read", "")):
        assert record is None or record.disabled in {True, False, None}
        assert record is None or record.status in {"approved", "pending", "changed", None}
        assert record is None or None not in {record.disabled, record.status} or approvals.warnings
    assert approvals.readable or approvals.warnings
    assert all(str(finding).isprintable() for finding in approvals.warnings)


@given(st.binary(max_size=40))
def test_no_bytes_are_too_strange_to_be_read(data: bytes) -> None:
    """A broken file is a result and never an exception."""
    with TemporaryDirectory() as directory:
        approvals = written(directory, data)
    assert approvals.readable or approvals.record("files", "write") == UNKNOWN
