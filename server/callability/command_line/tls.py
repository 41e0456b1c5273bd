"""The options of commands that listen or connect with TLS, and what they lead to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from callability.certificates import CertificateFiles, CertificateRefused, WatchedCertificates
from callability.command_line.options import leave, refuse

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
