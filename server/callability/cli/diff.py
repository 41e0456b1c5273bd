"""`callability diff`: the combinations of facts, and the tools of an inventory, that two policies decide otherwise."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from google.protobuf.json_format import ParseDict, ParseError

from callability.adapter import judge
from callability.cli.options import JsonOption, condition_text, leave, number_of
from callability.cli.policies import policy_pair
from callability.compiler.bundle_writing import checked_policy
from callability.compiler.difference import Impact, NotComparable, PolicyChange, differences
from callability.compiler.policy import Policy
from callability.compiler.table import of_change
from callability.contract.finding import as_code
from callability.kernel.calls import LocalCalls
from callability.kernel.limits import InvalidRequest
from callability.kernel.policy import read
from callability.process.regular_file import descriptor_of, read_regular
from callability.v1.callability_service_pb2 import CheckToolsRequest


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool, by `server:tool`, and its status before and after."""

    tool: str
    before: str
    after: str


def as_text(changes: Sequence[PolicyChange], tools: Sequence[ToolChange] | None, *, unknown: bool) -> str:
    """Return changes in their order as text, and last how many answers changed.

    Changes about unknown facts take one line for each kind, unless `unknown`.
    """
    folded = [change for change in changes if change.unknown and not unknown]
    lines = [line for change in changes if unknown or not change.unknown for line in _lines(change)]
    lines += _change_lines(folded)
    count = sum(change.combinations for change in changes)
    lines.append(f"{number_of(count, 'answer')} changed" if changes else "no answer changes")
    if folded:
        lines[-1] += f", {sum(change.combinations for change in folded):,} of them about unknown facts"
        lines[-1] += " (`--unknown` prints these in full)"
    if tools is not None:
        lines += [f"  {each.tool}: {each.before} -> {each.after}" for each in tools]
        lines.append(f"{number_of(len(tools), 'tool')} of the inventory changed" if tools else "no tool changes")
    return "\n".join(lines)


def as_json(changes: Sequence[PolicyChange], tools: Sequence[ToolChange] | None) -> str:
    """Return all changes in their order as one JSON object."""
    answer: dict[str, Any] = {"changes": list(map(of_change, changes))}
    if tools is not None:
        answer["tools"] = [asdict(each) for each in tools]
    return json.dumps(answer, indent=2)


def _change_lines(changes: Iterable[PolicyChange]) -> Iterator[str]:
    """Yield a line for each kind of changes."""
    counts: dict[tuple[Impact, str], int] = {}
    for change in changes:
        kind = change.impact, _what(change)
        counts[kind] = counts.get(kind, 0) + change.combinations
    for (_, what), count in sorted(counts.items(), key=lambda each: (each[0][0], -each[1])):
        yield f"{what}, in {number_of(count, 'combination')} with unknown facts"


def _lines(change: PolicyChange) -> Iterator[str]:
    yield f"{_what(change)}, in {number_of(change.combinations, 'combination')}"
    for condition in change.where:
        yield f"  where {condition_text(condition)}"
    before, after = (", ".join(rules) for rules in change.rules)
    yield f"  by    {before}" if before == after else f"  by    {before} before, {after} after"
    yield f"  e.g.  {_example(change)}"
    yield from _words(change)


def _what(change: PolicyChange) -> str:
    before, after = change.before.status, change.after.status
    return (
        f"{change.question}: {before}: other words" if change.words_only else f"{change.question}: {before} -> {after}"
    )


def _words(change: PolicyChange) -> Iterator[str]:
    before, after = change.before.words or {}, change.after.words or {}
    if change.words_only:
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                yield f"  - {name}: {before.get(name, '')}"
                yield f"  + {name}: {after.get(name, '')}"


def _example(change: PolicyChange) -> str:
    return " ".join(f"{fact}={value}" for fact, value in _named_facts(change).items()) or "every fact at its default"


