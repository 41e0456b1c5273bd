"""`callability inventory decide`: the verdict of each row of tables of tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from callability.columns import UnfitColumn
from callability.columns.tables import TableRefused, table_writer
from callability.command_line.inventory_tables import (
    AgentsOption,
    BundleOrPolicyOption,
    FilesArgument,
    MissingOption,
    agents_of,
    opened,
    policy_at,
    refused,
    rows_bar,
    with_agent,
)
from callability.command_line.terminal import number_of
from callability.output_file import OutputRefused


def decide(
    files: FilesArgument,
    output: Annotated[
        Path,
        typer.Option("--output", metavar="FILE", help="Where to write the verdicts: .parquet, .arrow or .csv."),
    ],
    policy: BundleOrPolicyOption = None,
    agent: AgentsOption = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="A column of the tables to pass on; repeatable. Default: all of the first file."
        ),
    ] = None,
    allow_missing: MissingOption = False,
) -> None:
    """Write the verdict of each row of tables of tools.

    A table has a column for each fact that the policy reads, named as the fact; null is unknown (docs/inventory.md). To
    the columns that are passed on are added: status, rule, undetermined, unread, withhold_text, lifted_by and retry.
    With several agents there are as many rows for each tool, in the order of the agents. Exit code 0: written. 1: the
    policy or a table is refused, and nothing is written. 2: usage error.
    """
    decides = policy_at(policy)
    tables = opened(files, keep, missing_unknown=allow_missing, output=output, policies=[policy])
    statuses: Counter[str] = Counter()
    try:
        with rows_bar() as advance:
            batches = (
                with_agent(batch, name)
                for name in agents_of(agent)
                for (batch,) in tables.readings([decides], name, advance)
            )
            _write(output, batches, statuses)
    except (TableRefused, UnfitColumn, OutputRefused) as error:
        refused(error)
    counts = ", ".join(f"{number:,} {status}" for status, number in statuses.most_common())
    rows = f"{number_of(statuses.total(), 'row')} in `{output}`"
    typer.echo(f"{rows}: {counts}" if counts else rows, err=True)


def _write(output: Path, batches: Iterator[pa.RecordBatch], statuses: Counter[str]) -> None:
    first = next(batches)
    with table_writer(output, first.schema) as writer:
        for batch in chain([first], batches):
            # The columns are alike; what else the schema of another file says is left out.
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=first.schema))
            statuses.update(_counts(batch))


def _counts(batch: pa.RecordBatch) -> dict[str, int]:
    return {each["values"]: each["counts"] for each in batch.column("status").value_counts().to_pylist()}
