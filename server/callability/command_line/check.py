"""`callability check`: prove a policy, and print its findings and, on request, the effect of each rule."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from callability.bundling.writing import with_size
from callability.command_line.check_report import CheckReport, as_json, as_text
from callability.command_line.options import JsonOption, PolicyArgument
from callability.command_line.progress import progress_bar
from callability.command_line.sarif import as_sarif
from callability.command_line.watch import WatchOption, watched
from callability.files.bundle_origin import origin_at
from callability.files.policy_source import PolicySource
from callability.files.shipped_policy import shipped_policy
from callability.policy.deciding.evaluation import Engine
from callability.policy.loading import check_source


class CheckFormat(StrEnum):
    """The output format of the findings."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def check(
    directory: PolicyArgument = None,
    engine: Annotated[
        Engine, typer.Option(help="What confirms the policy. `both` compares durable-rules with the reference.")
    ] = Engine.AUTO,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the policy for warnings too.")] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Print for each rule where it decides, and where its position matters."),
    ] = False,
    form: Annotated[
        CheckFormat, typer.Option("--format", help="Output format: JSON has everything, SARIF the findings.")
    ] = CheckFormat.TEXT,
    json: JsonOption = False,
    watch: WatchOption = False,
) -> None:
    """Prove a policy: decide every combination of facts, prove its laws, run its tests and print all findings.

    With `--watch`, check again after each edit. Exit code 0: the policy is accepted. 1: it is refused.
    """
    of = directory or shipped_policy()
    origin = origin_at(of)

    def sound(written: PolicySource) -> bool:
        with progress_bar() as progress:
            result = with_size(check_source(written, engine=engine, progress=progress, wants_tests=True), written.shown)
        checked = CheckReport(of, result, strict=strict)
        typer.echo(_report(checked, CheckFormat.JSON if json else form, verbose=verbose))
        return checked.sound

    raise typer.Exit(0 if (watched(origin, sound) if watch else sound(origin.source())) else 1)


def _report(checked: CheckReport, form: CheckFormat, *, verbose: bool) -> str:
    match form:
        case CheckFormat.TEXT:
            return as_text(checked, verbose=verbose)
        case CheckFormat.JSON:
            return as_json(checked)
        case CheckFormat.SARIF:
            return as_sarif(checked)
