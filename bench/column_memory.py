"""The memory of `callability inventory decide` from Parquet to Parquet: as much for ten times as many rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

from bench.columns import drawn_table
from bench.launched import launched
from bench.report import Aim, Row
from bench.rounds import Figures, Rounds
from callability.bundle.v1 import bundle_pb2 as pb
from callability.compiler.bundle_writing import payload_of
from callability.compiler.policy import load
from callability.files.shipped_policy import shipped_policy
from callability.tables import ColumnPolicy

PART = "column memory"

_ROWS = 2_000_000
_TIMES = 10
_ROUNDS = 3
"""A round takes about half a minute."""
_PART_ROWS = 1 << 20


def rows(rounds: Rounds) -> list[Row]:
    """Measure the peak memory of the command for two tables."""
    policy = ColumnPolicy(pb.Payload.FromString(payload_of(load(shipped_policy(), engine=None))), "")
    few = rounds.repetitions(_ROWS)
    with TemporaryDirectory() as directory:
        tables = {count: Path(directory, f"{count}.parquet") for count in (few, few * _TIMES)}
        for count, path in tables.items():
            _write(policy, count, path)
        subjects = {str(count): partial(_decide, path) for count, path in tables.items()}
        measured = replace(rounds, count=min(rounds.count, _ROUNDS)).interleaved(PART, subjects)
    first, second = (measured[str(count)]["MiB"] for count in tables)
    return [
        Row(PART, f"{few:,} rows, peak memory of `inventory decide`", "MiB", first),
        Row(PART, f"{few * _TIMES:,} rows, peak memory of `inventory decide`", "MiB", second, first, Aim(1.1)),
    ]


def _write(policy: ColumnPolicy, count: int, path: Path) -> None:
    with pq.ParquetWriter(path, drawn_table(policy, 1).schema) as writer:
        for seed, part in enumerate(_parts(count)):
            writer.write_table(drawn_table(policy, part, seed))


def _parts(count: int) -> Iterator[int]:
    for start in range(0, count, _PART_ROWS):
        yield min(_PART_ROWS, count - start)


def _decide(path: Path) -> Figures:
    output = path.with_name(f"verdicts-{path.name}")
    done = launched("callability", ["inventory", "decide", str(path), "--output", str(output)])
    output.unlink()
    if done.code:
        raise RuntimeError(f"`inventory decide` left with exit code {done.code}")
    return {"s": done.seconds, "MiB": done.mebibytes}
