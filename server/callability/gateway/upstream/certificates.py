"""Chooses the certificates that are trusted when an upstream is reached over TLS."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from time import monotonic

import httpx2

FRESH_SECONDS = 5
"""How long certificates are used before they are read again."""


def trusted() -> ssl.SSLContext:
    """Return what trusts the system's certificates, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.

    Reading them holds up the whole process for 50 ms: connections that are opened at one time share them.
    """
    return _read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"), int(monotonic() / FRESH_SECONDS))


@lru_cache(maxsize=1)
def _read(file: str | None, directory: str | None, time: int) -> ssl.SSLContext:
    return httpx2.create_ssl_context()
