"""A policy service, and how a command reaches it: address, TLS, credentials, and `callability healthcheck`."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from callability.cli.options import leave, refuse
from callability.files.certificates import (
    CertificateFiles,
    CertificateRefused,
    WatchedCertificates,
    presented_certificate,
    read_certificates,
)
from callability.otel.traces import client_hooks
from callability.process.address import (
    DIRECT,
    AddressRefused,
    check_listen,
    check_service_address,
    check_socket_path,
    socket_path,
)
from callability.process.regular_file import read_regular

if TYPE_CHECKING:
    import grpc

    from callability.cli.service_settings import Effective
    from callability.client import Client

TlsCertificateOption = Annotated[
    Path | None,
    typer.Option("--tls-certificate", metavar="FILE", help="The server's certificate chain in PEM, for TLS."),
]
TlsKeyOption = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate in PEM, without password.")
]
TlsClientCaOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca", metavar="FILE", help="Accept only clients with a certificate of these authorities (mTLS)."
    ),
]
INSECURE_LISTEN = "Listen beyond loopback without TLS or without authentication: anybody may ask."
INSECURE_METRICS = "Serve metrics beyond loopback: anybody may read them."
InsecureMetricsOption = Annotated[bool, typer.Option("--insecure-metrics", help=INSECURE_METRICS)]
InsecureListenOption = Annotated[bool, typer.Option("--insecure-listen", help=INSECURE_LISTEN)]


def certificate_files(certificate: Path | None, key: Path | None, client_ca: Path | None) -> CertificateFiles | None:
    """Return the files that options name; None if they name none. Exit with code 2 if one of two is missing."""
    if certificate is None or key is None:
        if certificate or key or client_ca:
            leave("TLS needs `--tls-certificate` and `--tls-key`; `--tls-client-ca` goes with them", 2)
        return None
    return CertificateFiles(
        certificate.absolute(), key.absolute(), client_ca.absolute() if client_ca is not None else None
    )


def certificates_of(files: CertificateFiles | None) -> WatchedCertificates | None:
    """Return the certificates in files, or exit with code 1 if they are refused."""
    if files is None:
        return None
    try:
        return WatchedCertificates(files)
    except CertificateRefused as refused:
        refuse_certificate(refused)


def refuse_certificate(refused: CertificateRefused) -> NoReturn:
    """Print the finding, and exit with code 1."""
    refuse([refused.finding], "the certificate is refused")


_CHECK = "/grpc.health.v1.Health/Check"
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


@dataclass(frozen=True, slots=True)
class Probe:
    """What is asked, and with which credentials."""

    address: str
    authorities: bytes | None = None
    server_name: str = ""
    certificate: bytes | None = None
    key: bytes | None = None

    async def ask(self, service: str, seconds: float) -> str:
        """Return the status of a service, or the code of the error if there is no answer."""
        # Most commands with these options ask no service.
        import grpc  # noqa: PLC0415
        from grpc_health.v1 import health_pb2  # noqa: PLC0415

        statuses = health_pb2.HealthCheckResponse.ServingStatus
        named = (("grpc.ssl_target_name_override", self.server_name),) if self.server_name else ()
        options = (DIRECT, *named)
        if self.authorities is None:
            channel = grpc.aio.insecure_channel(self.address, options=options)
        else:
            credentials = grpc.ssl_channel_credentials(self.authorities, self.key, self.certificate)
            channel = grpc.aio.secure_channel(self.address, credentials, options=options)
        async with channel:
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_CHECK)
            try:
                reply = await call(health_pb2.HealthCheckRequest(service=service).SerializeToString(), timeout=seconds)
            except grpc.aio.AioRpcError as error:
                why = error.details()
                if self.authorities is None and await _speaks_tls(self.address, seconds):
                    why = "the service speaks TLS: give the authorities of its certificate by `--tls-ca FILE`"
                typer.echo(f"callability: `{self.address}`: {why}", err=True)
                return error.code().name
        return str(statuses.Name(health_pb2.HealthCheckResponse.FromString(reply).status))


async def _speaks_tls(address: str, seconds: float) -> bool:
    """Say whether a service presents a certificate, of whatever worth."""
    try:
        async with asyncio.timeout(seconds):
            await presented_certificate(address, None, None)
    except ssl.SSLCertVerificationError:
        return True
    except OSError:
        return False
    return True


def healthcheck(
    address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="HOST:PORT or unix:PATH. Default: that of the settings of the service."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The config of the service. Default: $CALLABILITY_SERVE_CONFIG."),
    ] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-ca", metavar="FILE", help="Ask over TLS; the service has a certificate of these authorities."
        ),
    ] = None,
    tls_server_name: Annotated[
        str, typer.Option(metavar="NAME", help="The name in the certificate, if it is not that of the address.")
    ] = "",
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The client certificate, if the service requires one.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of the client certificate.")] = None,
    service: Annotated[
        str, typer.Option(metavar="NAME", help="The gRPC service that is asked about. Default: all of them.")
    ] = "",
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, max=60, help="How long to wait.")] = 3.0,
) -> None:
    """Ask a service whether it serves, and print its status.

    Without options it asks the service of the same environment and config, on this machine, and trusts the certificate
    that it presents. No token is needed. Exit code 0: SERVING. 1: another status, or no answer. 2: usage error.
    """
    from callability.cli.service_settings import settings_or_exit  # noqa: PLC0415 - as is gRPC

    if (tls_certificate is None) != (tls_key is None):
        leave("`--tls-certificate` and `--tls-key` go together", 2)
    client = (_content(tls_certificate), _content(tls_key))
    settings = settings_or_exit({}, config) if address is None else {}
    probe = Probe(address or _local(settings), _content(tls_ca), tls_server_name, *client)
    _check_address(probe.address)
    files = _certificate_files(settings)
    if files is None:
        reply = probe.ask(service, timeout)
    elif probe.authorities is None:
        reply = _ask_trusting(probe, service, timeout)
    else:
        reply = replace(probe, server_name=tls_server_name or _name_in(files)).ask(service, timeout)
    status = asyncio.run(reply)
    typer.echo(status)
    raise typer.Exit(0 if status == "SERVING" else 1)


def _local(settings: Mapping[str, Effective]) -> str:
    """Return the address at which the service of these settings is reached from this machine."""
    address = str(settings["address"].value)
    host, colon, port = address.rpartition(":")
    return address if address.startswith("unix:") else f"{_ANY_HOST.get(host, host)}{colon}{port}"


def _certificate_files(settings: Mapping[str, Effective]) -> CertificateFiles | None:
    """Return where the certificate of the service of these settings is; None if it has none."""
    certificate, key = (settings[name].value if settings else None for name in ("tls_certificate", "tls_key"))
    return CertificateFiles(certificate, key) if isinstance(certificate, Path) and isinstance(key, Path) else None


def _name_in(files: CertificateFiles) -> str:
    """Return a name that the certificate is for."""
    try:
        names = read_certificates(files).names
    except CertificateRefused as refused:
        refuse_certificate(refused)
    return names[0] if names else ""


async def _ask_trusting(probe: Probe, service: str, seconds: float) -> str:
    """Ask the service of this machine, and trust the certificate that it presents: the files may hold another one.

    The previous one stays in effect if an edit of the files is refused, and until a good edit is noticed. A probe
    sends no secret, and reads no more than a status.
    """
    started = perf_counter()
    try:
        async with asyncio.timeout(seconds):
            certificate, names = await presented_certificate(probe.address, probe.certificate, probe.key)
    except OSError as error:
        typer.echo(f"callability: `{probe.address}`: {error.strerror or str(error) or 'no answer'}", err=True)
        return "DEADLINE_EXCEEDED" if isinstance(error, TimeoutError) else "UNAVAILABLE"
    trusting = replace(probe, authorities=certificate, server_name=probe.server_name or next(iter(names), ""))
    return await trusting.ask(service, seconds - (perf_counter() - started))


def _content(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return read_regular(path)
    except OSError as error:
        leave(f"{path}: cannot be read: {(error.strerror or 'error').lower()}", 2)


def _check_address(address: str) -> None:
    try:
        if address.startswith("unix:"):
            check_socket_path(socket_path(address))
        else:
            check_listen(address, "", any_host=True)
    except AddressRefused as error:
        leave(str(error), 2)


PolicyCaOption = Annotated[
    Path | None,
    typer.Option(
        "--policy-ca", metavar="FILE", help="Ask the service over TLS; it has a certificate of these authorities."
    ),
]
PolicyCertificateOption = Annotated[
    Path | None,
    typer.Option("--policy-certificate", metavar="FILE", help="The client certificate for the service, in PEM."),
]
PolicyKeyOption = Annotated[
    Path | None, typer.Option("--policy-key", metavar="FILE", help="The key of the client certificate, in PEM.")
]
PolicyTokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--policy-token-file", metavar="FILE", help="The token for the service. It is read again when it changes."
    ),
]
_PLAIN = "the service is asked without encryption: give `--policy-ca`"


@dataclass(frozen=True, slots=True)
class PolicyService:
    """Where a service is, and what it is asked with."""

    address: str
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None

    @classmethod
    def of(
        cls, address: str | None, ca: Path | None, certificate: Path | None, key: Path | None, token_file: Path | None
    ) -> PolicyService | None:
        """Return the service that options name, None if they name none; exit with 2 if they do not fit together."""
        if address is None:
            if ca or certificate or key or token_file:
                leave("`--policy-ca` and the other credentials for a service go with `--policy-address`", 2)
            return None
        if (certificate is None) != (key is None) or (certificate and ca is None):
            leave("`--policy-certificate` and `--policy-key` go together, and with `--policy-ca`", 2)
        service = cls(address, ca, certificate, key, token_file)
        try:
            service._check_address()
            service._check_files()
        except AddressRefused as error:
            leave(str(error), 2)
        except OSError as error:
            leave(f"{error.filename}: cannot be read: {(error.strerror or 'error').lower()}", 1)
        return service

    def _check_address(self) -> None:
        if self.ca is None or self.address.startswith("unix:"):
            check_service_address(self.address, _PLAIN)
            return
        check_listen(self.address, _PLAIN, any_host=True)
        if int(self.address.rpartition(":")[2]) == 0:
            raise AddressRefused(f"`{self.address}` cannot be asked: port 0 only lets a server choose a free port")

    def _check_files(self) -> None:
        for path in (self.ca, self.certificate, self.key, self.token_file):
            if path is not None:
                read_regular(path)

    def client(self, seconds: float) -> Client:
        """Return a client of the service whose calls take so long at most, with both attempts.

        Its calls have the token that the file holds when they are made.
        """
        from callability.client import Client, Credentials  # noqa: PLC0415 - it imports gRPC

        token = token_reader(self.token_file) if self.token_file else None
        credentials = Credentials(channel=self._tls(), token=token)
        return Client.remote([self.address], credentials=credentials, attempt_seconds=seconds / 2, hooks=client_hooks())

    def _tls(self) -> grpc.ChannelCredentials | None:
        if self.ca is None:
            return None
        import grpc  # noqa: PLC0415 - slow to import

        return grpc.ssl_channel_credentials(
            read_regular(self.ca),
            read_regular(self.key) if self.key else None,
            read_regular(self.certificate) if self.certificate else None,
        )


def token_reader(path: Path) -> Callable[[], str]:
    """Return what returns the current token of a file; if the file cannot be read now, the last one."""
    seen: tuple[int, int] | None = None
    token = ""

    def read() -> str:
        nonlocal seen, token
        try:
            status = os.stat(path)
            if (stamp := (status.st_mtime_ns, status.st_ino)) != seen:
                token, seen = read_regular(path).decode().strip(), stamp
        except (OSError, UnicodeDecodeError):
            if seen is None:
                raise
        return token

    return read
