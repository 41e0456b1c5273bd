"""Tables in CSV and JSON lines are read as text: what is no fact is written as it is read."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from support.checkout import POLICY
from support.commands import callability

FACTS: Mapping[str, object] = {
    "server.enabled": True,
    "server.quarantined": False,
    "tool.config_denied": False,
    "approval.disabled": False,
    "approval.status": "approved",
    "caller.refuses": False,
}
ODD = (
    *("007", "7", "1e5", "100000", "1.0", "-0", "+1", "0x10", "1_000", "NaN", "inf", "true", "True", "null", "NULL"),
    *("2024-01-01", "2024-01-01 10:00:00", "10:00", " padded ", "a,b", 'q"q', "two\nlines", "ünï", "=1+1", "N/A"),
)
"""Texts that other programs take for something else."""
SPELLED = {True: "true", False: "false", None: ""}


def _run(*arguments: object) -> CompletedProcess[str]:
    return callability("inventory", *map(str, arguments))


def _write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows([SPELLED[v] if v in (True, False, None) else v for v in row.values()] for row in rows)


def _write_json_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("kept", [(), ("--keep", "server.name", "--keep", "tool.name", "--keep", "note")])
def test_names_and_other_texts_are_written_as_they_are_read(tmp_path: Path, ending: str, kept: Sequence[str]) -> None:
    """Two tools never become one, whatever their names look like."""
    rows = [{"server.name": odd, "tool.name": odd, "note": odd, **FACTS} for odd in ODD]
    path, output = tmp_path / f"tools{ending}", tmp_path / "verdicts.csv"
    (_write_csv if ending == ".csv" else _write_json_lines)(path, rows)
    done = _run("decide", path, "--output", output, *kept)
    assert (done.returncode, done.stderr) == (0, f"{len(ODD)} rows in `{output}`: {len(ODD)} callable\n")
    assert [(row["server.name"], row["tool.name"], row["note"]) for row in _read_csv(output)] == [
        (odd, odd, odd) for odd in ODD
    ]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_column_may_be_empty_in_the_first_megabyte(tmp_path: Path, ending: str) -> None:
    """And hold a text or another number later, whether it is a fact or not."""
    empty = {"server.name": "git", "note": None, "number": "1", "proxy": None, **FACTS, "server.quarantined": None}
    rows: list[Mapping[str, object]] = [{**empty, "tool.name": f"tool-{number:08}"} for number in range(20_000)]
    last = {"tool.name": "last", "note": "late", "number": "1.5", "proxy": "eu", "server.quarantined": True}
    path, output = tmp_path / f"tools{ending}", tmp_path / "verdicts.parquet"
    (_write_csv if ending == ".csv" else _write_json_lines)(path, [*rows, {**empty, **last}])
    assert path.stat().st_size > 1 << 20
    done = _run("decide", path, "--output", output)
    assert done.returncode == 0, done.stderr
    found = pa.parquet.read_table(output).to_pylist()
    assert len(found) == 20_001
    assert {name: found[0][name] for name in ("note", "number", "proxy", "status")} == {
        "note": None, "number": "1", "proxy": None, "status": "disabled_unknown"
    }  # fmt: skip
    assert {name: found[-1][name] for name in ("note", "number", "proxy", "status")} == {
        "note": "late", "number": "1.5", "proxy": "eu", "status": "server_quarantined"
    }  # fmt: skip


def test_values_of_json_that_are_no_texts_are_passed_on_as_json(tmp_path: Path) -> None:
    """Numbers as they are spelled; any row may have a column that the others have not."""
    lines = [
        {"server.name": 7, "tool.name": 100000, "tags": ["a", 1.50, None, {"é": True}], **FACTS},
        {"server.name": "7", "tool.name": "1e5", "late": "x", **FACTS},
    ]
    path, output = tmp_path / "tools.jsonl", tmp_path / "verdicts.csv"
    path.write_text("\n".join(json.dumps(line) for line in lines).replace("100000", "1e5").replace("1.5,", "1.50,"))
    assert _run("decide", path, "--output", output).returncode == 0
    assert [[row[name] for name in ("server.name", "tool.name", "tags", "late")] for row in _read_csv(output)] == [
        ["7", "1e5", '["a", 1.50, null, {"é": true}]', ""],
        ["7", "1e5", "", "x"],
    ]


def test_facts_in_text_are_converted(tmp_path: Path) -> None:
    """In three spellings; an empty field and two words are null, unless a label has such a value or they are quoted."""
    rows = [{"server.name": "git", "tool.name": str(number), **FACTS} for number in range(5)]
    path, output = tmp_path / "tools.csv", tmp_path / "verdicts.csv"
    spelled = ("TRUE", "True", "", "NULL", "null")
    _write_csv(path, [{**row, "server.enabled": each} for row, each in zip(rows, spelled, strict=True)])
    assert _run("decide", path, "--output", output, "--keep", "server.enabled").returncode == 0
    assert [(row["server.enabled"], row["status"]) for row in _read_csv(output)] == [
        *[("true", "callable")] * 2,
        *[("", "disabled_unknown")] * 3,
    ]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_a_column_that_is_not_needed_is_not_read(tmp_path: Path, ending: str) -> None:
    """Here it holds what is no text; with it, the table is refused, and the error names the column."""
    path = tmp_path / f"tools{ending}"
    row = {"server.name": "git", "tool.name": "log", **FACTS, "blob": "BLOB"}
    match ending:
        case ".csv":
            _write_csv(path, [row])
            path.write_bytes(path.read_bytes().replace(b"BLOB", b"\xff"))
        case ".jsonl":
            _write_json_lines(path, [row])
            path.write_bytes(path.read_bytes().replace(b"BLOB", rb"\ud83d"))
        case _:
            pa.parquet.write_table(pa.Table.from_pylist([row]), path, use_dictionary=False, compression="none")
            path.write_bytes(path.read_bytes().replace(b"BLOB", b"\xff\xff\xff\xff"))
    assert _run("counts", path).returncode == 0
    refused = _run("decide", path, "--output", tmp_path / "out.csv")
    assert refused.returncode == 1
    assert "column `blob`: found " in refused.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1]", "row 1: wanted a JSON object: found "),
        ("{}\n\n7", "row 2: wanted a JSON object: found `7`"),
        ("null", "row 1: wanted a JSON object: found `null`"),
        ('["a", true]', 'row 1: wanted a JSON object: found `["a", true]`'),
        ('{"a": 1, "a": 2}', "row 1: wanted a JSON object: it has two members `a`"),
        ('{"a": NaN}', "row 1: wanted a JSON object: found `NaN`, which is no JSON"),
        (f'{{"a": {"[" * 100_000}', "row 1: its values are nested too deeply"),
        (f'{{"a": "{"a" * (1 << 20)}"}}', "row 1: wanted a JSON object: found `more than 1,048,576 bytes`"),
        ('{"server.enabled": 1}', "row 1, column `server.enabled`: found `1`, wanted true or false; correct the row"),
        ('{}\n{"approval.status": "\\ud800"}', "row 2, column `approval.status`: found half of a surrogate pair"),
    ],
)
def test_a_line_that_is_no_row_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    """By its number, without blank lines."""
    path = tmp_path / "tools.jsonl"
    path.write_text(text)
    done = _run("counts", path, "--allow-missing")
    assert done.returncode == 1
    assert done.stderr.startswith(f"callability: {path}: cannot be read as json lines: {sentence}")


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".arrow"])
def test_a_table_without_rows_has_one_outcome(tmp_path: Path, ending: str) -> None:
    """Its verdicts are a table without rows, which can be decided again; alone, or beside another."""
    path, output = tmp_path / f"none{ending}", tmp_path / "verdicts.csv"
    row = {"server.name": "git", "tool.name": "log", **FACTS}
    empty = pa.Table.from_pylist([row]).slice(0, 0)
    match ending:
        case ".csv":
            path.write_text(f"{','.join(row)}\n")
        case ".jsonl":
            path.write_text("")
        case ".parquet":
            pa.parquet.write_table(empty, path)
        case _:
            pa.feather.write_feather(empty, path)
    decided = _run("decide", path, "--output", output, "--keep", "tool.name")
    assert (decided.returncode, decided.stderr) == (0, f"0 rows in `{output}`\n")
    assert output.read_text().startswith('"tool.name","status","rule",')
    assert len(output.read_text().splitlines()) == 1
    counted = _run("counts", path)
    assert (counted.returncode, counted.stdout, counted.stderr) == (0, "0 rows\n", "")
    compared = _run("diff", path, "--against", POLICY, "--output", output)
    assert (compared.returncode, compared.stdout) == (0, "no status changes in 0 rows\n")
    assert output.read_text().startswith('"server.name","tool.name","status.before"')
    _write_json_lines(tmp_path / "one.jsonl", [{**row, "note": "kept"}])
    both = _run("decide", path, tmp_path / "one.jsonl", "--output", output)
    assert (both.returncode, both.stderr) == (0, f"1 row in `{output}`: 1 callable\n")
    assert [row["status"] for row in _read_csv(output)] == ["callable"]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".arrow"])
def test_rows_are_counted_if_the_policy_reads_no_column_of_a_table(tmp_path: Path, ending: str) -> None:
    """As in CSV whose columns another sign than a comma separates: each row is unknown, and none is lost."""
    path, rows = tmp_path / f"tools{ending}", [{"server.name;tool.name": f"git;{number}"} for number in range(3)]
    match ending:
        case ".csv":
            _write_csv(path, rows)
        case ".jsonl":
            _write_json_lines(path, rows)
        case ".parquet":
            pa.parquet.write_table(pa.Table.from_pylist(rows), path)
        case _:
            pa.feather.write_feather(pa.Table.from_pylist(rows), path)
    done = _run("counts", path, "--allow-missing")
    assert done.returncode == 0
    assert done.stdout.startswith("3 rows\n             3  disabled_unknown, by rule `server-off`")


_HEAD = f"server.name,tool.name,{','.join(FACTS)},note\n"
_ROW = "git,{},true,false,false,false,approved,false,{}\n"


def _rows(*notes: str) -> str:
    return _HEAD + "".join(_ROW.format(f"tool-{number}", note) for number, note in enumerate(notes))


@pytest.mark.parametrize(("mark", "end"), [("", "\n"), ("\ufeff", "\r")])
@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        (_rows("x", '"open', "y"), 3, '"open'),
        (_rows("x", "y", '"open')[:-1], 4, '"open'),
        (_rows("x", '"open', '"quoted"', "y"), 3, '"open'),
        (_rows('"two\nlines"', '"one', "y", '"two', "z"), 4, '"one'),
        (_rows('""', '"""', "y"), 3, '"""'),
        (f'"{_rows("x")}', 1, '"server.name'),
        (_rows("x", '"open ""', "y"), 3, '"open ""'),
    ],
)
def test_a_quote_that_is_not_closed_is_an_error_in_its_line(
    tmp_path: Path, text: str, line: int, field: str, mark: str, end: str
) -> None:
    """Without it, the rows after it would be part of one field, and not decided."""
    path, output = tmp_path / "tools.csv", tmp_path / "out.csv"
    path.write_text(mark + text.replace("\n", end), newline="")
    done = _run("decide", path, "--output", output)
    assert done.returncode == 1
    found = f"found `{field}`, wanted another quote at the end of this field"
    assert done.stderr.startswith(f"callability: {path}: cannot be read as csv: line {line}: {found}")
    assert not output.exists()


def test_quotes_that_pair_are_read_wherever_they_are(tmp_path: Path) -> None:
    """Beside a quote in a field that does not begin with one, and text behind a quoted field of one line."""
    notes = ('5" disk', '"two\nlines, ""quoted"""', '"a"b', 'a"b"c"', '"\n"', '""""', ' "x', "")
    texts = ['5" disk', 'two\nlines, "quoted"', "ab", 'a"b"c"', "\n", '"', ' "x', ""]
    path, output = tmp_path / "tools.csv", tmp_path / "out.csv"
    for end in ("\n", "\r\n"):
        path.write_text(_rows(*notes).replace("\n", end), newline="")
        done = _run("decide", path, "--output", output, "--keep", "note")
        assert (done.returncode, done.stderr) == (0, f"{len(notes)} rows in `{output}`: {len(notes)} callable\n")
        assert [row["note"].replace("\r\n", "\n") for row in _read_csv(output)] == texts


@pytest.mark.parametrize(
    "note", ["x" * 500_000, '"' + "a\n" * 250_000 + '"', '"' + '""' * 250_000 + '"', '"q"' + "x" * 9]
)
def test_quotes_are_looked_at_in_rows_of_any_length(tmp_path: Path, note: str) -> None:
    """A file is read in blocks, and a field may be in two of them."""
    path = tmp_path / "tools.csv"
    path.write_text(_rows(*[note] * 9))
    counted = _run("counts", path)
    assert (counted.returncode, counted.stdout.splitlines()[0]) == (0, "9 rows"), counted.stderr
    path.write_text(_rows(*[note] * 9, '"open', "x"))
    refused = _run("counts", path)
    assert refused.returncode == 1
    assert f'line {11 + 9 * note.count(chr(10)):,}: found `"open`' in refused.stderr


def test_a_column_that_is_there_twice_is_passed_on_by_no_name(tmp_path: Path) -> None:
    """It can be left out by choosing others."""
    path, output = tmp_path / "tools.csv", tmp_path / "out.csv"
    path.write_text(_HEAD.replace("note", "note,note") + _ROW.format("log", "x,y"))
    done = _run("decide", path, "--output", output)
    found = "the table has 2 columns `note`: rename one, or choose columns with `--keep`"
    assert (done.returncode, done.stderr) == (1, f"callability: {path}: {found}\n")
    assert _run("decide", path, "--output", output, "--keep", "tool.name").returncode == 0


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.csv", gzip.compress(b"server.name\n", mtime=0), "found a compressed file, wanted text: unpack it first"),
        ("a.csv", b"a,b\n1\n", "row 1: found 1 field, wanted 2, as many as the header has"),
        (
            "a.csv",
            b"server.name\n" + b"x" * 4_000_000,
            "found a row of more than 1,048,576 bytes, wanted a shorter one",
        ),
        (
            "a.csv",
            b"server.name;tool.name\ngit;log\n",
            "has one column, `server.name;tool.name`: separate its columns by",
        ),
        (
            "a.csv.gz",
            b"",
            "the name must end in .parquet, .pq, .arrow, .feather, .csv, .jsonl, .ndjson (unpack it first)",
        ),
    ],
)
def test_what_a_table_in_text_must_not_be_is_named(tmp_path: Path, name: str, data: bytes, sentence: str) -> None:
    """With what to do about it."""
    path = tmp_path / name
    path.write_bytes(data)
    done = _run("counts", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
