"""Options, logging and exit that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from callability.address import AddressRefused, check_listen
from callability.finding import Finding, finding_lines
from callability.log_output import LogFormat
from callability.traces import NoTraces, start_traces

METRICS_WHY = "anyone who reaches it can read the counts: `--insecure-metrics` allows it"


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", metavar="DIR", help="The directory of the policy. Default: the shipped one."),
]
_POLICY_OR_BUNDLE = "The directory of the policy, or a bundle with rule files. Default: the shipped one."
PolicyOrBundleOption = Annotated[Path | None, typer.Option("--policy", metavar="DIR|BUNDLE", help=_POLICY_OR_BUNDLE)]
PolicyArgument = Annotated[Path | None, typer.Argument(metavar="[DIR|BUNDLE]", help=_POLICY_OR_BUNDLE)]
PolicyAddressOption = Annotated[
    str | None,
    typer.Option("--policy-address", metavar="ADDRESS", help="Ask a `callability serve` at HOST:PORT or unix:PATH."),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics-address",
        metavar="ADDRESS",
        help="HOST:PORT on which Prometheus reads counts, under /metrics. Default: none.",
    ),
]
LogLevelOption = Annotated[
    LogLevel, typer.Option("--log-level", help="The lowest level that is logged to standard error.")
]
LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="How a log line is written: as text, or as a JSON object.")
]
TRACES = "Send traces by OpenTelemetry, as the variables `OTEL_*` say."
LOG_CALLS = "Log a line about each call, with its outcome and how long it took."
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]


def check_policy_choice(directory: Path | None, address: str | None) -> None:
    """Exit with code 2 if both a directory and an address are given."""
    if directory and address is not None:
        leave("`--policy` and `--policy-address` exclude each other", 2)


def check_metrics_address(address: str | None, *, insecure: bool = False) -> None:
    """Exit with code 2 if the address for metrics is not on loopback, unless it may be `insecure`."""
    try:
        if address is not None:
            check_listen(address, METRICS_WHY, any_host=insecure)
    except AddressRefused as error:
        leave(str(error), 2)


def traces_or_exit(program: str) -> Callable[[], None]:
    """Send traces from now on, and return what sends the last ones; exit with 2 if there can be none."""
    try:
        return start_traces(program)
    except NoTraces as error:
        leave(str(error), 2)


def print_findings(findings: Sequence[Finding]) -> None:
    """Write findings to standard error."""
    for each in finding_lines(findings):
        typer.echo(each, err=True)


def refuse(findings: Sequence[Finding], message: str) -> NoReturn:
    """Write findings and what they refuse to standard error, and exit with code 1."""
    print_findings(findings)
    leave(message, 1)


def leave(message: str, code: int) -> NoReturn:
    """Write an error to standard error and exit with a code: 1 for a refusal, 2 for a usage error."""
    typer.echo(f"callability: {message}", err=True)
    raise typer.Exit(code)
