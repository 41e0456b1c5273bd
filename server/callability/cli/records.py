"""`callability records` and `callability schema records`: look at records, and decide them again."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from callability.cli.options import JsonOption, escape, leave, number_of
from callability.contract.finding import as_code, did_you_mean
from callability.contract.vocabulary import EnableStatus, LoadStatus, ToolStatus
from callability.kernel.envelope import MAX_BYTES, BundleRefused
from callability.kernel.policy import LocalPolicy, read
from callability.process.regular_file import read_regular
from callability.records.format import BY_HAND, UNSEEN_COMMAND, Ended, schema
from callability.records.reading import NoRecords, RecordReading, follow_records, object_in, sources_of
from callability.records.replay import Changed, Differences, Replay, Tally

FilesArgument = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="Files, directories or patterns of files; `-` is standard input."),
]
AgainstOption = Annotated[
    Path, typer.Option(metavar="DIR|BUNDLE", help="The policy to decide by: a directory, or a bundle.")
]
LimitOption = Annotated[int, typer.Option(metavar="N", min=1, help="How many rows each table has at most.")]
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_FILTERS = ("agent", "server", "tool", "status", "rule", "ended")
_WORDS = {"status": (*ToolStatus, *LoadStatus, *EnableStatus), "ended": tuple(Ended)}
"""The words that records have for what is filtered by; a name may be any."""
_DIGEST = re.compile("[0-9a-f]{64}")
_DIGITS = 12
"""How much of a digest people read; `--json` has all of it."""
_AUTHORS = {BY_HAND: "by hand in the file", UNSEEN_COMMAND: "by hand or by a command, which writes no records here"}
_REPEATS = 5
"""Calls of one agent that one lock refuses before they are worth a look."""


def print_schema() -> None:
    """Print the JSON Schema of a record, one of which is on each line of a file of records.

    Exit code 0: printed.
    """
    typer.echo(json.dumps(schema(), indent=2))


def show(
    files: FilesArgument,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Only records about this agent.")] = None,
    server: Annotated[str | None, typer.Option(metavar="NAME", help="Only records about this server.")] = None,
    tool: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only records about this tool, as `log` or `git:log`.")
    ] = None,
    status: Annotated[str | None, typer.Option(metavar="STATUS", help="Only decisions with this status.")] = None,
    rule: Annotated[str | None, typer.Option(metavar="ID", help="Only decisions by this rule.")] = None,
    ended: Annotated[
        str | None, typer.Option(metavar="WORD", help="Only calls that ended so, such as out_of_scope.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only records from then on: a time such as 2026-11-26T02:00:00Z, or 30m, 2h, 7d ago."
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only records from before then.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print what is written from now on too, until it is ended.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print records, one a line, in the order of their files.

    Exit code 0: printed. 1: a file cannot be read. 2: an option is wrong.
    """
    wanted = dict(zip(_FILTERS, (agent, server, tool, status, rule, ended), strict=True))
    given = {name: value for name, value in wanted.items() if value is not None}
    for name in given.keys() & _WORDS.keys():
        if given[name] not in _WORDS[name]:
            hint = did_you_mean(given[name], _WORDS[name])
            leave(f"`--{name}`: no record has {as_code(given[name])}{f' ({hint})' if hint else ''}", 2)
    start = _moment("since", since) if since else ""
    end = _moment("until", until) if until else ""
    reading, found = _reading(files), False
    lines = follow_records(files) if follow else reading.lines()
    for line in _read(lines):
        record = object_in(line)
        if record is None:
            continue
        time = str(record.get("time", ""))
        if time < start or (end and time >= end):
            continue
        if all(value in _values(record, name) for name, value in given.items()):
            found = True
            typer.echo(line.decode("utf-8", "replace").rstrip("\n") if as_json else _line(record))
    if reading.records and not found:
        typer.echo("no record is as the options say", err=True)
    if reading.damaged:
        typer.echo(f"{number_of(reading.damaged, 'line')} left out: no records", err=True)


