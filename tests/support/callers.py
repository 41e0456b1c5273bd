"""Callers of a service that knows them, and channels to one over TLS."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from support.certificates import Pair

ALWAYS = "2999-01-01T00:00:00Z"
LONG_AGO = "2020-01-01T00:00:00Z"


def token_entry(token: str, expires: str = ALWAYS) -> dict[str, str]:
    """Return the entry of a token in a callers file."""
    return {"sha256": hashlib.sha256(token.encode()).hexdigest(), "expires": expires}


def write_callers(directory: Path, **callers: dict[str, object]) -> Path:
    """Write a callers file, whole."""
    path = directory / "callers.json"
    fresh = directory / "callers.new"
    fresh.write_text(json.dumps({"callers": callers}))
    return fresh.replace(path)


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call with a token."""
    return (("authorization", f"Bearer {token}"),)


@contextmanager
def tls_channel(
    address: str, authority: Path | None, client: Pair | None = None, options: Iterable[tuple[str, object]] = ()
) -> Iterator[grpc.Channel]:
    """Yield a channel of its own to a service with a certificate of an authority."""
    credentials = grpc.ssl_channel_credentials(
        authority.read_bytes() if authority else None,
        client.key.read_bytes() if client else None,
        client.certificate.read_bytes() if client else None,
    )
    own = [("grpc.use_local_subchannel_pool", 1), *options]
    with grpc.secure_channel(address, credentials, options=own) as channel:
        yield channel
