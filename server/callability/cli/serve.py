"""`callability serve` and `callers`: answer proxies over gRPC, and say who may call."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import logging
import os
import secrets
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import uvloop
from prometheus_client import CollectorRegistry

from callability.cli.options import (
    LOG_CALLS,
    MAX_KEYS,
    METRICS_WHY,
    RECORD_LEVEL,
    RECORDS,
    SHADOW,
    TRACES,
    KeyFiles,
    LogLevel,
    MetricsOption,
    PolicyOrBundleOption,
    key_files,
    leave,
    print_findings,
    refuse,
)
from callability.cli.policy_service import (
    INSECURE_LISTEN,
    INSECURE_METRICS,
    TlsCertificateOption,
    TlsClientCaOption,
    TlsKeyOption,
    certificate_files,
    refuse_certificate,
)
from callability.cli.served_policy import Loaded, loaded_from
from callability.cli.service_settings import SETTINGS, Value, read_setting, settings_or_exit, unused_variables
from callability.cli.terminal import final_exit_code, number_of
from callability.files.certificates import CertificateRefused
from callability.files.policy_origin import BundleOrigin, PolicyDirectory, PolicyOrigin, origin_at
from callability.files.shipped_policy import shipped_policy
from callability.kernel.limits import CONCURRENT_CALLS
from callability.otel.traces import NoTraces, check_traces, start_traces
from callability.process.address import AddressRefused, check_listen
from callability.process.logs import LogFormat, fields, log_to_standard_error
from callability.process.metrics import expose
from callability.records.recorder import RecordLevel, RecordOptions
from callability.records.shadow import Shadow
from callability.records.writer import Destination, DestinationRefused
from callability.service.callers import CallersRefused, load_callers
from callability.service.edits import Edits, EditSink, ServedEdits, follow_edits, shadow_edits
from callability.service.guard import raise_descriptor_limit
from callability.service.server import return_large_blocks
from callability.service.workers import SERVICE_NAME, Instance, InstanceOptions, LogOptions, Workers

_TOKEN_BYTES = 32


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The callers file.")],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the file for a warning too.")] = False,
) -> None:
    """Check the callers file of a service, and print its findings.

    Exit code 0: no errors. 1: the file is refused. 2: usage error.
    """
    try:
        callers = load_callers(file)
    except CallersRefused as refused:
        refuse(refused.findings, "the callers are refused")
    print_findings(callers.warnings)
    if strict and callers.warnings:
        leave("the callers are refused: a warning is an error with `--strict`", 1)
    for caller in callers.every:
        known = f"{number_of(len(caller.tokens), 'token')}, {number_of(len(caller.certificates), 'certificate name')}"
        typer.echo(f"{caller.name}: {known}; may call {', '.join(sorted(caller.rights)) or 'nothing'}")


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
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
            stream.write(f"{made}\n")
    except OSError as error:
        leave(f"`{file}` cannot be written: {(error.strerror or 'error').lower()}", 1)
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
    policy: PolicyOrBundleOption = None,
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
    tls_certificate: TlsCertificateOption = None,
    tls_key: TlsKeyOption = None,
    tls_client_ca: TlsClientCaOption = None,
    insecure_listen: Annotated[bool | None, typer.Option(help=INSECURE_LISTEN)] = None,
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
    metrics_address: MetricsOption = None,
    insecure_metrics: Annotated[bool | None, typer.Option(help=INSECURE_METRICS)] = None,
    log_level: Annotated[
        LogLevel | None, typer.Option("--log-level", help="The lowest level that is logged. Default: info.")
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option("--log-format", help="How a log line is written: as text, or as a JSON object. Default: text."),
    ] = None,
    log_calls: Annotated[bool | None, typer.Option(help=f"{LOG_CALLS} Its level is info.")] = None,
    traces: Annotated[bool | None, typer.Option(help=TRACES)] = None,
    shadow: Annotated[
        Path | None, typer.Option(metavar="DIR|BUNDLE", help=f"{SHADOW} It needs one worker. Default: none.")
    ] = None,
    records: Annotated[Path | None, typer.Option(metavar="DIR|-", help=f"{RECORDS} Default: none.")] = None,
    record_level: Annotated[
        RecordLevel | None, typer.Option("--record-level", help=f"{RECORD_LEVEL} Default: refused.")
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
    """Prove a policy, and answer proxies over gRPC until SIGTERM or SIGINT.

    A bundle comes from `callability bundle build --with-rule-files`; one whose sequence number is lower than that of
    the last is refused. An edit of the policy takes effect while the service runs if it is proved and passes its tests;
    otherwise the last good policy stays in effect. The same holds for the certificates and the callers. The address is
    written to standard output when calls are answered. Each option is also a setting: `--tls-key` is
    `$CALLABILITY_SERVE_TLS_KEY` in the environment, and `tls_key` in the file. An option counts before a variable, and
    a variable before the file. After a signal, calls in flight have at most 5 seconds to finish, and new calls are
    refused. Exit code 0: stopped by a signal. 1: the policy, the callers, a certificate or the file with settings is
    refused. 2: the address or a variable is refused, or an option is wrong.
    """
    given = {name: value for name, value in locals().items() if name in SETTINGS}
    given["bundle_key"] = key_files(bundle_key, "--bundle-key", MAX_KEYS) or None
    settings = {name: each.value for name, each in settings_or_exit(given, config).items()}
    log_to_standard_error(str(settings["log_level"]), str(settings["log_format"]))
    for name in unused_variables(os.environ):
        _log.warning("`$%s` is not a setting, and is not used", name)
    return_large_blocks()
    raise_descriptor_limit()
    try:
        serving = _serving(settings)
        uvloop.run(serving.run() if serving.workers == 1 else serving.supervise())
    except (AddressRefused, DestinationRefused, NoTraces) as error:
        leave(str(error), 2)
    except CertificateRefused as refused:
        refuse_certificate(refused)
    except CallersRefused as refused:
        refuse(refused.findings, "the callers are refused")


def _serving(settings: Mapping[str, Any]) -> Serving:
    """Return what settings describe, once everything but the policy is checked.

    Raises:
        AddressRefused: an address may not or cannot be listened on.
        CertificateRefused: the certificate cannot be used.
        CallersRefused: the callers file has errors.
        DestinationRefused: records cannot go where they should.
        NoTraces: traces are asked for, and there can be none.
    """
    if settings["traces"]:
        check_traces()
    if (metrics := settings["metrics_address"]) is not None:
        check_listen(metrics, METRICS_WHY, any_host=settings["insecure_metrics"])
    options = InstanceOptions(
        settings["address"],
        certificate_files(*(settings[name] for name in ("tls_certificate", "tls_key", "tls_client_ca"))),
        settings["callers"].absolute() if settings["callers"] else None,
        settings["insecure_listen"],
        settings["socket_mode"],
        settings["max_concurrent_calls"],
        settings["max_connection_age"],
        settings["reuse_port"],
        LogOptions(settings["log_level"], settings["log_format"], settings["log_calls"]),
        settings["traces"],
        _records(settings),
        settings["shadow"] is not None,
    )
    if options.shadow and settings["workers"] > 1:
        leave("`--shadow` needs one worker, since each would check the candidate", 2)
    options.check(workers=settings["workers"])
    origin = _origin(settings["policy"], settings["bundle_key"])
    loaded = loaded_from(origin or PolicyDirectory(shipped_policy()))
    return Serving(loaded, origin, options, settings["workers"], metrics, settings["shadow"])


def _records(settings: Mapping[str, Any]) -> RecordOptions | None:
    if settings["records"] is None:
        return None
    bounds = settings["records_mib"] * 1024 * 1024, settings["records_days"]
    return RecordOptions(Destination(str(settings["records"]), *bounds), settings["record_level"])


def _origin(policy: Path | None, keys: KeyFiles | None) -> PolicyOrigin | None:
    """Return where the policy is read from, None if it is the shipped one; exit with 2 if keys do not fit it."""
    if not keys:
        return origin_at(policy) if policy else None
    if policy is None or policy.is_dir():
        leave("`--bundle-key` needs a bundle: give its file as `--policy`", 2)
    try:
        importlib.import_module("callability.kernel.signatures")
    except ImportError as error:
        leave(str(error), 2)
    return BundleOrigin(policy, keys)


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served, and where; the shipped policy is not followed."""

    loaded: Loaded
    origin: PolicyOrigin | None
    options: InstanceOptions
    workers: int
    metrics_address: str | None
    candidate: Path | None = None

    async def run(self) -> None:
        """Serve in this process until a signal comes."""
        stopping = _stop_signals()
        hand_over_traces = start_traces(SERVICE_NAME) if self.options.traces else lambda: None
        instance = Instance(self.options, self.loaded.checked)
        edits = self._edits(ServedEdits(instance.served, instance.metrics))
        with expose(instance.registry, self.metrics_address):
            async with instance.running():
                if not self._report_start(instance.address):
                    stopping.set()
                async with follow_edits(edits), follow_edits(self._candidate(instance.shadow)):
                    await stopping.wait()
        _log.info("stopped")
        hand_over_traces()
        _end()

    async def supervise(self) -> None:
        """Serve in other processes until a signal comes."""
        stopping = _stop_signals()
        workers = Workers(self.options, self.workers, self.loaded.checked)
        registry = CollectorRegistry()
        registry.register(workers)
        with expose(registry, self.metrics_address):
            async with workers.run():
                if not self._report_start(workers.address):
                    stopping.set()
                async with follow_edits(self._edits(workers)):
                    await stopping.wait()
        _log.info("stopped")
        _end()

    def _edits(self, sink: EditSink) -> Edits | None:
        return Edits(sink, self.origin, self.loaded.source.digest, self.loaded.checked) if self.origin else None

    def _candidate(self, shadow: Shadow | None) -> Edits | None:
        return shadow_edits(shadow, origin_at(self.candidate)) if shadow is not None and self.candidate else None

    def _report_start(self, address: str) -> bool:
        """Say where the service listens, and return whether that could be said."""
        revision = self.loaded.source.revision
        words = "policy %s, proved by %s, is served on %s"
        _log.info(words, revision, self.loaded.checked.engine, address, extra=fields(revision=revision))
        try:
            typer.echo(f"listening on {address}")
        except OSError:
            # The exit code says it, once the service has ended.
            return False
        return True


def _stop_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


def _end() -> NoReturn:
    """End the process at once: closing the event loop would cancel the calls that come in meanwhile."""
    logging.shutdown()
    os._exit(final_exit_code(0))
