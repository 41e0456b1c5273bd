"""The envelope of a bundle: what precedes, proves and signs its payload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

from google.protobuf.message import DecodeError

from callability.bundle.v1 import bundle_pb2 as pb
from callability.kernel.bundle_wire import Malformed, check_envelope
from callability.kernel.refusal import BundleRefused, RefusalCode
from callability.kernel.signing_input import FORMAT, signed_bytes

MAGIC = "callability bundle"
MAX_BYTES = 15_728_640
"""Bytes of a bundle: it fits in a message of the contract."""
MAX_SIGNATURES = 8
_START = b"\x0a" + bytes((len(MAGIC),)) + MAGIC.encode()


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload that is undamaged, its digest in hexadecimal, and the ids of the keys that signed it."""

    payload: bytes
    digest: str
    key_ids: tuple[str, ...]


def enveloped(payload: bytes, signatures: Iterable[pb.Signature] = ()) -> bytes:
    """Return the bytes of a bundle file, always the same for the same payload and signatures."""
    bundle = pb.Bundle(
        magic=MAGIC, format=FORMAT, payload=payload, digest=sha256(payload).digest(), signatures=signatures
    )
    return bundle.SerializeToString(deterministic=True)


def opened(data: bytes, keys: Mapping[str, bytes] | None = None) -> Envelope:
    """Return the payload of a bundle file, undamaged, and signed by one of some public keys if there are any.

    `keys` are ed25519 public keys of 32 bytes, by key id. Without them, signatures are not looked at.

    Raises:
        BundleRefused: the file is damaged, of another format, or not signed by one of the keys.
        MissingCryptography: there are keys, and the extra `bundle` is not installed.
    """
    bundle = _parsed(data)
    if keys is not None:
        _check_signed(bundle, keys)
    ids = tuple(each.key_id for each in bundle.signatures)
    return Envelope(bundle.payload, bundle.digest.hex(), ids)


def _parsed(data: bytes) -> pb.Bundle:
    if len(data) > MAX_BYTES:
        sentence = f"the bundle has more than {MAX_BYTES:,} bytes"
        raise BundleRefused(RefusalCode.TOO_LARGE, sentence)
    if not data.startswith(_START):
        raise BundleRefused(RefusalCode.NOT_A_BUNDLE, "the file is not a bundle: it does not start as one")
    try:
        check_envelope(data)
        bundle = pb.Bundle.FromString(data)
    except (Malformed, DecodeError):
        raise _damaged("its envelope cannot be read") from None
    if bundle.format != FORMAT:
        newer = "update this program" if bundle.format > FORMAT else "build it again"
        sentence = f"the bundle has format {bundle.format}, and this program reads format {FORMAT}: {newer}"
        raise BundleRefused(RefusalCode.UNSUPPORTED_FORMAT, sentence)
    if bundle.magic != MAGIC:
        raise _damaged("its envelope has two beginnings")
    if not compare_digest(sha256(bundle.payload).digest(), bundle.digest):
        raise _damaged("its digest is not that of its payload")
    if len(bundle.signatures) > MAX_SIGNATURES:
        raise _damaged(f"it has more than {MAX_SIGNATURES} signatures")
    return bundle


def _damaged(why: str) -> BundleRefused:
    return BundleRefused(RefusalCode.DAMAGED, f"the bundle is damaged: {why}")


def _check_signed(bundle: pb.Bundle, keys: Mapping[str, bytes]) -> None:
    """Refuse a bundle unless a signature is valid under the key of its id."""
    # Without keys, no cryptography is needed.
    from callability.kernel.signatures import is_valid  # noqa: PLC0415

    if not bundle.signatures:
        raise BundleRefused(RefusalCode.NOT_SIGNED, "the bundle is not signed")
    known = [each for each in bundle.signatures if each.key_id in keys]
    if not known:
        sentence = "the bundle is signed by no key that is trusted here"
        raise BundleRefused(RefusalCode.UNKNOWN_KEY, sentence)
    signed = signed_bytes(bundle.digest)
    if not any(is_valid(each.signature, signed, keys[each.key_id]) for each in known):
        raise BundleRefused(RefusalCode.BAD_SIGNATURE, "the signature of the bundle is not valid")
