"""`callability config check` and `schema config`: what a gateway would find in its files, and what they may hold."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from callability.cli import policy_service
from callability.cli.gateway_files import GivenApprovalsOption, GivenConfigOption, config_or_default
from callability.cli.options import PolicyAddressOption, check_policy_choice, escape, number_of, outcome_line
from callability.contract.finding import (
    Finding,
    Place,
    Severity,
    as_code,
    count_of,
    did_you_mean,
    finding_lines,
    findings_data,
    in_order,
    list_names,
)
from callability.files import document
from callability.gateway.config.approvals import NO_APPROVALS, Approvals, load_approvals
from callability.gateway.config.checks import has_labels, label_findings, missing_commands
from callability.gateway.config.config import Config, ConfigRefused, load_config
from callability.gateway.config.findings import TOOL_LISTS
from callability.gateway.config.schema import config_page, config_schema
from callability.gateway.config.variables import key_place


class ReportFormat(StrEnum):
    """How the report is written."""

    TEXT = "text"
    JSON = "json"


FormOption = Annotated[ReportFormat, typer.Option("--format", help="The output format of the findings.")]
StrictOption = Annotated[bool, typer.Option("--strict", help="Refuse the files for warnings too.")]


@dataclass(frozen=True, slots=True)
class PolicyCheck:
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
    policy: PolicyCheck | None
    strict: bool

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

    def print_report(self, form: ReportFormat) -> typer.Exit:
        """Print the report, and return the exit of the command: 0 accepted, 1 refused."""
        typer.echo(_json(self) if form is ReportFormat.JSON else _report_text(self))
        return typer.Exit(0 if self.accepted else 1)


def _report_text(report: StartReport) -> str:
    policy = () if report.policy is None else (_policy_line(report.policy),)
    end = outcome_line(report.config, report.findings, accepted=report.accepted)
    return "\n".join((*finding_lines(report.findings), *policy, end))


def _policy_line(policy: PolicyCheck) -> str:
    state = f"accepted, revision {policy.revision}" if policy.revision else "refused"
    return f"policy {escape(str(policy.directory))}: {state}"


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


def config(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a page for people instead, with the approvals file.")
    ] = False,
) -> None:
    """Print the JSON Schema of the gateway's config, for editors."""
    typer.echo(config_page() if markdown else json.dumps(config_schema(), indent=2), nl=not markdown)


def check(
    config: GivenConfigOption = None,
    approvals: GivenApprovalsOption = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", metavar="DIR", help="Check the policy in a directory too, and compare the labels with it."
        ),
    ] = None,
    policy_address: PolicyAddressOption = None,
    policy_ca: policy_service.PolicyCaOption = None,
    policy_certificate: policy_service.PolicyCertificateOption = None,
    policy_key: policy_service.PolicyKeyOption = None,
    policy_token_file: policy_service.PolicyTokenFileOption = None,
    strict: StrictOption = False,
    form: FormOption = ReportFormat.TEXT,
) -> None:
    """Check the config and the approvals of a gateway, and print everything that it would find at start.

    No server is started. The policy is checked too if one is given, and the labels of the config are compared with it.
    Variables are read from the environment of this command, and commands of servers are searched on its PATH. An
    approvals file that cannot be read is an error here; a gateway starts with it and holds back every tool. Exit code
    0: no errors. 1: a file is refused. 2: usage error.
    """
    check_policy_choice(policy, policy_address)
    service = policy_service.PolicyService.of(
        policy_address, policy_ca, policy_certificate, policy_key, policy_token_file
    )
    files = checked_files(config, approvals)
    raise start_report(files, policy, service, strict=strict).print_report(form)


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """A config, None if it is refused, its file, and all findings of it and of the approvals."""

    path: Path
    config: Config | None
    findings: tuple[Finding, ...]


def checked_files(chosen: Path | None, given: Path | None) -> CheckedFiles:
    """Return what a start would find in a config, and in the approvals that are given or that it names.

    Without a `chosen` config it is the default one; if there is none, the command exits with code 2.
    """
    path = chosen
    try:
        path = config_or_default(chosen)
        config = load_config(path, os.environ)
    except ConfigRefused as refused:
        records = load_approvals(given) if given else NO_APPROVALS
        path = path or Path(refused.findings[0].place.file)
        return CheckedFiles(path, None, (*refused.findings, *_of_approvals(records)))
    of_approvals = given or config.approvals
    records = load_approvals(of_approvals) if of_approvals else NO_APPROVALS
    leftovers = _leftovers(config, records, of_approvals) if of_approvals and records.readable else ()
    found = (
        *config.warnings,
        *missing_commands(config, config.environment),
        *_unchecked_tools(config, records),
        *_open_to_changes(config),
        *config.unrecordable(of_approvals),
        *_of_approvals(records),
        *leftovers,
    )
    return CheckedFiles(path, config, found)


