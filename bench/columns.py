"""Tables of tools: a compiled policy over columns, beside DuckDB with the printed SQL, and an if-chain in Polars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from bench.large_policies import write_large
from bench.report import Aim, Aimed, Row
from bench.rounds import Figures, Rounds
from callability.bundle.v1 import bundle_pb2 as pb
from callability.compiler.bundle_writing import payload_of
from callability.compiler.policy import Policy, load
from callability.compiler.sql import Query, SqlDialect, as_sql
from callability.files.shipped_policy import shipped_policy
from callability.tables import ColumnPolicy, Columns, decide
from callability.tables.files import TableFile, table_writer
from callability.tables.formats import TableFormat

PART = "columns"

_ROWS = 1 << 20
_BATCH = 1 << 16
_NULLS = 0.03
_KEPT = ("server.name", "tool.name")
_AIMS = {"shipped": (20e6, 1.5), "agents-and-labels": (10e6, 5.0)}
"""Decisions a second, and how many times as fast as DuckDB."""


def rows(rounds: Rounds) -> list[Row]:
    """Measure decisions a second on one core, from columns with nulls and from file to file."""
    count = rounds.repetitions(_ROWS)
    pa.set_cpu_count(1)
    found = []
    for name in _AIMS:
        found += _of_policy(name, _policy(name), count, rounds)
    return found


@dataclass(frozen=True, slots=True)
class _Subject:
    policy: Policy
    columns: ColumnPolicy
    table: pa.Table


def _of_policy(name: str, policy: Policy, count: int, rounds: Rounds) -> list[Row]:
    columns = ColumnPolicy(pb.Payload.FromString(payload_of(policy)), "")
    subject = _Subject(policy, columns, drawn_table(columns, count))
    measures: dict[str, Callable[[], int]] = {"columns": partial(_decide, subject)}
    with TemporaryDirectory() as directory, duckdb.connect() as connection:
        connection.execute("SET threads TO 1")
        connection.register("inventory", subject.table)
        measures["duckdb"] = partial(_duckdb, connection, subject)
        if name == "shipped":
            measures["polars"] = partial(_polars, pl.from_arrow(subject.table))
        files = Path(directory) / "tools.parquet", Path(directory) / "verdicts.parquet"
        pq.write_table(subject.table, files[0])
        measures["file"] = partial(_from_file, subject, *files)
        verdicts = pa.Table.from_batches(decide(subject.table.to_batches(_BATCH), columns))
        measures["copy"] = partial(_copy, verdicts, *files)
        measured = rounds.interleaved(f"{PART}, {name}", {each: partial(_timed, it) for each, it in measures.items()})
    rate, times = _AIMS[name]
    ours, copy = measured["columns"]["ns"], measured["copy"]["ns"]
    found = [
        Row(PART, f"{name}: callability.tables", "M rows/s", tuple(1e3 / ns for ns in ours), None, _value(rate / 1e6)),
        Row(PART, f"{name}: callability.tables", "ns/row", ours),
        Row(PART, f"{name}: DuckDB, the printed SQL", "ns/row", measured["duckdb"]["ns"], ours, _at_least(times)),
        Row(PART, f"{name}: Parquet to Parquet by pyarrow, the same columns", "ns/row", copy),
        Row(PART, f"{name}: Parquet to Parquet, deciding", "ns/row", measured["file"]["ns"], copy, Aim(1.25)),
    ]
    if "polars" in measured:
        chain = measured["polars"]["ns"]
        found.insert(3, Row(PART, f"{name}: an if-chain in Polars (status and rule)", "ns/row", chain, ours))
    return found


def _value(limit: float) -> Aim:
    return Aim(limit, Aimed.VALUE, at_least=True)


def _at_least(times: float) -> Aim:
    return Aim(times, at_least=True)


def _policy(name: str) -> Policy:
    if name == "shipped":
        return load(shipped_policy(), engine=None)
    with TemporaryDirectory() as directory:
        return load(write_large(name, Path(directory)), engine=None)


def drawn_table(policy: ColumnPolicy, count: int, seed: int = 1) -> pa.Table:
    """Return a table of tools in which each column of facts has nulls and all of its values."""
    chance = np.random.default_rng(seed)
    arrays: dict[str, pa.Array] = {}
    for field in pa.unify_schemas([policy.facts.remove_metadata(), _names()]):
        nulls = chance.random(count) < _NULLS if field.name not in _KEPT else None
        if pa.types.is_boolean(field.type):
            arrays[field.name] = pa.array(chance.random(count) < 0.2, mask=nulls)
        else:
            values = _values(policy, field.name)
            places = pa.array(chance.integers(0, len(values), count).astype(np.int32), mask=nulls)
            arrays[field.name] = pa.DictionaryArray.from_arrays(places, pa.array(values))
    return pa.table(arrays)


def _names() -> pa.Schema:
    return pa.schema([pa.field(name, pa.dictionary(pa.int32(), pa.string())) for name in _KEPT])


def _values(policy: ColumnPolicy, fact: str) -> list[str]:
    listed = (
        dict(policy.facts.field(fact).metadata or {}).get(b"values", b"").decode() if fact in policy.facts.names else ""
    )
    return listed.split(", ") if listed else [f"{fact.partition('.')[0]}-{number}" for number in range(1_000)]


def _timed(measure: Callable[[], int]) -> Figures:
    started = perf_counter()
    count = measure()
    return {"ns": (perf_counter() - started) * 1e9 / count}


def _decide(subject: _Subject) -> int:
    batches = subject.table.to_batches(_BATCH)
    return sum(batch.num_rows for batch in decide(batches, subject.columns, Columns(kept=())))


def _duckdb(connection: duckdb.DuckDBPyConnection, subject: _Subject) -> int:
    proved = subject.policy.rule_sets["callability"]
    query = as_sql(proved.rule_set, proved.diagram, subject.policy.revision, Query(SqlDialect.DUCKDB, kept=()))
    return sum(batch.num_rows for batch in connection.sql(query).to_arrow_reader(_BATCH))


def _polars(frame: pl.DataFrame | pl.Series) -> int:
    """Decide status and rule by the shipped rules, as one would write them in Polars."""
    assert isinstance(frame, pl.DataFrame)
    status = pl.col("approval.status").cast(pl.String)
    rules = (
        (~pl.col("server.enabled"), "server_disabled", "server-off"),
        (pl.col("tool.config_denied"), "disabled_by_config", "operator-denied"),
        (pl.col("server.quarantined"), "server_quarantined", "under-quarantine"),
        (pl.col("approval.disabled"), "disabled_by_user", "user-off"),
        (status == "pending", "pending_approval", "awaiting-review"),
        (status == "changed", "pending_approval", "changed-since-approval"),
        (pl.col("caller.refuses").fill_null(value=False), "disabled_unknown", "refused-elsewhere"),
    )
    chains = []
    chain: Any
    for name, place, undetermined in (("status", 1, "disabled_unknown"), ("rule", 2, None)):
        chain = pl.when(rules[0][0].is_null()).then(pl.lit(undetermined or rules[0][2]))
        for rule in rules:
            chain = chain.when(rule[0]).then(pl.lit(rule[place]))
            chain = chain.when(rule[0].is_null()).then(pl.lit(undetermined or rule[2]))
        chains.append(chain.otherwise(pl.lit(("callable", "open")[place - 1])).alias(name))
    return int(frame.lazy().select(chains).collect().height)


def _from_file(subject: _Subject, source: Path, target: Path) -> int:
    file = TableFile(source, TableFormat.PARQUET)
    schema = file.schema(subject.columns.facts)
    reading = subject.columns.reading(schema)
    count = 0
    with table_writer(target, reading.schema) as writer:
        for batch in file.batches(subject.columns.facts, schema):
            writer.write_batch(reading.decide(batch))
            count += batch.num_rows
    return count


def _copy(verdicts: pa.Table, source: Path, target: Path) -> int:
    """Read the table and write what is decided of it, without deciding."""
    file = TableFile(source, TableFormat.PARQUET)
    count = sum(int(batch.num_rows) for batch in file.batches(pa.schema([]), file.schema(pa.schema([]))))
    with table_writer(target, verdicts.schema) as writer:
        for batch in verdicts.to_batches(_BATCH):
            writer.write_batch(batch)
    return count
