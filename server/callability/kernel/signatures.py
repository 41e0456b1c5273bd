"""Signing a bundle by ed25519, and verifying it: the only module that needs the extra `bundle`."""

from __future__ import annotations

from pathlib import Path

from callability.bundle.v1 import bundle_pb2 as pb
from callability.contract.finding import as_code
from callability.process.regular_file import read_regular


class MissingCryptography(ImportError):
    """The library `cryptography` is not installed."""

    def __init__(self) -> None:
        super().__init__("signatures need the extra `bundle`: run pip install 'callability[bundle]'")


class UnusableKey(Exception):
    """A file that holds no key of the wanted kind. Its text is one sentence."""


try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
        load_pem_public_key,
    )
except ImportError:
    raise MissingCryptography from None

PUBLIC_KEY_BYTES = 32


def is_valid(signature: bytes, signed: bytes, public_key: bytes) -> bool:
    """Say whether a signature of some bytes is valid under a public key of 32 bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def sign(signed: bytes, key_id: str, key: Ed25519PrivateKey) -> pb.Signature:
    """Return the signature of some bytes: for a bundle, `signed_bytes` of its digest."""
    return pb.Signature(key_id=key_id, signature=key.sign(signed))


def private_key(file: Path) -> Ed25519PrivateKey:
    """Return the private key in a PEM file without a passphrase.

    Raises:
        OSError: the file cannot be read.
        UnusableKey: it holds no such key.
    """
    try:
        key = load_pem_private_key(read_regular(file), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UnusableKey(f"{file} holds no ed25519 private key in PEM form without a passphrase")
    return key


def public_key(file: Path) -> bytes:
    """Return the 32 bytes of the public key in a PEM file.

    Raises:
        OSError: the file cannot be read.
        UnusableKey: it holds no such key.
    """
    return public_key_in(read_regular(file), file)


def public_key_in(data: bytes, file: Path) -> bytes:
    """Return the 32 bytes of the public key in the bytes of a PEM file.

    Raises:
        UnusableKey: they hold no such key.
    """
    if (key := _from_pem(data)) is None:
        raise UnusableKey(f"{file} holds no ed25519 public key in PEM form")
    return key


def trusted_key(given: bytes, key_id: str) -> bytes:
    """Return the 32 bytes of a public key, given as these bytes or in PEM form.

    Raises:
        UnusableKey: it is neither.
    """
    if isinstance(given, bytes) and (key := given if len(given) == PUBLIC_KEY_BYTES else _from_pem(given)) is not None:
        return key
    raise UnusableKey(
        f"key {as_code(key_id)} is no ed25519 public key: give its {PUBLIC_KEY_BYTES} bytes, or its PEM form"
    )


def _from_pem(data: bytes) -> bytes | None:
    try:
        key = load_pem_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw) if isinstance(key, Ed25519PublicKey) else None