def stats(
    files: FilesArgument,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="DIR|BUNDLE", help="Also list the rules of this policy that never decided."),
    ] = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Count records by rule, agent, tool and day, and list what changed and which agents keep hitting one lock.

    A decision of which both a gateway and its service have a record counts once. Exit code 0: counted. 1: a file cannot
    be read, or the policy is refused. 2: an option is wrong.
    """
    reading, tally = _reading(files), Tally()
    rules = _rules(_policy(policy)) if policy else None
    tally.add_all(_read(reading.lines()), may_repeat=reading.may_repeat)
    never = None if rules is None else tally.never_decided(rules)
    if as_json:
        typer.echo(json.dumps(_as_data(reading, tally, never), indent=2))
    else:
        for text in _as_text(reading, tally, never, limit):
            typer.echo(text)


def replay(files: FilesArgument, against: AgainstOption, as_json: JsonOption = False) -> None:
    """Decide the decisions of records again by another policy, and print which would have another status now.

    They are grouped by their change: what becomes locked, what becomes callable, and other changes. Equal facts are
    decided once. Records of another policy can be compared as well: what counts is the status that was recorded. Exit
    code 0: no status changes. 1: statuses change; or a file cannot be read, or the policy is refused, and then nothing
    is written to standard output. 2: an option is wrong.
    """
    reading = _reading(files)
    policy = _policy(against)
    lines = _read(reading.lines())
    found = Replay(policy).differences(lines, may_repeat=reading.may_repeat)
    data = {"reading": _losses(reading), **_replay(policy, found)}
    typer.echo(json.dumps(data, indent=2) if as_json else "\n".join(_replay_text(reading, found)))
    raise typer.Exit(1 if found.found else 0)


def _values(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return what finds a record by a member; a tool is found with its server before it too, as it is printed."""
    value = record.get(name)
    if value is None:
        return ()
    return (str(value), f"{record.get('server')}:{value}") if name == "tool" else (str(value),)


def _reading(files: Sequence[str]) -> RecordReading:
    try:
        return RecordReading(sources_of(files))
    except NoRecords as error:
        leave(str(error), 1)


