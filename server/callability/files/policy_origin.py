"""Where a policy is read from, when a service starts and after each edit: a directory, or a bundle with rule files."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from callability.contract.finding import Finding, Place
from callability.files import bundle_worker, document
from callability.files.policy_source import PolicySource, ReadBundle, policy_files, refused_source, source_in
from callability.kernel.envelope import MAX_BYTES
from callability.process.child import Child, NoOutput


@dataclass(frozen=True, slots=True)
class PolicyDirectory:
    """A directory with rule files."""

    path: Path

    def watched_paths(self) -> tuple[Path, ...]:
        """Return the directory, which may be replaced, its files, and new ones."""
        return (self.path, self.path / "new", *policy_files(self.path))

    def source(self) -> PolicySource:
        """Return the files in the directory."""
        return source_in(self.path)

    def accept(self, source: PolicySource) -> None:
        """Do nothing: any edit may follow any other."""


OPEN_SECONDS = 60.0
"""How long it may take to open a bundle."""


class BundleOrigin:
    """A bundle in a file, signed by one of some public keys, which are in PEM files by key id, if there are any.

    A bundle with a lower sequence number than one that was accepted is refused.
    """

    def __init__(self, path: Path, key_files: Mapping[str, Path] | None = None) -> None:
        self._path = path
        self._key_files = key_files or {}
        self._accepted_sequence = 0
        self._last: tuple[bytes, PolicySource] | None = None

    def watched_paths(self) -> tuple[Path, ...]:
        """Return the file of the bundle and those of the keys."""
        return (self._path, *self._key_files.values())

    def source(self) -> PolicySource:
        """Return the rule files in the bundle, or the finding that refuses it."""
        try:
            data = document.read_bytes(self._path, most=MAX_BYTES)
            keys = self._keys()
        except document.Refused as error:
            return PolicySource(str(self._path), (), error.findings)
        state = sha256(b"".join((*keys.values(), data))).digest()
        if self._last is None or self._last[0] != state:
            # What was refused stays refused: an accepted sequence number never becomes lower.
            bundle = ReadBundle(str(self._path), data, keys or None, self._accepted_sequence)
            self._last = state, _open(bundle)
        return self._last[1]

    def accept(self, source: PolicySource) -> None:
        """Refuse bundles with a lower sequence number from now on."""
        self._accepted_sequence = max(self._accepted_sequence, source.sequence)

    def _keys(self) -> dict[str, bytes]:
        if not self._key_files:
            return {}
        # Only a check of signatures needs cryptography.
        from callability.kernel.signatures import UnusableKey, public_key_in  # noqa: PLC0415

        found = {}
        for key_id, file in self._key_files.items():
            try:
                found[key_id] = public_key_in(document.read_bytes(file), file)
            except UnusableKey as error:
                sentence = str(error).removeprefix(f"{file} ")
                raise document.Refused((Finding(Place(str(file)), "unusable-key", sentence),)) from None
        return found


def _open(bundle: ReadBundle) -> PolicySource:
    try:
        child = Child(bundle_worker.__name__)
        try:
            source = pickle.loads(child.exchange(pickle.dumps(bundle), OPEN_SECONDS, lambda output: output.read()))
        finally:
            child.end()
    except NoOutput as error:
        return refused_source(Finding(Place(bundle.file), "check-failed", f"could not be opened: {error}"))
    assert isinstance(source, PolicySource)
    return source


PolicyOrigin = PolicyDirectory | BundleOrigin


def origin_at(path: Path) -> PolicyOrigin:
    """Return the origin of the policy at a path: a directory, or a bundle if there is a file that is no rule file."""
    return BundleOrigin(path) if is_bundle(path) else PolicyDirectory(path)


def is_bundle(path: Path) -> bool:
    """Return whether a path is that of a bundle: a file that is no rule file, or one that is named like a bundle."""
    if path.is_file():
        return path.suffix.lower() not in {".yaml", ".yml"}
    return path.suffix == ".bundle" and not path.is_dir()
