"""`callability inventory counts`: how many rows of tables of tools have which verdict."""

from __future__ import annotations

import json
from collections import Counter

import typer

from callability.columns import UnfitColumn
from callability.columns.tables import TableRefused
from callability.command_line.inventory_tables import (
    AgentsOption,
    BundleOrPolicyOption,
    FilesArgument,
    MissingOption,
    agents_of,
    counted,
    opened,
    policy_at,
    refused,
    rows_bar,
)
from callability.command_line.options import JsonOption
from callability.command_line.terminal import number_of
from callability.vocabulary import ToolStatus


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
    tables = opened(files, (), missing_unknown=allow_missing)
    found: dict[str | None, Counter[tuple[str, str, str]]] = {}
    try:
        with rows_bar() as advance:
            for name in agents_of(agent):
                mine = found[name] = Counter()
                for (batch,) in tables.readings([decides], name, advance):
                    mine.update(counted(batch, ("status", "rule", "unread")))
    except (TableRefused, UnfitColumn) as error:
        refused(error)
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
