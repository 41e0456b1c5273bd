"""What a signature of a bundle is over."""

from __future__ import annotations

FORMAT = 1
"""The version of the format that is written and read."""
_SIGNED = b"callability bundle signature v1\0"


def signed_bytes(digest: bytes) -> bytes:
    """Return what a signature is over: 68 bytes, by which it fits nothing but a bundle of this format."""
    return _SIGNED + FORMAT.to_bytes(4, "big") + digest
