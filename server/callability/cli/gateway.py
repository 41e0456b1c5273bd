"""`callability gateway`: run an MCP server in front of other MCP servers."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from callability.cli import gateway_files, options, policy_service
from callability.cli.application import check_extra, importing
from callability.cli.config import FormOption, ReportFormat, StartReport, StrictOption, checked_files, start_report
from callability.files.shipped_policy import shipped_policy
from callability.gateway.config.config import VARIABLE, Config, ConfigRefused, awaited_config, load_config
from callability.gateway.config.findings import content
from callability.gateway.config.model import ConfigFile
from callability.gateway.serving.listening import HttpPort, UserSocket
from callability.process.address import AddressRefused
from callability.process.logs import LogFormat, log_to_standard_error
from callability.records.recorder import RecordLevel, RecordOptions
from callability.records.writer import Destination, DestinationRefused

NOT_SHOWN = "(not shown)"


def gateway_rows(given: Path | None) -> Sequence[tuple[str, str, str]]:
    """Return each key with its value and its source; exit with 1 if the config is refused, with 2 if there is none."""
    try:
        path = gateway_files.config_or_default(given)
        config = load_config(path, os.environ)
    except ConfigRefused as refused:
        options.refuse(refused.findings, "the config is refused")
    source = "--config" if given else f"${VARIABLE}" if os.environ.get(VARIABLE) else "default"
    file = ConfigFile.model_validate(content(config.root))
    return [("config", str(path), source), *_rows(file, (), config)]


def _rows(model: BaseModel, above: tuple[str, ...], config: Config) -> Iterator[tuple[str, str, str]]:
    for name, field in type(model).model_fields.items():
        key = field.alias or name
        location = (*above, key)
        value = getattr(model, name)
        if key == "$schema" or (value is None and name not in model.model_fields_set):
            continue
        source = str(config.place(*location)) if name in model.model_fields_set else "default"
        shown_key = ".".join(location)
        if not field.repr:
            if value:
                yield shown_key, NOT_SHOWN, source
        elif isinstance(value, BaseModel):
            yield from _rows(value, location, config)
        elif isinstance(value, Mapping) and any(isinstance(each, BaseModel) for each in value.values()):
            for inner, each in value.items():
                yield from _rows(each, (*location, inner), config)
        else:
            yield shown_key, _setting_text(value), source


def _setting_text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case None | {}:
            return "-"
        case Mapping():
            return ", ".join(f"{key}: {_setting_text(each)}" for key, each in value.items()) or "-"
        case tuple():
            return ", ".join(map(str, value)) or "-"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


# Most of it is imported when a gateway runs, and its absence has to be known before.
check_extra("gateway")

_ADDRESS = "127.0.0.1:7421"
_log = logging.getLogger(__name__)


class Transport(StrEnum):
    """How agents connect."""

    STDIO = "stdio"
    HTTP = "http"
    UNIX = "unix"


TransportOption = Annotated[Transport, typer.Option(help="How agents connect.")]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="With `--transport http`: HOST:PORT, where port 0 selects a free one. Beyond loopback, it needs TLS, and"
        " tokens or client certificates. Default: 127.0.0.1:7421.",
    ),
]
AgentOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Over stdio: the agent of the config that connects. Default: one that sees every server."
    ),
]
IdleOption = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="With `--transport unix`: exit once no agent has been connected for this long. Default: never.",
        show_default=False,
    ),
]
WaitForConfigOption = Annotated[
    bool,
    typer.Option(
        "--wait-for-config",
        help="With `--transport unix`: if the config has errors, start without servers, and open them once the errors"
        " are corrected.",
    ),
]
ByMeaningOption = Annotated[
    bool,
    typer.Option(
        "--by-meaning",
        help="Find tools by meaning too, after the first five that words find. Needs the extra `semantic`.",
    ),
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Check the files and the policy, print the findings, and exit.")
]


def gateway(
    config: gateway_files.GivenConfigOption = None,
    approvals: gateway_files.GivenApprovalsOption = None,
    policy: options.PolicyOption = None,
    policy_address: options.PolicyAddressOption = None,
    policy_ca: policy_service.PolicyCaOption = None,
    policy_certificate: policy_service.PolicyCertificateOption = None,
    policy_key: policy_service.PolicyKeyOption = None,
    policy_token_file: policy_service.PolicyTokenFileOption = None,
    transport: TransportOption = Transport.STDIO,
    address: AddressOption = None,
    tls_certificate: policy_service.TlsCertificateOption = None,
    tls_key: policy_service.TlsKeyOption = None,
    tls_client_ca: policy_service.TlsClientCaOption = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A name by which clients reach the gateway; may be given several times."),
    ] = None,
    insecure_listen: policy_service.InsecureListenOption = False,
    idle_seconds: IdleOption = 0,
    wait_for_config: WaitForConfigOption = False,
    agent: AgentOption = "",
    metrics_address: options.MetricsOption = None,
    insecure_metrics: policy_service.InsecureMetricsOption = False,
    log_level: options.LogLevelOption = options.LogLevel.INFO,
    log_format: options.LogFormatOption = LogFormat.TEXT,
    log_calls: Annotated[bool, typer.Option("--log-calls", help=f"{options.LOG_CALLS} Its level is debug.")] = False,
    traces: Annotated[bool, typer.Option("--traces", help=options.TRACES)] = False,
    by_meaning: ByMeaningOption = False,
    shadow: Annotated[
        Path | None, typer.Option("--shadow", metavar="DIR|BUNDLE", help=f"{options.SHADOW} Default: none.")
    ] = None,
    records: Annotated[
        str | None,
        typer.Option(
            "--records", metavar="DIR|-", help=f"{options.RECORDS} Default: as the config says, or else none."
        ),
    ] = None,
    record_level: Annotated[
        RecordLevel | None,
        typer.Option("--record-level", help=f"{options.RECORD_LEVEL} Default: as the config says, or else refused."),
    ] = None,
    check: CheckOption = False,
    strict: StrictOption = False,
    form: FormOption = ReportFormat.TEXT,
) -> None:
    """Run one MCP server in front of many: agents find and call tools, and read why a tool cannot be called.

    An edit of the config, the approvals or the policy takes effect while the gateway runs, whole or not at all. The
    gateway exits and ends the processes of its servers when standard input closes (stdio), or at SIGTERM, SIGINT or
    SIGHUP. Over HTTP, its URL is written to standard output. With `--transport unix`, agents join by `callability
    connect`, on a socket that only this user reaches. With `--check`, no server is started and no address is
    listened on. Exit code 0: stopped, or no errors. 1: the config or the policy is refused. 2: usage error, an
    address that cannot be listened on, or a place where records cannot go.
    """
    log_to_standard_error(log_level, log_format)
    if not check and (strict or form is not ReportFormat.TEXT):
        options.leave("`--strict` and `--format` go with `--check`", 2)
    options.check_policy_choice(policy, policy_address)
    options.check_metrics_address(metrics_address, insecure=insecure_metrics)
    service = policy_service.PolicyService.of(
        policy_address, policy_ca, policy_certificate, policy_key, policy_token_file
    )
    certificates = policy_service.certificates_of(
        policy_service.certificate_files(tls_certificate, tls_key, tls_client_ca)
    )
    port = HttpPort(address or _ADDRESS, certificates, insecure_listen, tuple(allowed_host or ()))
    _check_transport(transport, address, port, idle_seconds, waits=wait_for_config)
    if check:
        directory = policy or (shipped_policy() if service is None else None)
        listening = port if transport is Transport.HTTP else None
        report = _check_files(config, approvals, directory, service, agent, listening, strict=strict)
        raise report.print_report(form)
    read = _config(config, approvals, waits=wait_for_config)
    if agent:
        _check_agent(read, agent, transport)
    if transport is Transport.HTTP:
        _check_port(port, read)
    for finding in read.warnings:
        _log.warning("%s", finding)
    recorded = _records(read, records, record_level, transport)
    # It imports the MCP SDK, which takes longer than everything up to here.
    with importing():
        from callability.cli import gateway_process  # noqa: PLC0415

    if log_calls:
        gateway_process.log_calls()
    end = options.traces_or_exit("callability-gateway") if traces else lambda: None
    if by_meaning:
        _check_table()
    opened = gateway_process.connected_options(
        read, approvals, None, policy, service, metrics_address, recorded, shadow, by_meaning=by_meaning
    )
    at = UserSocket(read.path, idle_seconds) if transport is Transport.UNIX else port
    gateway_process.run_and_exit(opened, transport.value, at, agent, end)


def _records(
    config: Config, given: str | None, level: RecordLevel | None, transport: Transport
) -> RecordOptions | None:
    """Return where records go, by the options and the config; exit with 2 if they cannot go there."""
    of_config = gateway_files.records_of(config)
    if given is None and of_config is None:
        if level is not None:
            options.leave("`--record-level` goes with `--records`", 2)
        return None
    wanted = of_config or RecordOptions(Destination(""))
    if given is not None:
        wanted = replace(wanted, destination=replace(wanted.destination, place=given))
    wanted = replace(wanted, level=level or wanted.level)
    if wanted.destination.is_standard_output and transport is Transport.STDIO:
        options.leave("records cannot go to standard output over stdio: it is the channel of MCP; name a directory", 2)
    if wanted.destination.is_standard_output and os.path.samestat(os.fstat(1), os.stat(os.devnull)):
        lost = f"records would be lost: standard output is {os.devnull}, as a client starts it; name a directory"
        options.leave(lost, 2)
    try:
        wanted.destination.check()
    except DestinationRefused as error:
        options.leave(str(error), 2)
    return wanted


def _check_transport(
    transport: Transport, address: str | None, port: HttpPort, idle_seconds: float, *, waits: bool
) -> None:
    """Exit with code 2 if options are given that go with another transport."""
    if (idle_seconds or waits) and transport is not Transport.UNIX:
        options.leave(f"`{'--idle-seconds' if idle_seconds else '--wait-for-config'}` goes with `--transport unix`", 2)
    if transport is Transport.HTTP:
        return
    if address is not None:
        options.leave(
            f"`--address` goes with `--transport http`: over {transport}, the gateway listens on no address", 2
        )
    if port.certificates or port.insecure or port.hosts:
        options.leave("TLS, `--allowed-host` and `--insecure-listen` go with `--transport http`", 2)


def _check_table() -> None:
    """Read the table of the extra `semantic`, or exit with code 2."""
    from callability.gateway.meaning import TableUnreadable, word_vectors  # noqa: PLC0415 - slow to import

    try:
        word_vectors()
    except TableUnreadable as error:
        options.leave(f"`--by-meaning` needs the extra `semantic`: {error}; run pip install 'callability[semantic]'", 2)


def _check_port(port: HttpPort, config: Config) -> None:
    try:
        port.check(agents_have_tokens=any(agent.token_sha256 for agent in config.agents.values()))
    except AddressRefused as error:
        options.leave(str(error), 2)


def _check_agent(config: Config, agent: str, transport: Transport) -> None:
    if transport is Transport.HTTP:
        options.leave("`--agent` goes with `--transport stdio`: over HTTP, the token identifies the agent", 2)
    if transport is Transport.UNIX:
        options.leave(
            "`--agent` goes with `--transport stdio`: on a Unix socket, `callability connect` names the agent", 2
        )
    gateway_files.known_agent(config, agent)


def _config(given: Path | None, approvals: Path | None, *, waits: bool) -> Config:
    """Return the config; if it is refused, return one that is awaited if the gateway `waits`, or else exit with 1."""
    path = None
    try:
        path = gateway_files.config_or_default(given)
        config = load_config(path, os.environ)
        config.check_recordable(approvals or config.approvals)
        return config
    except ConfigRefused as refused:
        if waits and path is not None:
            # The gateway reports what is refused when it reads the file.
            return awaited_config(path)
        gateway_files.print_refused(refused)
        raise typer.Exit(1) from None


def _check_files(
    path: Path | None,
    approvals: Path | None,
    directory: Path | None,
    service: policy_service.PolicyService | None,
    agent: str,
    port: HttpPort | None,
    *,
    strict: bool,
) -> StartReport:
    """Return what a start would find; without a port, it is one over stdio."""
    files = checked_files(path, approvals)
    if agent and files.config is not None:
        _check_agent(files.config, agent, Transport.HTTP if port else Transport.STDIO)
    if port is not None and files.config is not None:
        _check_port(port, files.config)
    return start_report(files, directory, service, strict=strict)
