"""The envelope of a bundle: what precedes, proves and signs its payload."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from callability.bundle.v1 import bundle_pb2 as pb

MAGIC = "callability bundle"
FORMAT = 1
"""The version of the format that is written and read."""
_SIGNED = b"callability bundle signature v1\0"


def signed_bytes(digest: bytes) -> bytes:
    """Return what a signature is over: 68 bytes, by which it fits nothing but a bundle of this format."""
    return _SIGNED + FORMAT.to_bytes(4, "big") + digest


def enveloped(payload: bytes, signatures: Iterable[pb.Signature] = ()) -> bytes:
    """Return the bytes of a bundle file, always the same for the same payload and signatures."""
    bundle = pb.Bundle(
        magic=MAGIC, format=FORMAT, payload=payload, digest=sha256(payload).digest(), signatures=signatures
    )
    return bundle.SerializeToString(deterministic=True)
