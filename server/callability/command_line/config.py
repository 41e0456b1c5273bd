"""`callability config check`: report everything that a gateway would find in its files at start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from callability import document
from callability.command_line.gateway_files import GivenApprovalsOption, GivenConfigOption, config_or_default
from callability.command_line.options import PolicyAddressOption, check_policy_choice
from callability.command_line.policy_stub import NoAnswer, declared_at, declared_by
from callability.command_line.start_report import FormOption, ReportFormat, StartReport, StrictOption
from callability.finding import Finding, Place, Severity, did_you_mean, shown
from callability.gateway.config import NO_APPROVALS, Approvals, Config, ConfigRefused, load_approvals, load_config
from callability.gateway.config.label_findings import has_labels, label_findings
from callability.gateway.config.place import key_place
from callability.policy.loading import check_source, source_in


def check(
    config: GivenConfigOption = None,
    approvals: GivenApprovalsOption = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="DIR", help="Compare the labels with the policy in a directory.")
    ] = None,
    policy_address: PolicyAddressOption = None,
    strict: StrictOption = False,
    form: FormOption = ReportFormat.TEXT,
) -> None:
    """Check the config and the approvals of a gateway, and print everything that it would find at start.

    No server is started. The labels of the config are compared with a policy if one is given. Variables are read from
    the environment of this command. An approvals file that cannot be read is an error here; a gateway starts with it
    and holds back every tool. `callability gateway --check` checks the policy too. Exit code 0: no errors. 1: a file is
    refused. 2: a wrong call.
    """
    check_policy_choice(policy, policy_address)
    files = checked_files(config, approvals)
    of_policy = policy_findings(files.config, PolicyChoice(policy, policy_address))
    raise StartReport.of(files.path, (*files.findings, *of_policy), strict=strict).printed(form)


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """The policy that a config is compared with: in a directory, or at the address of a service."""

    directory: Path | None = None
    address: str | None = None


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
    return CheckedFiles(path, config, (*config.warnings, *_of_approvals(records), *leftovers))


def policy_findings(config: Config | None, choice: PolicyChoice) -> tuple[Finding, ...]:
    """Return the findings of a policy, and, of a valid config, those about its labels."""
    if choice.address is not None:
        return _findings_of_service(config, choice.address) if config else ()
    if choice.directory is None:
        return tuple(_not_compared(config)) if config else ()
    check = check_source(source_in(choice.directory))
    if config is None or check.policy is None:
        return check.findings
    return (*check.findings, *label_findings(config, declared_by(check.policy)))


def _findings_of_service(config: Config, address: str) -> tuple[Finding, ...]:
    try:
        return label_findings(config, declared_at(address))
    except NoAnswer as reason:
        sentence = f"the policy service at {shown(address)} gave no answer ({reason}), so the policy is not checked"
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


def _of_approvals(approvals: Approvals) -> Iterator[Finding]:
    for finding in approvals.warnings:
        yield finding if approvals.readable else replace(finding, severity=Severity.ERROR)


def _leftovers(config: Config, approvals: Approvals, path: Path) -> Iterator[Finding]:
    """Yield a warning for each server of the approvals that is not in the config."""
    unknown = [server for server in approvals.records if server not in config.names]
    root = document.read(path) if unknown else None
    for server in unknown:
        assert root is not None
        sentence = f"the approvals have records of server {shown(server)}, which is not in the config"
        hint = did_you_mean(server, config.names)
        yield Finding(key_place(root, (server,)), "leftover-records", sentence, hint, Severity.WARNING)
