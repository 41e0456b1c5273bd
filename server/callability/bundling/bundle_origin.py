"""A policy that is read from a bundle with rule files, which are proved like those of a directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePath

from callability import document
from callability.bundle.envelope import MAX_BYTES, Envelope, opened
from callability.bundle.policy import payload_in
from callability.bundle.refusal import BundleRefused, invalid
from callability.bundle.v1 import bundle_pb2 as pb
from callability.finding import Finding, Place, shown
from callability.policy.loading import Check, rules_in, rules_of
from callability.policy.origin import PolicyDirectory, PolicyOrigin
from callability.policy.reading.policy_source import MAX_FILES, PolicyFile, PolicySource

BUILD = "build it with `callability bundle build --with-rule-files`"


class BundleOrigin:
    """A bundle in a file, signed by one of some public keys, which are in PEM files by key id, if there are any.

    A bundle with a lower sequence number than one that was accepted is refused.
    """

    def __init__(self, path: Path, key_files: Mapping[str, Path] | None = None) -> None:
        self._path = path
        self._key_files = key_files or {}
        self._accepted_sequence = 0
        self._last: tuple[bytes, PolicySource] | None = None

    def followed(self) -> tuple[Path, ...]:
        """Return the file of the bundle and those of the keys."""
        return (self._path, *self._key_files.values())

    def source(self) -> PolicySource:
        """Return the rule files in the bundle, or the finding that refuses it."""
        try:
            data = document.read_bytes(self._path, most=MAX_BYTES)
            keys = self._keys()
        except document.Refused as refused:
            return PolicySource(str(self._path), (), refused.findings)
        state = sha256(b"".join((*keys.values(), data))).digest()
        if self._last is None or self._last[0] != state:
            # The same bundle with the same keys stays what it is: an accepted sequence number never becomes lower.
            self._last = state, self._source(data, keys or None)
        return self._last[1]

    def accepted(self, source: PolicySource) -> None:
        """Refuse bundles with a lower sequence number from now on."""
        self._accepted_sequence = max(self._accepted_sequence, source.sequence)

    def _keys(self) -> dict[str, bytes]:
        if not self._key_files:
            return {}
        # Only a check of signatures needs cryptography.
        from callability.bundle.signatures import UnusableKey, public_key_in  # noqa: PLC0415

        found = {}
        for key_id, file in self._key_files.items():
            try:
                found[key_id] = public_key_in(document.read_bytes(file), file)
            except UnusableKey as error:
                sentence = str(error).removeprefix(f"{file} ")
                raise document.Refused((Finding(Place(str(file)), "unusable-key", sentence),)) from None
        return found

    def _source(self, data: bytes, keys: Mapping[str, bytes] | None) -> PolicySource:
        place = Place(str(self._path))
        empty = PolicySource(place.file, ())
        try:
            envelope = opened(data, keys)
            payload = payload_in(envelope, self._accepted_sequence)
            if not payload.rule_files:
                return replace(
                    empty, findings=(Finding(place, "no-rule-files", "the bundle has no rule files", BUILD),)
                )
            return self._of_files(envelope, payload)
        except BundleRefused as refused:
            return replace(empty, findings=(Finding(place, "bundle-refused", str(refused)),))

    def _of_files(self, envelope: Envelope, payload: pb.Payload) -> PolicySource:
        _check_names(payload)
        files = tuple(
            PolicyFile(path, str(path), each.content)
            for each in payload.rule_files
            for path in (PurePath(self._path, each.name),)
        )
        names = frozenset(file.path.stem for file in files)
        source = PolicySource(str(self._path), files, (), names, envelope.digest, payload.sequence)
        if source.revision != payload.revision:
            raise invalid(f"its rule files have revision {source.revision}, and it states {payload.revision}")
        return source


def _check_names(payload: pb.Payload) -> None:
    if len(payload.rule_files) > MAX_FILES:
        raise invalid(f"the bundle has {len(payload.rule_files):,} rule files; the maximum is {MAX_FILES}")
    seen = set()
    for name in (each.name for each in payload.rule_files):
        if not name or name in seen or name.startswith(".") or PurePath(name).name != name or "\0" in name:
            raise invalid(f"{shown(name)} cannot be the name of a rule file, or is repeated")
        seen.add(name)


def origin_at(path: Path) -> PolicyOrigin:
    """Return the origin of the policy at a path: a directory, or a bundle if there is a file that is no rule file."""
    return BundleOrigin(path) if _is_bundle(path) else PolicyDirectory(path)


def rules_at(path: Path) -> Check:
    """Check the rules of the policy in a directory or a bundle, to look at them, as `rules_in` does."""
    return rules_of(BundleOrigin(path).source()) if _is_bundle(path) else rules_in(path)


def _is_bundle(path: Path) -> bool:
    if path.is_file():
        return path.suffix.lower() not in {".yaml", ".yml"}
    return path.suffix == ".bundle" and not path.is_dir()
