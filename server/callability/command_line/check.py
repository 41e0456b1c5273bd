"""`callability check`: proves a policy and prints what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.options import JsonOption
from callability.command_line.watch import WatchOption, watched
from callability.finding import Severity, line
from callability.policy.loading import Check, ProvedRuleSet, check_written, written_in
from callability.policy.shipped import shipped_policy
from callability.policy.tabulation import Engine
from callability.policy.written import Written


def check(
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="The directory of the policy. Left out: the shipped one.")
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="What decides the combinations; `both` compares durable-rules with the reference.")
    ] = Engine.AUTO,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings refuse the policy too.")] = False,
    as_json: JsonOption = False,
    watch: WatchOption = False,
) -> None:
    """Prove a policy: every combination of facts is decided, its tests are run, and all findings are printed.

    With `--watch` it is proved again after each edit. Exit code 0: the policy is sound. 1: it is refused.
    """
    of = directory or shipped_policy()

    def checked(written: Written) -> bool:
        result = check_written(written, engine=engine)
        sound = result.policy is not None and not (strict and result.findings)
        typer.echo(_json(result, of, sound=sound) if as_json else _text(result, of, sound=sound))
        return sound

    raise typer.Exit(0 if (watched(of, checked) if watch else checked(written_in(of))) else 1)


def _text(result: Check, directory: Path, *, sound: bool) -> str:
    lines = [line(finding) for finding in result.findings]
    for name, proved in result.proved.items():
        lines += _proved(name, proved, [each.code for each in result.findings if Path(each.place.file).stem == name])
    errors = sum(finding.severity is Severity.ERROR for finding in result.findings)
    counts = f"{_number(errors, 'error')}, {_number(len(result.findings) - errors, 'warning')}"
    lines.append(f"{directory}: {'sound' if sound else 'refused'}, {counts}")
    if result.policy and sound:
        lines.append(f"revision {result.policy.revision}")
    return "\n".join(lines)


def _proved(name: str, proved: ProvedRuleSet, codes: list[str]) -> list[str]:
    table = proved.table
    dead = "with dead rules (see above)" if "never-decides" in codes else "no dead rule"
    return [
        f"{name}",
        f"  facts         {', '.join(table.space.facts)}",
        f"  combinations  {table.space.size:,} decided by {table.engine}",
        f"  rules         {len(proved.rule_set.rules)}",
        f"  proved        it always answers, {dead}",
        f"  laws          {len(proved.rule_set.laws) - codes.count('law-broken')} hold",
        f"  tests         {proved.tests} passed",
    ]


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _json(result: Check, directory: Path, *, sound: bool) -> str:
    return json.dumps(
        {
            "directory": str(directory),
            "sound": sound,
            "revision": result.policy.revision if result.policy else None,
            "rule_sets": [
                {
                    "name": name,
                    "facts": proved.table.space.facts,
                    "combinations": proved.table.space.size,
                    "engine": proved.table.engine,
                    "rules": [rule.id for rule in proved.rule_set.rules],
                    "laws": [law.name for law in proved.rule_set.laws],
                    "tests_passed": proved.tests,
                }
                for name, proved in result.proved.items()
            ],
            "findings": [
                {
                    "severity": finding.severity,
                    "code": finding.code,
                    "file": finding.place.file,
                    "line": finding.place.line,
                    "column": finding.place.column,
                    "sentence": finding.sentence,
                    "hint": finding.hint,
                }
                for finding in result.findings
            ],
        },
        indent=2,
    )
