"""`callability diff`: list every combination of facts whose answer differs between two policies."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from callability.command_line.diff_report import as_json, as_text
from callability.command_line.options import JsonOption, leave
from callability.command_line.tool_change import ToolChange
from callability.finding import finding_lines, shown
from callability.policy.loading import Policy, rules_in
from callability.policy.reporting.difference import TooMuch, differences
from callability.policy.shipped import shipped_policy

GIT_SECONDS = 30


def diff(
    old: Annotated[
        str,
        typer.Argument(metavar="OLD", help="The directory of a policy, or a git revision of the NEW directory."),
    ],
    new: Annotated[
        Path | None, typer.Argument(metavar="[NEW]", help="The directory of a policy. Default: the shipped one.")
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option("--inventory", metavar="FILE", help="Print also which tools of a `callability inventory` change."),
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Print in full also what changes where facts are unknown.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Print what a change of a policy changes: every combination of facts with another answer, in few conditions.

    An answer is a status and its words. First come changes where all facts are known: callable tools that become
    locked, tools that become callable, other changes of a status, and then of words. Changes where facts are unknown
    take one line for each kind; JSON has them in full. The tests of the policies are not run. Exit code 0: no answer
    changes. 1: answers change; or a policy or the inventory is refused, or the two policies cannot be compared, and
    then nothing is written to standard output. 2: usage error, such as an OLD that is neither a directory nor a
    revision.
    """
    directory = new or shipped_policy()
    compared = _tools_of(inventory) if inventory else None
    with _directory(old, directory) as before:
        policies = _loaded(before, old), _loaded(directory, str(directory))
    try:
        changes = differences(*policies)
    except TooMuch as error:
        leave(f"the two policies cannot be compared: {error}", 1)
    tools = compared(*policies) if compared else None
    typer.echo(as_json(changes, tools) if json_output else as_text(changes, tools, unknown=unknown))
    raise typer.Exit(1 if changes else 0)


def _tools_of(inventory: Path) -> Callable[[Policy, Policy], tuple[ToolChange, ...]]:
    """Return what compares the answers of two policies for the tools of an inventory; leave with exit code 1 if it
    cannot be read.
    """
    # It imports the service, which takes as long as a comparison of small policies.
    from callability.command_line.tool_changes import read_inventory, tool_changes  # noqa: PLC0415

    request = read_inventory(inventory)
    return lambda old, new: tool_changes(old, new, request)


def _loaded(directory: Path, name: str) -> Policy:
    """Return the policy in a directory without its tests, which a change may well break; or leave with exit code 1."""
    check = rules_in(directory)
    if check.policy is None:
        for each in finding_lines(check.findings):
            typer.echo(each.replace(str(directory), name), err=True)
        leave(f"the policy {shown(name)} is refused", 1)
    return check.policy


@contextmanager
def _directory(old: str, new: Path) -> Iterator[Path]:
    """Yield a directory as it is, or what a revision of git has in the place of the new one."""
    if Path(old).is_dir():
        yield Path(old)
        return
    with TemporaryDirectory(prefix="callability-diff-") as temporary:
        for name in _git(new, old, "ls-tree", "--name-only", "-z", old, "./").split(b"\0"):
            if name.endswith((b".yaml", b".yml")):
                file = name.decode()
                (Path(temporary) / Path(file).name).write_bytes(_git(new, old, "show", f"{old}:./{file}"))
        yield Path(temporary)


def _git(directory: Path, revision: str, *arguments: str) -> bytes:
    if revision.startswith("-"):
        leave(f"{shown(revision)} is neither a directory nor a revision", 2)
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        leave(f"{shown(revision)} is not a directory, and git cannot be asked for it: {type(error).__name__}", 2)
    if done.returncode:
        leave(f"{shown(revision)} is neither a directory, nor a revision of git that has `{directory}`", 2)
    return done.stdout
