"""Bundles with rule files, and key files for their signatures, as tests of a service make them."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from callability.bundle.v1 import bundle_pb2 as pb
from callability.files.policy_source import revision_of
from callability.kernel.envelope import envelop, open_bundle, signed_bytes
from callability.kernel.signatures import sign
from support.bundles import SHIPPED, bundle_of

Files = dict[str, bytes]


def files_of(directory: Path) -> Files:
    """Return the files of a policy by name, sorted."""
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.yaml"))}


def bundle_with(files: Files, sequence: int = 0, *, revision: str = "", key: Path | None = None) -> bytes:
    """Return the bundle of the shipped policy with any rule files, signed by a private key as `2026`.

    `revision` is what it states; by default that of the files.
    """
    payload = pb.Payload.FromString(open_bundle(bundle_of(SHIPPED)).payload)
    rules = ((name, data) for name, data in files.items() if not name.endswith("_test.yaml"))
    payload.revision = revision or revision_of(rules)
    payload.sequence = sequence
    payload.rule_files.extend(pb.RuleFile(name=name, content=data) for name, data in files.items())
    data = payload.SerializeToString(deterministic=True)
    if key is None:
        return envelop(data)
    private = Ed25519PrivateKey.from_private_bytes(key.read_bytes())
    return envelop(data, [sign(signed_bytes(sha256(data).digest()), "2026", private)])


def key_pair(directory: Path, name: str) -> tuple[Path, Path, Path]:
    """Write a new key, and return the files of its private key, raw and in PEM, and of its public key in PEM."""
    key = Ed25519PrivateKey.generate()
    raw, private, public = (directory / f"{name}.{ending}" for ending in ("raw", "pem", "pub"))
    raw.write_bytes(key.private_bytes_raw())
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return raw, private, public


def put(path: Path, data: bytes) -> None:
    """Replace a file as a whole."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    os.replace(beside, path)
