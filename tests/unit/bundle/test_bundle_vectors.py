"""What a reader does with good and bad bundles: the vectors that readers in every language replay."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callability.kernel.envelope import BundleRefused, RefusalCode
from callability.kernel.policy import read
from support.bundle_vectors import DIRECTORY, files

MANIFEST = json.loads((DIRECTORY / "manifest.json").read_text())
VECTORS = {vector["name"]: vector for vector in MANIFEST["vectors"]}


def _data(vector: dict[str, Any]) -> bytes:
    data = bytearray((DIRECTORY / vector["file"]).read_bytes())
    if "flip" in vector:
        offset, bit = vector["flip"]
        data[offset] ^= 1 << bit
    data += bytes.fromhex(vector.get("append", ""))
    data += bytes(max(0, vector.get("pad", 0) - len(data)))
    return bytes(data[: vector.get("keep", len(data))])


def _outcome(vector: dict[str, Any]) -> dict[str, str]:
    keys = {key_id: bytes.fromhex(MANIFEST["keys"][key_id]) for key_id in vector["keys"]} if "keys" in vector else None
    if "other_keys" in vector:
        keys = {key_id: bytes.fromhex(key) for key_id, key in vector["other_keys"].items()}
    sequence, rollback = vector.get("accepted_sequence", 0), vector.get("rollback", False)
    try:
        policy = read(_data(vector), keys=keys, accepted_sequence=sequence, rollback=rollback)
    except BundleRefused as refused:
        return {"expected": str(refused.code)}
    return {"expected": "accepted", "digest": policy.digest, "revision": policy.revision}


@pytest.mark.parametrize("name", VECTORS)
def test_a_reader_does_what_the_vector_says(name: str) -> None:
    """It accepts the bundle, or refuses it for the stated reason."""
    vector = VECTORS[name]
    expected = {key: vector[key] for key in ("expected", "digest", "revision") if key in vector}
    assert _outcome(vector) == expected


def test_every_reason_is_reached() -> None:
    """No reason is without a vector, and no vector has the name of another."""
    assert len(VECTORS) == len(MANIFEST["vectors"])
    assert {vector["expected"] for vector in VECTORS.values()} == {"accepted", *RefusalCode}


def test_the_vectors_are_those_that_are_written_now() -> None:
    """Byte for byte, manifest included: a bundle of the same rule files is always the same."""
    written = {path.relative_to(DIRECTORY).as_posix(): path.read_bytes() for path in DIRECTORY.rglob("*.bundle")}
    written["manifest.json"] = (DIRECTORY / "manifest.json").read_bytes()
    assert written == files()
