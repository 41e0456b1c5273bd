"""Tables in Arrow files: damaged ones are refused, and every form of texts and booleans is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest

from support.checkout import POLICY
from support.commands import callability
from support.running import callability_process

ROWS = 40


def _table() -> pa.Table:
    names = pa.array([f"tool-{number}" for number in range(ROWS)])
    flags = pa.array([number % 3 == 0 if number % 5 else None for number in range(ROWS)])
    statuses = pa.array(["approved", "pending", None, "none"] * (ROWS // 4))
    return pa.table(
        {
            "server.name": pa.array(["git", "web"] * (ROWS // 2)),
            "tool.name": names,
            "server.enabled": flags,
            "server.quarantined": pa.array([False] * ROWS),
            "tool.config_denied": pa.array([False] * ROWS),
            "approval.disabled": pa.array([False] * ROWS),
            "approval.status": statuses,
            "caller.refuses": pa.array([False] * ROWS),
            "note": names,
        }
    )


def _run(*arguments: object) -> CompletedProcess[str]:
    return callability("inventory", *map(str, arguments))


def _views(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.cast(pa.string_view()) if pa.types.is_string(whole.type) else whole


def _runs(column: pa.ChunkedArray) -> pa.Array:
    return pc.run_end_encode(column.combine_chunks())


def _runs_of_views(column: pa.ChunkedArray) -> pa.Array:
    runs = _runs(column)
    return pa.RunEndEncodedArray.from_arrays(runs.run_ends, _views(pa.chunked_array([runs.values])))


def _dictionary(column: pa.ChunkedArray) -> pa.Array:
    """Encode booleans too, which Arrow does not do by itself."""
    values = column.combine_chunks()
    distinct = pc.unique(values).drop_null()
    return pa.DictionaryArray.from_arrays(pc.index_in(values, value_set=distinct), distinct)


def _dictionary_of_views(column: pa.ChunkedArray) -> pa.Array:
    encoded = _dictionary(column)
    return pa.DictionaryArray.from_arrays(encoded.indices, _views(pa.chunked_array([encoded.dictionary])))


FORMS: Mapping[str, Callable[[pa.ChunkedArray], pa.Array]] = {
    each.__name__.strip("_"): each for each in (_views, _runs, _runs_of_views, _dictionary, _dictionary_of_views)
}


def _written(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The verdicts of the table in its usual form, with all its columns."""
    place = tmp_path_factory.mktemp("plain")
    return _decided(_written(place / "plain.arrow", _table()), place / "verdicts.parquet")


def _decided(path: Path, output: Path) -> list[dict[str, object]]:
    done = _run("decide", path, "--output", output)
    assert done.returncode == 0, done.stderr
    form = "feather" if output.suffix == ".arrow" else output.suffix.removeprefix(".")
    found: list[dict[str, object]] = pa.dataset.dataset(output, format=form).to_table().to_pylist()
    return found


@pytest.mark.parametrize("form", FORMS)
def test_texts_and_booleans_are_read_in_every_form(
    tmp_path: Path, form: str, verdicts: Sequence[Mapping[str, object]]
) -> None:
    """As in the usual one."""
    table = _table()
    path = _written(tmp_path / "tools.arrow", pa.table({n: FORMS[form](table.column(n)) for n in table.column_names}))
    assert _decided(path, tmp_path / "verdicts.parquet") == verdicts
    assert {row["status"] for row in verdicts} == {
        "callable", "pending_approval", "disabled_unknown", "server_disabled"
    }  # fmt: skip


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
def test_columns_of_every_form_are_passed_on(
    tmp_path: Path, ending: str, verdicts: Sequence[Mapping[str, object]]
) -> None:
    """In a form that the format of the output has; and names of every form are compared."""
    table = _table()
    forms = dict(zip(table.column_names, cycle(FORMS.values()), strict=False))
    path = _written(tmp_path / "tools.arrow", pa.table({n: forms[n](table.column(n)) for n in table.column_names}))
    names = ("tool.name", "server.enabled", "note", "status", "rule")
    found = _decided(path, tmp_path / f"verdicts{ending}")
    assert [[row[name] for name in names] for row in found] == [[row[name] for name in names] for row in verdicts]
    assert _run("diff", path, "--against", POLICY).stdout == f"no status changes in {ROWS} rows\n"


@pytest.mark.parametrize("form", ["views", "dictionary"])
def test_parquet_is_read_in_every_form_that_it_has(tmp_path: Path, form: str) -> None:
    """As Arrow files are; it has no runs, and dictionaries only of texts."""
    table = _table()
    texts = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
    other = table
    for name in texts:
        other = other.set_column(other.schema.get_field_index(name), name, FORMS[form](table.column(name)))
    counts = [_run("counts", _written(tmp_path / f"{n}.parquet", each)) for n, each in enumerate((table, other))]
    assert counts[0].stdout == counts[1].stdout
    assert "callable" in counts[0].stdout


def test_a_file_that_ends_the_process_that_checks_it_is_refused(tmp_path: Path) -> None:
    """Here every such process ends by a signal, since no file is known that does it in this version of Arrow."""
    path = _written(tmp_path / "tools.arrow", _table())
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'callability.tables.formats' in sys.orig_argv:\n    os.kill(os.getpid(), 11)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = callability_process("inventory", "counts", str(path), env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"callability: {path}: cannot be read as arrow: the file is damaged or not complete: the process that checked "
        "it failed: it was ended by SIGSEGV; write it again\n",
    )


def test_a_file_that_needs_too_much_memory_is_refused(tmp_path: Path) -> None:
    """A compressed buffer says how large it will be: here a terabyte."""
    path, numbers = tmp_path / "tools.arrow", pa.array([0] * 1_000)
    pa.feather.write_feather(pa.table({"note": numbers}), path, compression="lz4")
    size = numbers.nbytes.to_bytes(8, "little")
    assert size in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(size, (1 << 40).to_bytes(8, "little")))
    done = _run("counts", path, "--allow-missing")
    assert (done.returncode, done.stderr) == (
        1,
        f"callability: {path}: cannot be read as arrow: a record batch needs more than 4 GiB of memory: "
        "write it in smaller ones\n",
    )


def test_a_damaged_file_is_named_among_others(tmp_path: Path) -> None:
    """With its column, and what to do; nothing is decided."""
    good = _written(tmp_path / "a.arrow", _table())
    bad = _written(tmp_path / "b.arrow", _table())
    data = bad.read_bytes()
    place = data.index(b"tool-0tool-1")
    bad.write_bytes(data[:place] + b"\xff" + data[place + 1 :])
    for names in ((good, bad), (tmp_path,), (bad, good)):
        done = _run("counts", *names)
        assert (done.returncode, done.stdout, done.stderr) == (
            1,
            "",
            f"callability: {bad}: cannot be read as arrow: column `tool.name`: found bytes that are not UTF-8, "
            "wanted text in UTF-8\n",
        )


def test_offsets_that_lead_out_of_a_column_are_refused(tmp_path: Path) -> None:
    """They would be followed."""
    path = _written(tmp_path / "a.arrow", _table())
    data = path.read_bytes()
    offsets = pa.array([f"tool-{number}" for number in range(ROWS)]).buffers()[1].to_pybytes()
    assert offsets in data
    path.write_bytes(data.replace(offsets, offsets[:40] + b"\xff\xff\xff\x7f" + offsets[44:], 1))
    done = _run("counts", path)
    assert done.returncode == 1
    assert f"{path}: cannot be read as arrow: column `tool.name`: its data is damaged (" in done.stderr
    assert done.stderr.endswith("; write the table again\n")
