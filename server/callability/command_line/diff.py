"""`callability diff`: list every combination of facts whose answer differs between two policies."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from callability.command_line.conditions import condition_text
from callability.command_line.options import JsonOption, leave
from callability.command_line.terminal import number_of
from callability.command_line.tool_changes import ToolChange, read_inventory, tool_changes
from callability.finding import finding_lines, shown
from callability.policy.loading import Policy, check_files, policy_files
from callability.policy.reporting.difference import PolicyChange, TooMuch, differences
from callability.policy.reporting.plain_data import of_change
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
    as_json: JsonOption = False,
) -> None:
    """Print what a change of a policy changes: every combination of facts with another answer, in few conditions.

    An answer is a status and its words. The tests of the policies are not run. Exit code 0: no answer changes. 1:
    answers change; or a policy or the inventory is refused, or the two policies cannot be compared, and then nothing is
    written to standard output. 2: usage error, such as an OLD that is neither a directory nor a revision.
    """
    directory = new or shipped_policy()
    request = read_inventory(inventory) if inventory else None
    with _directory(old, directory) as before:
        policies = _loaded(before, old), _loaded(directory, str(directory))
    try:
        changes = differences(*policies)
    except TooMuch as error:
        leave(f"the two policies cannot be compared: {error}", 1)
    tools = None if request is None else tool_changes(*policies, request)
    typer.echo(_json(changes, tools) if as_json else _text(changes, tools))
    raise typer.Exit(1 if changes else 0)


def _loaded(directory: Path, name: str) -> Policy:
    """Return the policy in a directory without its tests, which a change may well break; or leave with exit code 1."""
    files = [path for path in policy_files(directory) if not path.stem.endswith("_test")]
    check = check_files(files, directory, engine=None)
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


def _text(changes: Sequence[PolicyChange], tools: Sequence[ToolChange] | None) -> str:
    lines = [line for change in changes for line in _lines(change)]
    count = sum(change.combinations for change in changes)
    lines.append(f"{number_of(count, 'answer')} changed" if changes else "no answer changes")
    if tools is not None:
        lines += [f"  {each.tool}: {each.before} -> {each.after}" for each in tools]
        lines.append(f"{number_of(len(tools), 'tool')} of the inventory changed" if tools else "no tool changes")
    return "\n".join(lines)


def _lines(change: PolicyChange) -> Iterator[str]:
    what = f"{change.before.status}: other words" if change.words_only else _arrow(change)
    yield f"{change.question}: {what}, in {number_of(change.combinations, 'combination')}"
    for condition in change.where:
        yield f"  where {condition_text(condition)}"
    before, after = (", ".join(rules) for rules in change.rules)
    yield f"  by    {before}" if before == after else f"  by    {before} before, {after} after"
    yield f"  e.g.  {_example(change)}"
    yield from _words(change)


def _arrow(change: PolicyChange) -> str:
    return f"{change.before.status} -> {change.after.status}"


def _words(change: PolicyChange) -> Iterator[str]:
    before, after = change.before.words or {}, change.after.words or {}
    if change.words_only:
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                yield f"  - {name}: {before.get(name, '')}"
                yield f"  + {name}: {after.get(name, '')}"


def _example(change: PolicyChange) -> str:
    return " ".join(f"{fact}={value}" for fact, value in _restricted(change).items()) or "every fact at its default"


def _restricted(change: PolicyChange) -> Mapping[str, str]:
    """Return what of the example some condition names."""
    named = {fact for condition in change.where for fact in condition}
    return {fact: value for fact, value in change.example.items() if fact in named}


def _json(changes: Sequence[PolicyChange], tools: Sequence[ToolChange] | None) -> str:
    answer: dict[str, Any] = {"changes": list(map(of_change, changes))}
    if tools is not None:
        answer["tools"] = [asdict(each) for each in tools]
    return json.dumps(answer, indent=2)
