"""`callability inventory decide`, `counts` and `diff`: the verdicts of the rows of tables of tools."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import typer

from callability.cli.options import JsonOption, escape, leave, number_of
from callability.cli.policies import policy_pair, view_policy
from callability.compiler.bundle_writing import payload_of
from callability.compiler.policy import Policy
from callability.contract.finding import as_code
from callability.contract.vocabulary import ToolStatus
from callability.kernel.envelope import BundleRefused, envelop
from callability.process.regular_file import OutputRefused, check_output, read_regular
from callability.tables import ColumnPolicy, Columns, ReadingPlan, UnfitColumn
from callability.tables.column_policy import KEY, RepeatedTools
from callability.tables.fact_column import MissingColumns
from callability.tables.files import ENDINGS, TableFile, TableRefused, kept_as, output_format, table_files, table_writer

FilesArgument = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help=f"Tables of tools: files ({', '.join(ENDINGS)}), directories or patterns."),
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
                single = [name for name in columns.names if len(columns.get_all_field_indices(name)) == 1]
                # A batch without a column has no rows: read one of the table's own.
                names |= dict.fromkeys(name for name in KEY if name in single)
                names = names or dict.fromkeys(single[:1])
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
            self._report(f"warning: {rows} {as_code(repeated.first)}: each row is decided")

    def _report(self, text: str) -> None:
        """Write a line to standard error, once for all agents."""
        if text not in self.warned:
            self.warned.add(text)
            typer.echo(text, err=True)


def open_tables(
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
    return ColumnPolicy.of_bundle(envelop(payload_of(policy)))


def policy_at(place: Path | None) -> ColumnPolicy:
    """Return the policy in a directory or a bundle, by default the shipped one; exit with 1 if it is refused."""
    return policy_in(place) if place is not None and place.is_file() else column_policy(view_policy(place))


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


def count_rows(batch: pa.RecordBatch, names: tuple[str, str, str]) -> dict[tuple[str, str, str], int]:
    """Return how many rows of a batch have which words in some columns."""
    table = pa.Table.from_arrays([batch.column(name).cast(pa.string()) for name in names], names=list(names))
    groups = table.group_by(list(names)).aggregate([([], "count_all")])
    words = (groups.column(name).to_pylist() for name in names)
    return dict(zip(zip(*words, strict=True), groups.column("count_all").to_pylist(), strict=True))


def refuse_table(error: Exception) -> NoReturn:
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
        if isinstance(error, MissingColumns):
            text = f"{text}; with `--allow-missing`, what is missing is unknown in every row, or has its default"
        raise UnfitColumn(text if text.startswith(f"{file.path}: ") else f"{file.path}: {text}") from None


def _warnings(file: TableFile, readings: Iterable[ReadingPlan]) -> Iterator[str]:
    """Yield which columns are missing, and which values the policy does not know, by column."""
    for reading in readings:
        for name, value in reading.missing.items():
            has = "is unknown" if value is None else f"has its default {as_code(value)}"
            yield f"{file.path}: warning: there is no column `{name}`: the fact {has} in every row"
        for name, odd in reading.odd.items():
            values = ", ".join(map(as_code, odd.values))
            have = f"{number_of(odd.rows, 'row')} with a value that the policy does not know"
            yield f"{file.path}: warning: column `{name}`: {have}: {values}"


def counts(
    files: FilesArgument,
    policy: BundleOrPolicyOption = None,
    agent: AgentsOption = None,
    allow_missing: MissingOption = False,
    json_output: JsonOption = False,
) -> None:
    """Print how many rows of tables of tools have each status, by rule and by unread facts, for each agent.

    Exit code 0: printed. 1: the policy or a table is refused. 2: usage error.
    """
    decides = policy_at(policy)
    tables = open_tables(files, (), missing_unknown=allow_missing)
    found: dict[str | None, Counter[tuple[str, str, str]]] = {}
    try:
        with rows_bar() as advance:
            for name in agents_of(agent):
                mine = found[name] = Counter()
                for (batch,) in tables.readings([decides], name, advance):
                    mine.update(count_rows(batch, ("status", "rule", "unread")))
    except (TableRefused, UnfitColumn) as error:
        refuse_table(error)
    if json_output:
        typer.echo(
            json.dumps({"revision": decides.revision, "agents": [_plain(*each) for each in found.items()]}, indent=2)
        )
        return
    for name, mine in found.items():
        typer.echo(f"{number_of(mine.total(), 'row')}" + (f", for agent `{name}`" if name is not None else ""))
        for (status, rule, unread), number in _in_order(mine):
            typer.echo(f"{number:>14,}  {status}, by rule `{rule}`" + (f", unread: {unread}" if unread else ""))


def _in_order(found: Counter[tuple[str, str, str]]) -> list[tuple[tuple[str, str, str], int]]:
    statuses = [str(status) for status in ToolStatus]
    return sorted(found.items(), key=lambda each: (statuses.index(each[0][0]), -each[1], each[0]))


def _plain(agent: str | None, found: Counter[tuple[str, str, str]]) -> dict[str, object]:
    counts = [
        {"status": status, "rule": rule, "unread": unread.split(",") if unread else [], "rows": number}
        for (status, rule, unread), number in _in_order(found)
    ]
    return {**({} if agent is None else {"agent": agent}), "rows": found.total(), "counts": counts}


NAMES = ("server.name", "tool.name")
_COMPARED = ("status", "rule")
Change = tuple[str | None, str, str]
"""The agent, and the status before and after."""


def diff(
    files: FilesArgument,
    against: Annotated[
        str,
        typer.Option(
            metavar="DIR|REVISION|BUNDLE",
            help="The older policy: a directory, a git revision of the newer one, or a bundle.",
        ),
    ],
    policy: BundleOrPolicyOption = None,
    agent: AgentsOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write each tool that changes: .parquet, .arrow or .csv."),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="How many tools of each change are printed.")] = 20,
    allow_missing: MissingOption = False,
    json_output: JsonOption = False,
) -> None:
    """Print which tools of tables have another status under the newer policy, grouped by their change.

    First come callable tools that become locked, then tools that become callable, then those with another lock. Exit
    code 0: no status changes. 1: statuses change; or a policy or a table is refused, and then nothing is written to
    standard output. 2: usage error.
    """
    older, newer = _policies(against, policy)
    policies = [Path(against), policy]
    tables = open_tables(files, NAMES, missing_unknown=allow_missing, output=output, policies=policies)
    rows = 0
    found: Counter[Change] = Counter()
    examples: dict[Change, list[str]] = {}

    def advance_rows(number: int) -> None:
        nonlocal rows
        rows += number
        advance(number)

    try:
        with rows_bar() as advance, ExitStack() as stack:
            writer = None
            for name in agents_of(agent):
                for before, after in tables.readings([older, newer], name, advance_rows):
                    changed = _compare(before, after, name)
                    if output is not None:
                        writer = writer or stack.enter_context(table_writer(output, changed.schema))
                        writer.write_batch(changed)
                    for change, tool in _change_examples(changed, name):
                        found[change] += 1
                        if len(mine := examples.setdefault(change, [])) < limit:
                            mine.append(tool)
    except (TableRefused, UnfitColumn, OutputRefused) as error:
        refuse_table(error)
    ordered = sorted(found, key=_key)
    typer.echo(_as_json(rows, ordered, found, examples) if json_output else _as_text(rows, ordered, found, examples))
    raise typer.Exit(1 if found else 0)


def _policies(against: str, policy: Path | None) -> tuple[ColumnPolicy, ColumnPolicy]:
    """Return the older and the newer policy, or leave: each is in a directory, in git or in a bundle."""
    if Path(against).is_file():
        return policy_in(Path(against)), policy_at(policy)
    if policy is not None and policy.is_file():
        return policy_at(Path(against)), policy_in(policy)
    older, newer = map(column_policy, policy_pair(against, policy))
    return older, newer


def _compare(before: pa.RecordBatch, after: pa.RecordBatch, agent: str | None) -> pa.RecordBatch:
    """Return the rows with another status: names, agent, and status and rule before and after."""
    texts = {
        f"{name}.{which}": batch.column(name).cast(pa.string())
        for which, batch in (("before", before), ("after", after))
        for name in _COMPARED
    }
    names = {name: _text(before.column(name)) for name in NAMES}
    agents = {} if agent is None else {"agent.name": pa.array([agent] * before.num_rows, pa.string())}
    whole = pa.RecordBatch.from_pydict({**names, **agents, **texts})
    return whole.filter(pc.not_equal(texts["status.before"], texts["status.after"]))


def _text(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


def _change_examples(changed: pa.RecordBatch, agent: str | None) -> Iterator[tuple[Change, str]]:
    columns = (changed.column(name).to_pylist() for name in (*NAMES, "status.before", "status.after"))
    for server, tool, before, after in zip(*columns, strict=True):
        yield (agent, before, after), f"{server}:{tool}"


def _key(change: Change) -> tuple[int, str, int, int]:
    """Order changes by their effect on people."""
    agent, before, after = change
    statuses = [str(status) for status in ToolStatus]
    effect = 0 if before == ToolStatus.CALLABLE else 1 if after == ToolStatus.CALLABLE else 2
    return effect, agent or "", statuses.index(before), statuses.index(after)


def _as_text(rows: int, ordered: list[Change], found: Counter[Change], examples: dict[Change, list[str]]) -> str:
    if not ordered:
        return f"no status changes in {number_of(rows, 'row')}"
    lines = [f"{found.total():,} of {number_of(rows, 'row')} have another status"]
    for change in ordered:
        agent, before, after = change
        who = f", for agent `{agent}`" if agent is not None else ""
        lines += ["", f"{before} -> {after}{who}: {found[change]:,}"]
        lines += [f"  {escape(tool)}" for tool in examples[change]]
        if found[change] > len(examples[change]):
            lines.append(f"  and {found[change] - len(examples[change]):,} more")
    return "\n".join(lines)


def _as_json(rows: int, ordered: list[Change], found: Counter[Change], examples: dict[Change, list[str]]) -> str:
    changes = [
        {
            **({} if agent is None else {"agent": agent}),
            "before": before,
            "after": after,
            "rows": found[agent, before, after],
            "tools": examples[agent, before, after],
        }
        for agent, before, after in ordered
    ]
    return json.dumps({"rows": rows, "changed": found.total(), "changes": changes}, indent=2)


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
    tables = open_tables(files, keep, missing_unknown=allow_missing, output=output, policies=[policy])
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
        refuse_table(error)
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
