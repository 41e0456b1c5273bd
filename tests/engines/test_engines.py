"""Engines for many machines decide as `callability inventory decide` does: `make fleet` runs this, and nothing else.

`FLEET_ROWS` is the number of rows of the table, and `FLEET_NAMES` the number of distinct names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / ".venv/bin/callability"
PYTHON = ROOT / ".venv/bin/python"
ROWS = int(os.environ.get("FLEET_ROWS", "200000"))
FLAGS = ("undetermined", "withhold_text")
NAMES = int(os.environ.get("FLEET_NAMES", "10000000"))
VERDICT = ("status", "rule", "undetermined", "unread", "withhold_text", "lifted_by", "retry")
SHAPES = ("shipped", "agents-and-labels")
_TABLE = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
from bench.columns import drawn_table
from callability.tables import ColumnPolicy, decoded, decoded_schema
policy = ColumnPolicy.of_bundle(Path(sys.argv[1]).read_bytes())
with pq.ParquetWriter(sys.argv[2], decoded_schema(drawn_table(policy, 1).schema)) as writer:
    for seed, start in enumerate(range(0, int(sys.argv[3]), 1 << 20)):
        for batch in drawn_table(policy, min(1 << 20, int(sys.argv[3]) - start), seed).to_batches():
            writer.write_batch(decoded(batch))
"""


_POSTGRES = """
import sys
from pathlib import Path
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from support.postgres import postgres, programs
if programs() is None:
    sys.exit("PostgreSQL, or a user to run it as, is missing")
place, rows, query = Path(sys.argv[1]), int(sys.argv[2]), sys.stdin.read()
table = pq.read_table(place / "tools.parquet").slice(0, rows)
columns = [f'"{each.name}" {"boolean" if pa.types.is_boolean(each.type) else "text"}' for each in table.schema]
pa.csv.write_csv(table, place / "tools.csv", pa.csv.WriteOptions(quoting_style="all_valid"))
with postgres() as server:
    server.run(f'''CREATE TABLE inventory ({", ".join(columns)});
\\\\copy inventory FROM '{place / "tools.csv"}' WITH (FORMAT csv, HEADER true)
SET jit = off;
CREATE TABLE verdicts AS {query};
\\\\copy verdicts TO '{place / "postgres.csv"}' WITH (FORMAT csv, HEADER true, FORCE_QUOTE *)
''')
"""


_NAMES = """
import sys
from pathlib import Path
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from callability.tables import ColumnPolicy, Columns, decide
policy, count = ColumnPolicy.of_bundle(Path(sys.argv[1]).read_bytes()), int(sys.argv[2])
names = pc.binary_join_element_wise("tool", pa.array(range(count)).cast(pa.string()), "-")
order = np.random.default_rng(1).permutation(count).astype(np.int32)
facts = {"server.enabled": True, "server.quarantined": False, "tool.config_denied": False, "approval.disabled": False,
         "approval.status": "approved", "caller.refuses": False}
others = [pa.repeat(pa.scalar(value), count) for value in facts.values()]
arrays = [pa.DictionaryArray.from_arrays(order, names), *others]
(decided,) = decide([pa.record_batch(arrays, names=["tool.name", *facts])], policy, Columns(kept=()))
locked = pc.equal(decided.column("rule").cast(pa.string()), "locked").to_numpy(zero_copy_only=False)
assert (locked == (order % 10 == 7)).all(), "a name is decided by the rule of another"
print(f"{count} names are decided")
"""


