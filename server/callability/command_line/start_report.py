"""The report of `callability config check` and `gateway --check`, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.terminal import escaped, outcome_line
from callability.finding import Finding, Severity, count_of, finding_lines, findings_data, in_order


class ReportFormat(StrEnum):
    """How the report is written."""

    TEXT = "text"
    JSON = "json"


FormOption = Annotated[ReportFormat, typer.Option("--format", help="The output format of the findings.")]
StrictOption = Annotated[bool, typer.Option("--strict", help="Refuse the files for warnings too.")]


@dataclass(frozen=True, slots=True)
class CheckedPolicy:
    """The directory of a policy that was checked, and its revision; None if the policy is refused."""

    directory: Path
    revision: str | None


@dataclass(frozen=True, slots=True)
class StartReport:
    """The findings of a gateway's files and of its policy, in order; `strict`: warnings refuse them too.

    `policy` is None if no directory of a policy was checked.
    """

    config: Path
    findings: tuple[Finding, ...]
    policy: CheckedPolicy | None = None
    strict: bool = False

    @classmethod
    def of(
        cls, config: Path, findings: Iterable[Finding], policy: CheckedPolicy | None = None, *, strict: bool
    ) -> StartReport:
        """Return the report of a config and of what belongs to it."""
        return cls(config, in_order(findings), policy, strict)

    @property
    def errors(self) -> int:
        """How many errors there are."""
        return count_of(Severity.ERROR, self.findings)

    @property
    def warnings(self) -> int:
        """How many warnings there are."""
        return count_of(Severity.WARNING, self.findings)

    @property
    def accepted(self) -> bool:
        """Whether nothing refuses the files."""
        return not self.errors and not (self.strict and self.warnings)

    def printed(self, form: ReportFormat) -> typer.Exit:
        """Print the report, and return the exit of the command: 0 accepted, 1 refused."""
        typer.echo(_json(self) if form is ReportFormat.JSON else _text(self))
        return typer.Exit(0 if self.accepted else 1)


def _text(report: StartReport) -> str:
    policy = () if report.policy is None else (_policy_line(report.policy),)
    end = outcome_line(report.config, report.findings, accepted=report.accepted)
    return "\n".join((*finding_lines(report.findings), *policy, end))


def _policy_line(policy: CheckedPolicy) -> str:
    state = f"accepted, revision {policy.revision}" if policy.revision else "refused"
    return f"policy {escaped(str(policy.directory))}: {state}"


def _json(report: StartReport) -> str:
    answer = {
        "config": str(report.config),
        "policy": None
        if report.policy is None
        else {"directory": str(report.policy.directory), "revision": report.policy.revision},
        "accepted": report.accepted,
        "errors": report.errors,
        "warnings": report.warnings,
        **findings_data(report.findings),
    }
    return json.dumps(answer, indent=2)