def start_report(
    files: CheckedFiles, directory: Path | None, service: policy_service.PolicyService | None, *, strict: bool
) -> StartReport:
    """Return the report of a config and its approvals, of the policy, and of labels that it does not declare.

    The policy is in a directory, or that of a service.
    """
    config, policy = files.config, None
    if service is not None:
        found = _findings_of_service(config, service) if config else ()
    elif directory is None:
        found = tuple(_not_compared(config)) if config else ()
    else:
        # A gateway that starts takes only the options from here.
        from callability.cli.own_policy import declared_by, missing_facts  # noqa: PLC0415
        from callability.files.policy_check import checked_source  # noqa: PLC0415
        from callability.files.policy_source import source_in  # noqa: PLC0415

        source = source_in(directory)
        checked = asyncio.run(checked_source(source))
        policy = PolicyCheck(directory, source.revision if checked.bundle else None)
        found = checked.findings
        if config and checked.bundle:
            labels = label_findings(config, declared_by(checked.bundle))
            found = (*found, *labels, *missing_facts(config, checked.bundle))
    return StartReport(files.path, in_order((*files.findings, *found)), policy, strict)


def _findings_of_service(config: Config, service: policy_service.PolicyService) -> tuple[Finding, ...]:
    from callability.cli.own_policy import NoAnswer, declared_at  # noqa: PLC0415 - it imports gRPC

    try:
        return label_findings(config, declared_at(service))
    except NoAnswer as reason:
        sentence = (
            f"the policy service at {as_code(service.address)} gave no answer ({reason}), so the policy is not checked"
        )
        hint = "start the service, or correct `--policy-address`"
        unchecked = label_findings(config, None, answered=False)
        return (*unchecked, Finding(Place(config.place().file), "no-policy-service", sentence, hint, Severity.WARNING))


def _not_compared(config: Config) -> Iterator[Finding]:
    if has_labels(config):
        sentence = "the labels of the config are not compared with a policy"
        hint = "give `--policy` or `--policy-address`"
        if config.strict_labels:
            sentence = f"{sentence}, although `strict_labels` is `true`"
        severity = Severity.WARNING if config.strict_labels else Severity.NOTE
        at = config.place("strict_labels" if config.strict_labels else "mcpServers")
        yield Finding(at, "labels-not-checked", sentence, hint, severity)


def _unchecked_tools(config: Config, approvals: Approvals) -> Iterator[Finding]:
    """Yield one note if the config lists tools without a record: only a connected server knows its tools."""
    for name, server in config.servers.items():
        for key in TOOL_LISTS:
            if set(getattr(server, key) or ()).difference(approvals.tools(name)):
                sentence = "names in `enabled_tools` and `disabled_tools` are not checked: no server is connected"
                hint = "a running gateway warns about names that match no tool"
                at = config.place("mcpServers", name, key)
                yield Finding(at, "tools-not-checked", sentence, hint, Severity.NOTE)
                return


def _open_to_changes(config: Config) -> Iterator[Finding]:
    """Yield one note if there are servers whose tools may change without a review."""
    open_to_any = [name for name in config.names if config.server(name).trust == "auto"]
    if open_to_any:
        one = len(open_to_any) == 1
        sentence = (
            f"{number_of(len(open_to_any), 'server')} {'accepts' if one else 'accept'} any change of"
            f" {'its' if one else 'their'} tools without a review (`trust: auto`): {list_names(open_to_any)}"
        )
        hint = "with `trust: first_use`, a tool that changes is locked; with `trust: manual`, a new one is locked too"
        section = config.section(open_to_any[0])
        yield Finding(config.place(section), "any-change-accepted", sentence, hint, Severity.NOTE)


def _of_approvals(approvals: Approvals) -> Iterator[Finding]:
    for finding in approvals.warnings:
        yield finding if approvals.readable else replace(finding, severity=Severity.ERROR)


def _leftovers(config: Config, approvals: Approvals, path: Path) -> Iterator[Finding]:
    """Yield a warning for each server of the approvals that is not in the config."""
    unknown = [server for server in approvals.records if server not in config.names]
    root = document.read(path) if unknown else None
    for server in unknown:
        assert root is not None
        sentence = f"the approvals have records of server {as_code(server)}, which is not in the config"
        hint = did_you_mean(server, config.names)
        yield Finding(key_place(root, (server,)), "leftover-records", sentence, hint, Severity.WARNING)
