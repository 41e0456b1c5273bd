"""A policy service that a command asks: its address, and the credentials for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import grpc
import typer

from callability.address import AddressRefused, check_listen, check_service_address
from callability.client import Client, Credentials
from callability.command_line.options import leave
from callability.regular_file import read_regular
from callability.traces import client_hooks

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
        token = token_reader(self.token_file) if self.token_file else None
        credentials = Credentials(channel=self._tls(), token=token)
        return Client.remote([self.address], credentials=credentials, attempt_seconds=seconds / 2, hooks=client_hooks())

    def _tls(self) -> grpc.ChannelCredentials | None:
        if self.ca is None:
            return None
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
