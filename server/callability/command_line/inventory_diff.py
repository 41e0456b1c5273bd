"""`callability inventory diff`: the tools of tables whose verdict differs between two policies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from callability.columns import ColumnPolicy, UnfitColumn
from callability.columns.tables import TableRefused, table_writer
from callability.command_line.inventory_tables import (
    AgentsOption,
    BundleOrPolicyOption,
    FilesArgument,
    MissingOption,
    agents_of,
    column_policy,
    opened,
    policy_at,
    policy_in,
    refused,
    rows_bar,
)
from callability.command_line.options import JsonOption
from callability.command_line.policy_pair import policy_pair
from callability.command_line.terminal import escaped, number_of
from callability.output_file import OutputRefused
from callability.vocabulary import ToolStatus

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
    tables = opened(files, NAMES, missing_unknown=allow_missing, output=output, policies=policies)
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
                    changed = _changed(before, after, name)
                    if output is not None:
                        writer = writer or stack.enter_context(table_writer(output, changed.schema))
                        writer.write_batch(changed)
                    for change, tool in _listed(changed, name):
                        found[change] += 1
                        if len(mine := examples.setdefault(change, [])) < limit:
                            mine.append(tool)
    except (TableRefused, UnfitColumn, OutputRefused) as error:
        refused(error)
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


def _changed(before: pa.RecordBatch, after: pa.RecordBatch, agent: str | None) -> pa.RecordBatch:
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


def _listed(changed: pa.RecordBatch, agent: str | None) -> Iterator[tuple[Change, str]]:
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
        lines += [f"  {escaped(tool)}" for tool in examples[change]]
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
