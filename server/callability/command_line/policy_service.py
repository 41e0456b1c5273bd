"""A policy service that a command asks: its address, and the credentials for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer

from callability.address import DIRECT, AddressRefused, check_listen, check_service_address, is_loopback
from callability.command_line.options import leave

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

    @property
    def _direct(self) -> bool:
        host = self.address.rpartition(":")[0].removeprefix("[").removesuffix("]")
        return self.address.startswith("unix:") or is_loopback(host)

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
                path.read_bytes()

    def channel(self, *options: tuple[str, int]) -> grpc.aio.Channel:
        """Return a channel to the service. Its calls have the token that the file holds when they are made."""
        interceptors: list[Any] = [_Authorization(token_reader(self.token_file))] if self.token_file else []
        every = [*options, *((DIRECT,) if self._direct else ())]
        if self.ca is None:
            return grpc.aio.insecure_channel(self.address, options=every, interceptors=interceptors)
        credentials = grpc.ssl_channel_credentials(
            self.ca.read_bytes(),
            self.key.read_bytes() if self.key else None,
            self.certificate.read_bytes() if self.certificate else None,
        )
        return grpc.aio.secure_channel(self.address, credentials, options=every, interceptors=interceptors)


def token_reader(path: Path) -> Callable[[], str]:
    """Return what returns the current token of a file; if the file cannot be read now, the last one."""
    seen: tuple[int, int] | None = None
    token = ""

    def read() -> str:
        nonlocal seen, token
        try:
            status = os.stat(path)
            if (stamp := (status.st_mtime_ns, status.st_ino)) != seen:
                token, seen = path.read_text(encoding="utf-8").strip(), stamp
        except (OSError, UnicodeDecodeError):
            if seen is None:
                raise
        return token

    return read


class _Authorization(grpc.aio.UnaryUnaryClientInterceptor):
    """Adds the current token to each call, on channels without TLS too: those of this machine."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """Add the token to the metadata."""
        metadata = grpc.aio.Metadata(*(details.metadata or ()), ("authorization", f"Bearer {self._token()}"))
        return await continuation(details._replace(metadata=metadata), request)