def _read(lines: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from lines
    except NoRecords as error:
        leave(str(error), 1)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _policy(place: Path) -> LocalPolicy:
    """Return the policy in a directory or a bundle, or exit with 1 if it is refused."""
    if not place.exists():
        leave(f"{as_code(str(place))} is neither a directory nor a bundle", 1)
    if place.is_dir():
        # A bundle needs the base installation alone.
        from callability.cli.served_policy import loaded_from  # noqa: PLC0415
        from callability.files.policy_origin import PolicyDirectory  # noqa: PLC0415

        return read(loaded_from(PolicyDirectory(place)).checked.bundle)
    try:
        return read(read_regular(place, MAX_BYTES + 1), rollback=True)
    except OSError as error:
        leave(f"`{place}` cannot be read: {(error.strerror or 'error').lower()}", 1)
    except BundleRefused as refused:
        leave(f"{place}: {refused} [{refused.code}]", 1)


def _rules(policy: LocalPolicy) -> list[tuple[str, str]]:
    """Return the rules of a policy, each with the question as records name it."""
    questions = {"callability": "tool", "load_outcome": "load", "enable_outcome": "enable"}
    return [(questions.get(name, name), rule.id) for name, rules in policy.rule_sets.items() for rule in rules.rules]


def _moment(option: str, given: str) -> str:
    """Return a time as records write it, or exit with 2."""
    ago = re.fullmatch(r"(\d{1,6})([smhd])", given)
    try:
        if ago is not None:
            moment = datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            moment = datetime.fromisoformat(given)
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        wanted = "must be a time such as 2026-11-26T02:00:00Z, or 30m, 2h or 7d"
        leave(f"`--{option}` {wanted}, and is {as_code(given)}", 2)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(record: Mapping[str, Any]) -> str:
    """Return a record in one line for people."""
    words = {name: escape(str(value)) for name, value in record.items() if value is not None}
    time = words.get("time", "-")
    match record.get("kind"):
        case "decision":
            target = ":".join(words[name] for name in ("server", "tool") if words.get(name))
            who = f"agent {words['agent']}" if record.get("agent") else "an agent"
            subject = (
                f"{who} {target}"
                if record.get("question") == "tool"
                else f"{words.get('question', '-')} of {target or '-'}"
            )
            verdict = f": {words['status']} by {words.get('rule') or 'no rule'}" if "status" in words else ""
            unread = f", unread {escape(', '.join(map(str, record['unread'])))}" if record.get("unread") else ""
            lifted = f", lifted by {words['lifted_by']}" if record.get("lifted_by") not in (None, "none") else ""
            policy = f", policy {_DIGEST.sub(_cut, words['revision'])}" if words.get("revision") else ""
            took = f" ({words['milliseconds']} ms)" if "milliseconds" in words else ""
            return f"{time} {words.get('ended', '-')} {subject}{verdict}{unread}{lifted}{policy}{took}"
        case "change":
            return f"{time} {_change_text(record)}"
        case _:
            rest = (f"{name}={value}" for name, value in words.items() if name not in ("v", "n", "time", "kind"))
            return f"{time} {words.get('kind')} {' '.join(rest)}"


def _change_text(record: Mapping[str, Any]) -> str:
    """Return a change in words; its digests are cut."""
    words = {name: _DIGEST.sub(_cut, escape(str(value))) for name, value in record.items() if value is not None}
    target = ":".join(words[name] for name in ("server", "tool") if words.get(name))
    parts = [
        f"changed {words.get('change', '-')}",
        target,
        f"for agent {words['agent']}" if record.get("agent") else "",
    ]
    if "applied" in record:
        parts.append("applied" if record["applied"] else "refused")
    if record.get("fields"):
        parts.append(f"in {escape(', '.join(map(str, record['fields'])))}")
    parts += [f"{name} {words[name]}" for name in ("before", "after", "approved") if record.get(name)]
    if record.get("command"):
        author = _AUTHORS.get(str(record["command"]), f"by {words['command']}")
        parts.append(author + (f" (user {words['user']})" if "user" in words else ""))
    return " ".join(filter(None, parts))


def _cut(digest: re.Match[str]) -> str:
    # Behind the digest of a config is that of its secrets.
    behind = "+" if digest.string[: digest.start()].endswith(tuple("0123456789abcdef")) else ""
    return behind + digest[0][:_DIGITS]


def _losses(reading: RecordReading) -> dict[str, int]:
    return {
        "files": reading.files,
        "records": reading.records,
        "lost": reading.lost,
        "damaged_lines": reading.damaged,
        "torn_lines": reading.torn,
        "processes_without_an_end": reading.unended,
        "copied_records": reading.copies,
        "unchecked_files": reading.unchecked,
    }


def _rows(counter: Counter[Any], names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{**dict(zip(names, key, strict=True)), "decisions": count} for key, count in counter.most_common()]


def _as_data(reading: RecordReading, tally: Tally, never: list[tuple[str, str]] | None) -> dict[str, Any]:
    return {
        "reading": _losses(reading),
        "from": tally.first,
        "to": tally.last,
        "decisions": tally.decisions,
        "repeated": tally.repeated,
        "by_end": dict(tally.by_ended.most_common()),
        "by_rule": _rows(tally.by_rule, ("question", "status", "rule")),
        "by_agent": _rows(tally.by_agent, ("agent", "outcome")),
        "by_tool": _rows(tally.by_tool, ("tool", "outcome")),
        "by_day": _rows(tally.by_day, ("day", "outcome")),
        "loads": _rows(tally.by_server, ("server", "status", "rule")),
        "last_loads": [
            {"server": server, "time": time, "status": status} for server, (time, status) in tally.last_load.items()
        ],
        "repeated_hits": [
            each for each in _rows(tally.hits, ("agent", "tool", "status", "rule")) if each["decisions"] >= _REPEATS
        ],
        "out_of_scope": _rows(tally.out_of_scope, ("agent", "tool")),
        "shadow": _rows(tally.shadow, ("status", "candidate")),
        "changes": tally.last_changes,
        "by_change": dict(tally.by_change.most_common()),
        **({} if never is None else {"never_decided": [{"question": one, "rule": two} for one, two in never]}),
    }


def _as_text(reading: RecordReading, tally: Tally, never: list[tuple[str, str]] | None, limit: int) -> Iterator[str]:
    span = f", {tally.first} to {tally.last}" if tally.first else ""
    yield f"{number_of(tally.decisions, 'decision')} in {number_of(reading.records, 'record')}{span}"
    yield from _loss_text(reading, tally.repeated)
    tables: list[tuple[str, Counter[Any]]] = [
        (
            "by rule",
            Counter({(f"{key[0]}: {key[1]} by {key[2] or 'no rule'}",): n for key, n in tally.by_rule.items()}),
        ),
        ("by end", Counter({(ended,): number for ended, number in tally.by_ended.items()})),
        ("by agent", tally.by_agent),
        ("by tool", tally.by_tool),
        ("by day", tally.by_day),
        (
            "loads that failed, by server",
            Counter({key: number for key, number in tally.by_server.items() if key[1] != LoadStatus.AVAILABLE}),
        ),
        ("calls out of scope, by agent", tally.out_of_scope),
        (
            f"agents that hit one lock {_REPEATS} times or more",
            Counter({key: number for key, number in tally.hits.items() if number >= _REPEATS}),
        ),
        ("decisions of a candidate that differ", tally.shadow),
    ]
    for title, counter in tables:
        yield from _table(title, counter, limit)
    if never is not None:
        yield ""
        yield "rules that never decided" if never else "every rule decided"
        yield from (f"  {question}: {escape(rule)}" for question, rule in never)
    if tally.changes:
        yield ""
        yield f"{number_of(tally.by_change.total(), 'change')}, the last ones:"
        yield from (f"  {each.get('time') or '-'} {_change_text(each)}" for each in tally.last_changes[-limit:])


def _table(title: str, counter: Counter[Any], limit: int) -> Iterator[str]:
    if not counter:
        return
    yield ""
    yield title
    for key, number in counter.most_common(limit):
        yield f"  {number:>9,}  {'  '.join(escape(each) or '(no name)' for each in key)}"
    if len(counter) > limit:
        yield f"  and {len(counter) - limit:,} more"


def _loss_text(reading: RecordReading, repeated: int) -> Iterator[str]:
    if repeated:
        yield f"{number_of(repeated, 'record')} of a service left out: a gateway or a client has the decision too"
    if reading.lost:
        yield f"{number_of(reading.lost, 'record')} lost"
    if reading.damaged:
        yield f"{number_of(reading.damaged, 'line')} damaged, {reading.torn:,} of them torn at the end of a file"
    if reading.copies:
        yield f"{number_of(reading.copies, 'record')} left out: another file of the same process has them"
    if reading.unchecked:
        yield f"{number_of(reading.unchecked, 'file')} not checked for lost records: not named as it was written"
    if reading.unended:
        yield f"{number_of(reading.unended, 'process')} without an end: running, or killed with what was not written"


def _replay(policy: LocalPolicy, found: Differences) -> dict[str, Any]:
    return {
        "revision": policy.revision,
        "decided": found.decided,
        "undecided": found.undecided,
        "unfit": found.unfit,
        "repeated": found.repeated,
        "changed": found.found.total(),
        "changes": [
            {
                "question": change.question,
                "before": change.before,
                "after": change.after,
                "decisions": found.found[change],
                "rules": [
                    {"before": before, "after": after, "decisions": number}
                    for (before, after), number in found.rules[change].most_common()
                ],
                "examples": [*found.examples[change]],
            }
            for change in found.ordered
        ],
    }


def _replay_text(reading: RecordReading, found: Differences) -> Iterator[str]:
    if found.found:
        yield f"{found.found.total():,} of {number_of(found.decided, 'decision')} would have another status"
    else:
        yield f"no status changes in {number_of(found.decided, 'decision')}"
    yield from _loss_text(reading, found.repeated)
    if found.undecided:
        yield f"{number_of(found.undecided, 'call')} left out that no policy decided"
    if found.unfit:
        yield f"{number_of(found.unfit, 'record')} left out whose facts this program cannot read"
    for change in found.ordered:
        yield from _change_lines(change, found)


def _change_lines(change: Changed, found: Differences) -> Iterator[str]:
    yield ""
    yield f"{change.question}: {escape(change.before)} -> {change.after}, {found.found[change]:,}"
    for (before, after), number in found.rules[change].most_common():
        rules = escape(before) if before == after else f"{escape(before)} before, {escape(after)} after"
        yield f"  by    {rules}: {number:,}"
    yield from (f"  e.g.  {escape(each)}" for each in found.examples[change])
