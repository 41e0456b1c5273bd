"""`callability diff`: list every combination of facts whose answer differs between two policies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.diff_report import as_json, as_text
from callability.command_line.options import JsonOption, leave
from callability.command_line.policy_pair import policy_pair
from callability.command_line.tool_change import ToolChange
from callability.policy.loading import Policy
from callability.policy.reporting.difference import NotComparable, differences


def diff(
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="The directory of a policy, a bundle with rule files, or a git revision of the NEW directory.",
        ),
    ],
    new: Annotated[
        Path | None,
        typer.Argument(
            metavar="[NEW]", help="The directory of a policy, or a bundle with rule files. Default: the shipped one."
        ),
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option("--inventory", metavar="FILE", help="Also print which tools of a `callability inventory` change."),
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Also print in full what changes if facts are unknown.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Compare two policies: print every combination of facts whose answer differs, in a few conditions.

    An answer is a status and its words. First come changes where all facts are known: callable tools that become
    locked, tools that become callable, other changes of a status, and then of words. Changes where facts are unknown
    take one line for each kind; JSON has them in full. The tests of the policies are not run. Exit code 0: no answer
    changes. 1: answers change; or a policy or the inventory is refused, or the two policies cannot be compared, and
    then nothing is written to standard output. 2: usage error, such as an OLD that is neither a directory nor a
    revision.
    """
    compared = _tools_of(inventory) if inventory else None
    policies = policy_pair(old, new)
    try:
        changes = differences(*policies)
    except NotComparable as error:
        leave(f"the two policies cannot be compared: {error}", 1)
    tools = compared(*policies) if compared else None
    typer.echo(as_json(changes, tools) if json_output else as_text(changes, tools, unknown=unknown))
    raise typer.Exit(1 if changes else 0)


def _tools_of(inventory: Path) -> Callable[[Policy, Policy], tuple[ToolChange, ...]]:
    """Return what compares the answers of two policies for the tools of an inventory; exit with code 1 if it
    cannot be read.
    """
    # It imports the service, which takes as long as a comparison of small policies.
    from callability.command_line.tool_changes import read_inventory, tool_changes  # noqa: PLC0415

    request = read_inventory(inventory)
    return lambda old, new: tool_changes(old, new, request)
