"""What the commands about tables of tools share: options, compiled policies, and the tables with their verdicts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NoReturn

import pyarrow as pa
import typer

from callability.bundling.payload import payload_of
from callability.columns import ColumnPolicy, Columns, Reading, UnfitColumn
from callability.columns.repeated_tools import KEY, RepeatedTools
from callability.columns.tables import ENDINGS, TableFile, TableRefused, kept_as, output_format, table_files
from callability.command_line.compiled_policy import viewed
from callability.command_line.options import leave
from callability.command_line.terminal import number_of
from callability.finding import shown
from callability.kernel.envelope import enveloped
from callability.kernel.refusal import BundleRefused
from callability.output_file import OutputRefused, check_output
from callability.policy.loading import Policy
from callability.regular_file import read_regular

FilesArgument = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help=f"Tables of tools: files ({', '.join(ENDINGS)}), directories or patterns."),
]
BundleOrPolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy", metavar="DIR|BUNDLE", help="The directory of the policy, or a bundle. Default: the shipped one."
    ),
]
AgentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        metavar="NAME",
        help="The agent that would call each tool, in place of a column `agent.name`; repeatable.",
    ),
]
MissingOption = Annotated[
    bool,
    typer.Option(
        "--allow-missing",
        help="Read a fact whose column is missing as unknown, or as its default if it is asserted. Default: an error.",
    ),
]


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables that have the columns that a policy reads.

    Every table is read as the first one has it: its columns are those that are passed on.
    """

    files: tuple[TableFile, ...]
    kept: tuple[str, ...] | None
    missing_unknown: bool
    warned: set[str] = field(default_factory=set)

    def readings(
        self, policies: Sequence[ColumnPolicy], agent: str | None, advance: Callable[[int], None]
    ) -> Iterator[tuple[pa.RecordBatch, ...]]:
        """Yield each batch with the verdicts of each policy; `advance` is called with numbers of rows.

        Raises:
            TableRefused: a file cannot be read.
            UnfitColumn: a column cannot be read as its fact.
        """
        first: dict[str, pa.Field] = {}
        repeated = RepeatedTools()
        facts = _facts(policies)
        for file in self.files:
            columns = file.schema(facts, self.kept or ())
            kept = tuple(first or columns.names) if self.kept is None else self.kept
            # A column of agents is replaced by the agent that is given.
            kept = tuple(name for name in kept if agent is None or name != "agent.name")
            with _in(file):
                alike = pa.schema(
                    [first.get(each.name, each) if each.name in kept else each for each in columns], columns.metadata
                )
                readings = [policy.reading(alike, Columns(kept, agent, self.missing_unknown)) for policy in policies]
                first = first or {each.name: each for each in columns}
                names = dict.fromkeys(name for each in readings for name in each.needed)
                names |= dict.fromkeys(name for name in KEY if len(columns.get_all_field_indices(name)) == 1)
                for batch in file.batches(facts, pa.schema([columns.field(name) for name in names])):
                    cast = kept_as(batch, kept, alike)
                    decided = tuple(reading.decide(cast) for reading in readings)
                    repeated.look_at(batch)
                    yield decided
                    advance(batch.num_rows)
            for line in _warnings(file, readings):
                self._report(line)
        if repeated.rows:
            rows = f"{number_of(repeated.rows, 'row')} with a tool that an earlier row has, such as"
            self._report(f"warning: {rows} {shown(repeated.first)}: each row is decided")

    def _report(self, text: str) -> None:
        """Write a line to standard error, once for all agents."""
        if text not in self.warned:
            self.warned.add(text)
            typer.echo(text, err=True)


def opened(
    names: Iterable[str],
    kept: Sequence[str] | None,
    *,
    missing_unknown: bool,
    output: Path | None = None,
    policies: Iterable[Path | None] = (),
) -> Tables:
    """Return the tables in some files, or exit with code 1; also if the `output` would overwrite what is read."""
    try:
        if output is not None:
            output_format(output)
        files = table_files(names)
        if output is not None:
            check_output(output, (*(file.path for file in files), *filter(None, policies)))
        return Tables(files, None if kept is None else tuple(kept), missing_unknown)
    except (TableRefused, OutputRefused) as error:
        leave(str(error), 1)