@pytest.fixture(scope="module", params=SHAPES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a policy, its bundle, a table of tools, and its verdicts by `inventory decide`."""
    directory = tmp_path_factory.mktemp(request.param)
    _run(PYTHON, "-m", "bench.large_policies", request.param, directory / "policy")
    _run(COMMAND, "bundle", "build", directory / "policy", "--output", directory / "policy.bundle")
    _run(PYTHON, "-c", _TABLE, directory / "policy.bundle", directory / "tools.parquet", ROWS)
    _run(COMMAND, "inventory", "decide", directory / "tools.parquet", "--policy", directory / "policy.bundle",
         "--output", directory / "wanted.parquet")  # fmt: skip
    return directory


def _run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def _rows(path: Path) -> pa.Table:
    """Return the verdicts in a file or directory, in an order of their own: engines keep none."""
    return _sorted(pa.dataset.dataset(path).to_table())


def _sorted(table: pa.Table) -> pa.Table:
    plain = pa.table([column.cast(_plain(column.type)) for column in table.columns], names=table.schema.names)
    names = sorted(plain.schema.names)
    return plain.select(names).sort_by([(name, "ascending") for name in names]).combine_chunks()


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def test_spark_decides_the_same(place: Path) -> None:
    """By the example, on two local workers."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "server"), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, ROOT / "examples/spark_inventory.py", place / "policy.bundle", place / "tools.parquet"]
    options = {"PYSPARK_SUBMIT_ARGS": "--master local[2] --driver-memory 4g pyspark-shell"}
    done = subprocess.run(
        [*map(str, command), str(place / "spark")], env={**environment, **options}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert _rows(place / "spark").equals(_rows(place / "wanted.parquet"))


def test_ray_decides_the_same(place: Path) -> None:
    """By the example, in one local worker."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "server"), "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, ROOT / "examples/ray_inventory.py", place / "policy.bundle", place / "tools.parquet"]
    done = subprocess.run([*map(str, command), str(place / "ray")], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert _rows(place / "ray").equals(_rows(place / "wanted.parquet"))


def test_duckdb_decides_the_same_over_partitions(place: Path) -> None:
    """By the printed SQL, over a data set in parts."""
    with duckdb.connect() as connection:
        parts = place / "parts"
        connection.execute(
            f"COPY (SELECT *, hash(\"tool.name\") % 4 AS part FROM '{place / 'tools.parquet'}')"
            f" TO '{parts}' (FORMAT parquet, PARTITION_BY (part))"
        )
        query = _sql(place, "duckdb", f"read_parquet('{parts}/*/*.parquet')")
        connection.execute(f"COPY ({query}) TO '{place / 'duckdb.parquet'}' (FORMAT parquet)")
    assert _rows(place / "duckdb.parquet").equals(_verdicts(place))


def test_ten_million_distinct_names_are_decided(tmp_path: Path) -> None:
    """One dictionary has them all, and a rule reads them."""
    _run(PYTHON, "-m", "bench.large_policies", "shipped", tmp_path / "policy")
    path = tmp_path / "policy/callability.yaml"
    rule = '  - {id: locked, when: {tool.name: "*7"}, status: disabled_by_config, action: "{edit_policy}."}\n'
    path.write_text(path.read_text().replace("  - {id: open,", f"{rule}  - {{id: open,", 1))
    _run(COMMAND, "bundle", "build", tmp_path / "policy", "--output", tmp_path / "policy.bundle")
    assert _run(PYTHON, "-c", _NAMES, tmp_path / "policy.bundle", NAMES) == f"{NAMES} names are decided\n"


def test_postgresql_decides_the_same(place: Path) -> None:
    """By the printed SQL, over 200,000 rows of the shipped policy; over 2,000 of the other, which takes longer."""
    rows = 2_000 if place.name.startswith("agents-and-labels") else 200_000
    query = _sql(place, "postgres", "inventory")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'server'}{os.pathsep}{ROOT / 'tests'}"}
    command: list[str | Path] = [PYTHON, "-c", _POSTGRES, place, str(rows)]
    done = subprocess.run(command, input=query, env=environment, capture_output=True, text=True, check=False)
    if "is missing" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr[-4000:]
    types = {name: pa.bool_() if name in FLAGS else pa.string() for name in ("server.name", "tool.name", *VERDICT)}
    options = pa.csv.ConvertOptions(column_types=types, true_values=["t"], false_values=["f"])
    found = pa.csv.read_csv(place / "postgres.csv", convert_options=options)
    wanted = pa.dataset.dataset(place / "wanted.parquet").head(rows).select(found.schema.names)
    assert _sorted(found).equals(_sorted(wanted))


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    """Spark in this process."""
    session = SparkSession.builder.master("local[2]").getOrCreate()
    yield session
    session.stop()


def test_spark_decides_the_same_by_the_printed_sql(place: Path, spark: SparkSession) -> None:
    """NULL has Kleene's logic there too."""
    spark.read.parquet(str(place / "tools.parquet")).createOrReplaceTempView("inventory")
    spark.sql(_sql(place, "spark", "inventory")).write.parquet(str(place / "spark-sql"))
    assert _rows(place / "spark-sql").equals(_verdicts(place))


def _sql(place: Path, dialect: str, table: str) -> str:
    return _run(COMMAND, "table", place / "policy", "--format", "sql", "--dialect", dialect, "--from", table)


def _verdicts(place: Path) -> pa.Table:
    names = sorted(("server.name", "tool.name", *VERDICT))
    wanted = _rows(place / "wanted.parquet").select(names)
    return wanted.sort_by([(name, "ascending") for name in names]).combine_chunks()
