"""The envelope of a bundle: what precedes, proves and signs its payload, and why a bundle is refused.

A library of protobuf accepts more than other readers do, and more in one language than in another: it skips a field of
the wrong type, and cuts a number that is too large. So that all readers refuse the same bundles, `docs/bundle.md` says
what a well-formed message is, and this module checks it before anything is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from callability.bundle.v1 import bundle_pb2 as pb


class RefusalCode(StrEnum):
    """The stable names of the reasons, in the order in which they are looked for; the same in every language."""

    TOO_LARGE = "too-large"
    NOT_A_BUNDLE = "not-a-bundle"
    DAMAGED = "damaged"
    UNSUPPORTED_FORMAT = "unsupported-format"
    NOT_SIGNED = "not-signed"
    UNKNOWN_KEY = "unknown-key"
    BAD_SIGNATURE = "bad-signature"
    UNSUPPORTED_SEMANTICS = "unsupported-semantics"
    OLDER_SEQUENCE = "older-sequence"
    INVALID = "invalid"


class BundleRefused(Exception):
    """A bundle that must not be decided from. Its text is one sentence; `code` is the reason."""

    def __init__(self, code: RefusalCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def invalid(sentence: str) -> BundleRefused:
    """Return the refusal of a bundle whose content contradicts itself."""
    return BundleRefused(RefusalCode.INVALID, sentence)


_MAX_COST_OF_BYTE = 40
_FREE_COST = 1_048_576
"""What a payload may cost besides, so that the ratio counts only where it matters."""
_COST_OF_MESSAGE = 640
_SMALL = {
    each.DESCRIPTOR: 320 for each in (pb.PatternGroup, pb.NameClass, pb.ConditionPart, pb.Verdict, pb.UnreadStart)
}
_COST_OF_TEXT = 224
"""Of a text in a list."""
_COSTS_OF_NUMBERS = {
    pb.Axis.DESCRIPTOR.fields_by_name["readings"]: 256,
    pb.Diagram.DESCRIPTOR.fields_by_name["places"]: 256,
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_BEHIND = {_FIXED64: 8, _FIXED32: 4}
_MAX_NUMBER = 2**31 - 1
"""Of what counts or names a place."""
_MAX_64_BITS = 2**64 - 1
_NUMBERS_OF_32_BITS = (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_ENUM)
_KINDS = frozenset({_VARINT, _BYTES, *_BEHIND})
_MAX_TAG = 2**32 - 1
_MAX_VARINT, _MAX_PREFIX = 10, 5
"""Bytes of a number, and of a tag or a length."""
_CONTINUED = bytes(range(0x80, 0x100))
_LONG_NUMBER = re.compile(rb"[\x80-\xff]{4,}")
"""The beginning of a number that may be greater than `_MAX_NUMBER`."""


class Malformed(Exception):
    """The bytes are not a well-formed message."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the schema: the greatest number, what each item costs, and the fields of a message."""

    most: int
    cost: int
    is_list_of_numbers: bool
    inner: _Fields | None


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a message by their tags, and their numbers."""

    by_tag: Mapping[int, _Field]
    numbers: frozenset[int]


def cost_of_payload(data: bytes) -> int:
    """Return what reading a payload costs, in bytes of memory at most.

    Raises:
        Malformed: it is not a well-formed payload, but for the encoding of its texts.
    """
    return _cost(data, 0, len(data), _PAYLOAD)


def max_cost(size: int) -> int:
    """Return what a payload of so many bytes may cost."""
    return _FREE_COST + _MAX_COST_OF_BYTE * size


def check_envelope(data: bytes) -> None:
    """Check a bundle, but not its payload and not the encoding of its texts.

    Raises:
        Malformed: it is not well-formed.
    """
    _cost(data, 0, len(data), _BUNDLE)


def _cost(data: bytes, place: int, end: int, fields: _Fields) -> int:
    """Return the cost of the message between two places."""
    cost = 0
    by_tag = fields.by_tag
    try:
        while place < end:
            tag = data[place]
            place += 1
            if tag >= 0x80:
                tag, place = _varint(data, place - 1, _MAX_PREFIX, _MAX_TAG)
            field = by_tag.get(tag) or _unknown(tag, fields)
            kind = tag & 7
            if kind == _BYTES:
                size = data[place]
                place += 1
                if size >= 0x80:
                    size, place = _varint(data, place - 1, _MAX_PREFIX, _MAX_TAG)
                start, place = place, place + size
                if place > end:
                    raise Malformed
                cost += _cost_of_bytes(data, start, place, field)
            elif kind == _VARINT:
                number = data[place]
                place += 1
                if number >= 0x80:
                    _, place = _varint(data, place - 1, _MAX_VARINT, field.most)
                cost += field.cost
            else:
                place += _BEHIND[kind]
    except IndexError:
        raise Malformed from None
    if place != end:
        raise Malformed
    return cost


def _cost_of_bytes(data: bytes, start: int, end: int, field: _Field) -> int:
    """Return the cost of a field whose content is between two places."""
    if field.is_list_of_numbers:
        return _cost_of_numbers(data[start:end], field)
    if start < end and field.inner is not None:
        return field.cost + _cost(data, start, end, field.inner)
    return field.cost


def _unknown(tag: int, fields: _Fields) -> _Field:
    """Refuse a field of the schema with another wire type, and one that no message may have; any other is skipped."""
    number = tag >> 3
    if number in fields.numbers or not number or tag & 7 not in _KINDS:
        raise Malformed
    return _UNKNOWN


def _cost_of_numbers(packed: bytes, field: _Field) -> int:
    """Return the cost of the numbers of a packed field."""
    if packed and packed[-1] >= 0x80:
        raise Malformed
    for found in _LONG_NUMBER.finditer(packed):
        _varint(packed, found.start(), _MAX_VARINT, field.most)
    return field.cost * len(packed.translate(None, _CONTINUED))


def _varint(data: bytes, place: int, longest: int, most: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    if (high := data[place + 1]) < 0x80:
        # Two bytes are the usual case.
        return data[place] - 0x80 | high << 7, place + 2
    number = 0
    for shift in range(0, 7 * longest, 7):
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > most:
                break
            return number, place
    raise Malformed


def _fields_of(message: Descriptor) -> _Fields:
    by_tag = {}
    for field in message.fields:
        inner = _fields_of(field.message_type) if field.message_type is not None else None
        is_bytes = inner is not None or field.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}
        found = _Field(
            most=_MAX_NUMBER if field.type in _NUMBERS_OF_32_BITS else _MAX_64_BITS,
            cost=_cost_of_item(field),
            is_list_of_numbers=_is_list(field) and not is_bytes,
            inner=inner,
        )
        if is_bytes or found.is_list_of_numbers:
            by_tag[field.number << 3 | _BYTES] = found
        if not is_bytes:
            by_tag[field.number << 3 | _VARINT] = found
    return _Fields(by_tag, frozenset(message.fields_by_number))


def _is_list(field: FieldDescriptor) -> bool:
    # Older versions of protobuf have the label alone, and newer ones warn of it.
    if hasattr(field, "is_repeated"):
        return field.is_repeated
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)  # type: ignore[attr-defined]  # as above


def _cost_of_item(field: FieldDescriptor) -> int:
    if field.message_type is not None:
        return _SMALL.get(field.message_type, _COST_OF_MESSAGE)
    if _is_list(field) and field.type == FieldDescriptor.TYPE_STRING:
        return _COST_OF_TEXT
    return _COSTS_OF_NUMBERS.get(field, 0)


_UNKNOWN = _Field(most=_MAX_64_BITS, cost=0, is_list_of_numbers=False, inner=None)
_BUNDLE = _fields_of(pb.Bundle.DESCRIPTOR)
_PAYLOAD = _fields_of(pb.Payload.DESCRIPTOR)


FORMAT = 1
"""The version of the format that is written and read."""
_SIGNED = b"callability bundle signature v1\0"


def signed_bytes(digest: bytes) -> bytes:
    """Return what a signature is over: 68 bytes, by which it fits nothing but a bundle of this format."""
    return _SIGNED + FORMAT.to_bytes(4, "big") + digest


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


def envelop(payload: bytes, signatures: Iterable[pb.Signature] = ()) -> bytes:
    """Return the bytes of a bundle file, always the same for the same payload and signatures."""
    bundle = pb.Bundle(
        magic=MAGIC, format=FORMAT, payload=payload, digest=sha256(payload).digest(), signatures=signatures
    )
    return bundle.SerializeToString(deterministic=True)


def open_bundle(data: bytes, keys: Mapping[str, bytes] | None = None) -> Envelope:
    """Return the payload of a bundle file, undamaged, and signed by one of some public keys if there are any.

    `keys` are ed25519 public keys of 32 bytes, by key id. Without them, signatures are not looked at.

    Raises:
        BundleRefused: the file is damaged, of another format, or not signed by one of the keys.
        MissingCryptography: there are keys, and the extra `bundle` is not installed.
    """
    bundle = _parse(data)
    if keys is not None:
        _check_signed(bundle, keys)
    ids = tuple(each.key_id for each in bundle.signatures)
    return Envelope(bundle.payload, bundle.digest.hex(), ids)


def _parse(data: bytes) -> pb.Bundle:
    if len(data) > MAX_BYTES:
        sentence = f"the bundle has more than {MAX_BYTES:,} bytes"
        raise BundleRefused(RefusalCode.TOO_LARGE, sentence)
    if not data.startswith(_START):
        raise BundleRefused(RefusalCode.NOT_A_BUNDLE, "the file is not a bundle: it does not start as one")
    try:
        check_envelope(data)
        bundle = pb.Bundle.FromString(data)
    except (Malformed, DecodeError):
        raise _damage("its envelope cannot be read") from None
    if bundle.format != FORMAT:
        newer = "update this program" if bundle.format > FORMAT else "build it again"
        sentence = f"the bundle has format {bundle.format}, and this program reads format {FORMAT}: {newer}"
        raise BundleRefused(RefusalCode.UNSUPPORTED_FORMAT, sentence)
    if bundle.magic != MAGIC:
        raise _damage("its envelope has two beginnings")
    if not compare_digest(sha256(bundle.payload).digest(), bundle.digest):
        raise _damage("its digest is not that of its payload")
    if len(bundle.signatures) > MAX_SIGNATURES:
        raise _damage(f"it has more than {MAX_SIGNATURES} signatures")
    return bundle


def _damage(why: str) -> BundleRefused:
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