def _named_facts(change: PolicyChange) -> Mapping[str, str]:
    """Return what of the example some condition names."""
    named = {fact for condition in change.where for fact in condition}
    return {fact: value for fact, value in change.example.items() if fact in named}


MAX_BYTES = 64 * 1024 * 1024


def read_inventory(path: Path) -> CheckToolsRequest:
    """Return what `callability inventory` wrote, or exit with code 1."""
    try:
        data = _read(path)
    except OSError as error:
        leave(f"{as_code(str(path))} cannot be read: {(error.strerror or 'error').lower()}", 1)
    if len(data) > MAX_BYTES:
        leave(f"{as_code(str(path))} is not an inventory: it has more than {MAX_BYTES:,} bytes", 1)
    try:
        return _read_request(data)
    except (ParseError, ValueError, RecursionError) as error:
        wanted = "wanted the JSON that `callability inventory` writes; `callability inventory diff` compares tables"
        leave(f"{as_code(str(path))} is not an inventory: {_fault_of(error)} ({wanted})", 1)


_FIELD = re.compile(r"Failed to parse (\w+) field")
_UNKNOWN = re.compile(r'has no field named "([^"]*)"')


def _fault_of(error: Exception) -> str:
    """Return what is wrong; the libraries that read it have words for those who program with them."""
    match error:
        case json.JSONDecodeError():
            return f"it is not valid JSON at line {error.lineno}, column {error.colno}"
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case ValueError():
            return "it has a number with too many digits"
        case RecursionError():
            return "it is nested too deeply"
    place, unknown = ".".join(_FIELD.findall(str(error))), _UNKNOWN.search(str(error))
    if unknown:
        return (
            f"it has a key {as_code(unknown[1])}" + (f" in {as_code(place)}" if place else "") + ", which is not known"
        )
    return f"the value of {as_code(place)} is of another type" if place else "it holds no JSON object"


def _read(path: Path) -> bytes:
    """Return the bytes of a file, or of a pipe that this process was given, as in `inventory | diff`."""
    descriptor = descriptor_of(path)
    if descriptor is None:
        return read_regular(path, MAX_BYTES + 1)
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _read_request(data: bytes) -> CheckToolsRequest:
    content = json.loads(data)
    if not isinstance(content, dict):
        raise ParseError
    return ParseDict(content, CheckToolsRequest())


def tool_changes(old: Policy, new: Policy, inventory: CheckToolsRequest) -> tuple[ToolChange, ...]:
    """Return the tools whose status differs, in the order of the inventory, or exit with code 1."""
    try:
        before, after = _statuses(old, inventory), _statuses(new, inventory)
    except InvalidRequest as error:
        leave(f"the inventory is refused: {error.message}", 1)
    pairs = zip(before, after, strict=True)
    return tuple(ToolChange(tool, was, now) for (tool, was), (_, now) in pairs if was != now)


def _statuses(policy: Policy, inventory: CheckToolsRequest) -> list[tuple[str, str]]:
    calls = LocalCalls(read(checked_policy(policy).bundle))
    statuses: list[tuple[str, str]] = []
    for server in inventory.servers:
        request = CheckToolsRequest(agent=inventory.agent, servers=[server])
        judgement = judge(request, calls.check_tools(request), visible=[server.name])
        statuses += ((tool.name, str(tool.status)) for tool in judgement.tools)
    return statuses


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
            metavar="NEW", help="The directory of a policy, or a bundle with rule files. Default: the shipped one."
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
    request = read_inventory(inventory) if inventory else None
    policies = policy_pair(old, new)
    try:
        changes = differences(*policies)
    except NotComparable as error:
        leave(f"the two policies cannot be compared: {error}", 1)
    tools = None if request is None else tool_changes(*policies, request)
    typer.echo(as_json(changes, tools) if json_output else as_text(changes, tools, unknown=unknown))
    raise typer.Exit(1 if changes else 0)
