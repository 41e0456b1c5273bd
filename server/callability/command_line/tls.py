"""The options of commands that listen or connect with TLS, and what they lead to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from callability.certificates import CertificateFiles, CertificateRefused, WatchedCertificates
from callability.command_line.options import leave
from callability.finding import line

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
INSECURE_LISTEN = "Listen on other addresses than loopback without TLS or without authentication: anybody may ask."
INSECURE_METRICS = "Serve metrics on other addresses than loopback: anybody may read them."
InsecureMetricsOption = Annotated[bool, typer.Option("--insecure-metrics", help=INSECURE_METRICS)]
InsecureListenOption = Annotated[bool, typer.Option("--insecure-listen", help=INSECURE_LISTEN)]


def certificates_of(certificate: Path | None, key: Path | None, client_ca: Path | None) -> WatchedCertificates | None:
    """Return the certificates that options name; None if they name none.

    Exit with code 2 if one of two is missing, and with code 1 if a file is refused.
    """
    if certificate is None or key is None:
        if certificate or key or client_ca:
            leave("TLS needs `--tls-certificate` and `--tls-key`; `--tls-client-ca` goes with them", 2)
        return None
    files = CertificateFiles(
        certificate.absolute(), key.absolute(), client_ca.absolute() if client_ca is not None else None
    )
    try:
        return WatchedCertificates(files)
    except CertificateRefused as refused:
        typer.echo(line(refused.finding), err=True)
        leave("the certificate is refused", 1)


@asynccontextmanager
async def in_background(*followers: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run what follows files inside the context."""
    tasks = [asyncio.create_task(each) for each in followers]
    try:
        yield
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