def column_policy(policy: Policy) -> ColumnPolicy:
    """Return a policy that decides columns."""
    return ColumnPolicy.of_bundle(enveloped(payload_of(policy)))


def policy_at(place: Path | None) -> ColumnPolicy:
    """Return the policy in a directory or a bundle, by default the shipped one; exit with 1 if it is refused."""
    return policy_in(place) if place is not None and place.is_file() else column_policy(viewed(place))


def policy_in(bundle: Path) -> ColumnPolicy:
    """Return the policy in a bundle; exit with 1 if it is refused."""
    try:
        return ColumnPolicy.of_bundle(read_regular(bundle))
    except OSError as error:
        leave(f"{bundle}: cannot be read: {(error.strerror or 'error').lower()}", 1)
    except BundleRefused as error:
        leave(f"{bundle}: {error} [{error.code}]", 1)


def agents_of(names: Sequence[str] | None) -> tuple[str | None, ...]:
    """Return the agents to decide for; None: the one that each row names."""
    return tuple(names) if names else (None,)


def with_agent(batch: pa.RecordBatch, agent: str | None) -> pa.RecordBatch:
    """Return a batch with a column of the agent, if one is given."""
    if agent is None:
        return batch
    names = pa.DictionaryArray.from_arrays(pa.array([0] * batch.num_rows, pa.int32()), pa.array([agent]))
    place = batch.schema.get_field_index("status")
    added = batch.add_column(place, pa.field("agent.name", names.type), names)
    return pa.RecordBatch.from_arrays(added.columns, schema=added.schema.with_metadata(batch.schema.metadata))


def counted(batch: pa.RecordBatch, names: tuple[str, str, str]) -> dict[tuple[str, str, str], int]:
    """Return how many rows of a batch have which words in some columns."""
    table = pa.Table.from_arrays([batch.column(name).cast(pa.string()) for name in names], names=list(names))
    groups = table.group_by(list(names)).aggregate([([], "count_all")])
    words = (groups.column(name).to_pylist() for name in names)
    return dict(zip(zip(*words, strict=True), groups.column("count_all").to_pylist(), strict=True))


def refused(error: Exception) -> NoReturn:
    """Exit with code 1, and say why a table cannot be decided."""
    leave(str(error), 1)


@contextmanager
def rows_bar() -> Iterator[Callable[[int], None]]:
    """Yield a callback for rows that are decided: a terminal shows their number, until the end of the block."""
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    # Where nobody looks at it, it need not be imported.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.completed:,} rows decided"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("deciding", total=None)
        yield lambda rows: bar.advance(task, rows)


def _facts(policies: Sequence[ColumnPolicy]) -> pa.Schema:
    fields = {field.name: field for policy in policies for field in policy.facts}
    return pa.schema(list(fields.values()))


@contextmanager
def _in(file: TableFile) -> Iterator[None]:
    try:
        yield
    except UnfitColumn as error:
        text = str(error)
        raise UnfitColumn(text if text.startswith(f"{file.path}: ") else f"{file.path}: {text}") from None


def _warnings(file: TableFile, readings: Iterable[Reading]) -> Iterator[str]:
    """Yield which columns are missing, and which values the policy does not know, by column."""
    for reading in readings:
        for name, value in reading.missing.items():
            has = "is unknown" if value is None else f"has its default {shown(value)}"
            yield f"{file.path}: warning: there is no column `{name}`: the fact {has} in every row"
        for name, odd in reading.odd.items():
            values = ", ".join(map(shown, odd.values))
            have = f"{number_of(odd.rows, 'row')} with a value that the policy does not know"
            yield f"{file.path}: warning: column `{name}`: {have}: {values}"
