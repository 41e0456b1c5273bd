"""`callability serve` and `callers`: answer proxies over gRPC, and say who may call."""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from callability.cli import options, policy_service
from callability.cli.application import importing
from callability.cli.options import number_of
from callability.cli.served_policy import loading
from callability.cli.service_settings import SETTINGS, Value, read_setting, settings_or_exit, unused_variables
from callability.contract.finding import Finding, Severity, count_of, findings_data
from callability.files.policy_origin import BundleOrigin, PolicyDirectory, PolicyOrigin, origin_at
from callability.files.shipped_policy import shipped_policy
from callability.kernel.limits import CONCURRENT_CALLS
from callability.process.logs import LogFormat, log_to_standard_error
from callability.records.recorder import RecordLevel

if TYPE_CHECKING:
    from callability.service.callers import Caller

_TOKEN_BYTES = 32


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The callers file.")],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the file for a warning too.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Check the callers file of a service, and print its findings and its callers.

    Exit code 0: no errors. 1: the file is refused. 2: usage error.
    """
    from callability.service.callers import CallersRefused, load_callers  # noqa: PLC0415  # it imports gRPC

    try:
        callers = load_callers(file)
    except CallersRefused as refused:
        if as_json:
            _print_callers(file, (), refused.findings, accepted=False)
        options.refuse(refused.findings, "the callers are refused")
    if as_json:
        _print_callers(file, callers.every, callers.warnings, accepted=not (strict and callers.warnings))
    options.print_findings(callers.warnings)
    if strict and callers.warnings:
        options.leave("the callers are refused: a warning is an error with `--strict`", 1)
    for caller in callers.every:
        known = f"{number_of(len(caller.tokens), 'token')}, {number_of(len(caller.certificates), 'certificate name')}"
        typer.echo(f"{caller.name}: {known}; may call {', '.join(sorted(caller.rights)) or 'nothing'}")


def _print_callers(file: Path, callers: Iterable[Caller], findings: Sequence[Finding], *, accepted: bool) -> NoReturn:
    """Print what was found as JSON, and exit with 0 if the file is accepted, and 1 otherwise."""
    answer = {
        "file": str(file),
        "accepted": accepted,
        "errors": count_of(Severity.ERROR, findings),
        "warnings": count_of(Severity.WARNING, findings),
        "callers": [
            {
                "name": caller.name,
                "tokens": len(caller.tokens),
                "certificates": len(caller.certificates),
                "rights": sorted(caller.rights),
            }
            for caller in callers
        ],
        **findings_data(findings),
    }
    typer.echo(json.dumps(answer, indent=2))
    raise typer.Exit(0 if accepted else 1)


def token(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file that is written; it must not exist.")],
    days: Annotated[int, typer.Option(metavar="NUMBER", min=1, max=3_650, help="Days until the token expires.")] = 90,
) -> None:
    """Write a new token to a file that only its owner can read, and print its entry for the callers file.

    The service knows the token by its SHA-256 alone. Exit code 0: written. 1: the file exists or cannot be written. 2:
    usage error.
    """
    made = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as stream:
                stream.write(f"{made}\n")
        except OSError:
            # An empty file would refuse the next attempt.
            file.unlink()
            raise
    except OSError as error:
        options.leave(f"`{file}` cannot be written: {(error.strerror or 'error').lower()}", 1)
    expires = (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    typer.echo(f'- {{sha256: "{hashlib.sha256(made.encode()).hexdigest()}", expires: "{expires}"}}')


_log = logging.getLogger(__name__)


def _read(name: str) -> Callable[[str | int], Value]:
    """Return what reads the option of a setting."""

    def read(given: str | int) -> Value:
        try:
            return read_setting(name, str(given))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return read


def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="The file with settings. Default: $CALLABILITY_SERVE_CONFIG, or none."
        ),
    ] = None,
    policy: options.PolicyOrBundleOption = None,
    bundle_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY_ID=FILE",
            help="Require a signature of the bundle by the ed25519 public key in a PEM file; if repeated, by one of the"
            " keys.",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="HOST:PORT or unix:PATH; port 0 selects a free one. Beyond loopback, it needs TLS and callers."
            " Default: 127.0.0.1:7420.",
        ),
    ] = None,
    callers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Answer only the callers in this file, each within its rights. Default: anybody."
        ),
    ] = None,
    tls_certificate: policy_service.TlsCertificateOption = None,
    tls_key: policy_service.TlsKeyOption = None,
    tls_client_ca: policy_service.TlsClientCaOption = None,
    insecure_listen: Annotated[bool | None, typer.Option(help=policy_service.INSECURE_LISTEN)] = None,
    socket_mode: Annotated[
        int | None,
        typer.Option(
            metavar="MODE",
            parser=_read("socket_mode"),
            help="The mode of a Unix socket, such as 660. Default: by umask.",
        ),
    ] = None,
    max_concurrent_calls: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            parser=_read("max_concurrent_calls"),
            help=f"Calls in progress at a time. More are refused at once. Default: {CONCURRENT_CALLS:,}.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", parser=_read("workers"), help="Processes that answer on the same port. Default: 1."
        ),
    ] = None,
    max_connection_age: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS",
            parser=_read("max_connection_age"),
            help="Close a connection at this age, once its calls have ended, so that clients spread. Default: never.",
        ),
    ] = None,
    reuse_port: Annotated[
        bool | None,
        typer.Option(help="Let another instance of the same user listen on the port too, to replace this one."),
    ] = None,
    metrics_address: options.MetricsOption = None,
    insecure_metrics: Annotated[bool | None, typer.Option(help=policy_service.INSECURE_METRICS)] = None,
    log_level: Annotated[
        options.LogLevel | None, typer.Option("--log-level", help="The lowest level that is logged. Default: info.")
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option("--log-format", help="How a log line is written: as text, or as a JSON object. Default: text."),
    ] = None,
    log_calls: Annotated[bool | None, typer.Option(help=f"{options.LOG_CALLS} Its level is info.")] = None,
    traces: Annotated[bool | None, typer.Option(help=options.TRACES)] = None,
    shadow: Annotated[
        Path | None, typer.Option(metavar="DIR|BUNDLE", help=f"{options.SHADOW} It needs one worker. Default: none.")
    ] = None,
    records: Annotated[Path | None, typer.Option(metavar="DIR|-", help=f"{options.RECORDS} Default: none.")] = None,
    record_level: Annotated[
        RecordLevel | None, typer.Option("--record-level", help=f"{options.RECORD_LEVEL} Default: refused.")
    ] = None,
    records_mib: Annotated[
        int | None,
        typer.Option(
            metavar="MIB",
            parser=_read("records_mib"),
            help="The most that the files of records take; the oldest are removed. Default: 1,024.",
        ),
    ] = None,
    records_days: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS", parser=_read("records_days"), help="Remove files of records at this age. Default: 30."
        ),
    ] = None,
) -> None:
    """Prove a policy, and answer proxies over gRPC until SIGTERM, SIGINT or SIGHUP.

    A bundle comes from `callability bundle build --with-rule-files`; one whose sequence number is lower than that of
    the last is refused. An edit of the policy takes effect while the service runs if it is proved and passes its tests;
    otherwise the last good policy stays in effect. The same holds for the certificates and the callers. The address is
    written to standard output when calls are answered. Each option is also a setting: `--tls-key` is
    `$CALLABILITY_SERVE_TLS_KEY` in the environment, and `tls_key` in the file. An option counts before a variable, and
    a variable before the file. After a signal, calls in flight have at most 5 seconds to finish, and new calls are
    refused. Exit code 0: stopped by a signal. 1: the policy, the callers, a certificate or the file with settings is
    refused. 2: the address, the place of records or a variable is refused, or an option is wrong.
    """
    given = {name: value for name, value in locals().items() if name in SETTINGS}
    given["bundle_key"] = options.key_files(bundle_key, "--bundle-key", options.MAX_KEYS) or None
    settings: dict[str, Any] = {name: each.value for name, each in settings_or_exit(given, config).items()}
    log_to_standard_error(str(settings["log_level"]), str(settings["log_format"]))
    for name in unused_variables(os.environ):
        _log.warning("`$%s` is not a setting, and is not used", name)
    origin = _origin(settings["policy"], settings["bundle_key"])
    with loading(origin or PolicyDirectory(shipped_policy())) as loaded:
        # The policy is checked meanwhile.
        with importing():
            from callability.cli import service_process  # noqa: PLC0415
        service_process.serve(settings, origin, loaded)


def _origin(policy: Path | None, keys: options.KeyFiles | None) -> PolicyOrigin | None:
    """Return where the policy is read from, None if it is the shipped one; exit with 2 if keys do not fit it."""
    if not keys:
        return origin_at(policy) if policy else None
    if policy is None or policy.is_dir():
        options.leave("`--bundle-key` needs a bundle: give its file as `--policy`", 2)
    try:
        importlib.import_module("callability.kernel.signatures")
    except ImportError as error:
        options.leave(str(error), 2)
    return BundleOrigin(policy, keys)
