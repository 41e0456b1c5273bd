"""`callability healthcheck`: ask a service whether it serves, for a container or a script."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import grpc
import typer
from grpc_health.v1 import health_pb2

from callability.address import DIRECT, AddressRefused, check_listen, check_socket_path, socket_path
from callability.certificates import CertificateFiles, CertificateRefused, read_certificates
from callability.command_line.options import leave
from callability.command_line.service_settings import Effective, settings_or_exit
from callability.finding import line

_CHECK = "/grpc.health.v1.Health/Check"
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
_Status = health_pb2.HealthCheckResponse.ServingStatus


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
                typer.echo(f"callability: `{self.address}`: {error.details()}", err=True)
                return error.code().name
        return str(_Status.Name(health_pb2.HealthCheckResponse.FromString(reply).status))


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

    Without options it asks the service of the same environment and config, on this machine, and trusts its certificate
    alone. No token is needed. Exit code 0: SERVING. 1: another status, or no answer. 2: usage error.
    """
    if (tls_certificate is None) != (tls_key is None):
        leave("`--tls-certificate` and `--tls-key` go together", 2)
    client = (_content(tls_certificate), _content(tls_key))
    if address is not None:
        probe = Probe(address, _content(tls_ca), tls_server_name, *client)
    else:
        settings = settings_or_exit({}, config)
        authorities, name = _trusted(settings)
        probe = Probe(_local(settings), _content(tls_ca) or authorities, tls_server_name or name, *client)
    _check_address(probe.address)
    status = asyncio.run(probe.ask(service, timeout))
    typer.echo(status)
    raise typer.Exit(0 if status == "SERVING" else 1)


def _local(settings: Mapping[str, Effective]) -> str:
    """Return the address at which the service of these settings is reached from this machine."""
    address = str(settings["address"].value)
    host, colon, port = address.rpartition(":")
    return address if address.startswith("unix:") else f"{_ANY_HOST.get(host, host)}{colon}{port}"


def _trusted(settings: Mapping[str, Effective]) -> tuple[bytes | None, str]:
    """Return the certificate of the service of these settings, and a name in it; None if it has none."""
    certificate, key = settings["tls_certificate"].value, settings["tls_key"].value
    if not isinstance(certificate, Path) or not isinstance(key, Path):
        return None, ""
    try:
        current = read_certificates(CertificateFiles(certificate, key))
    except CertificateRefused as refused:
        typer.echo(line(refused.finding), err=True)
        leave("the certificate is refused", 1)
    return current.chain, current.names[0] if current.names else ""


def _content(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
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
