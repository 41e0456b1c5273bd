"""Stores the definitions that were approved, each in a file that is named by its fingerprint."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callability.editing.rewriting import replace
from callability.gateway.config.fingerprint import canonical_form, digits_of
from callability.regular_file import read_regular


@dataclass(frozen=True, slots=True)
class Definitions:
    """A directory beside an approvals file; its content can be deleted, and is then no longer shown."""

    directory: Path

    @classmethod
    def beside(cls, approvals: Path) -> Definitions:
        """Return the definitions that go with an approvals file."""
        return cls(approvals.with_name(f"{approvals.stem}.definitions"))

    def keep(self, fingerprint: str, definition: dict[str, Any]) -> None:
        """Keep the definition that a fingerprint is of, in its canonical form.

        Raises:
            OSError: it cannot be written.
        """
        data, sha256 = canonical_form(definition), digits_of(fingerprint)
        if self.kept(fingerprint) is not None or _read(data, sha256) is None:
            return
        self.directory.mkdir(exist_ok=True)
        replace(self._path(sha256), data)

    def kept(self, fingerprint: str) -> dict[str, Any] | None:
        """Return the definition with a fingerprint, or None if none is kept, or another one is."""
        sha256 = digits_of(fingerprint)
        try:
            data = read_regular(self._path(sha256))
        except OSError:
            return None
        return _read(data, sha256)

    def _path(self, sha256: str) -> Path:
        return self.directory / f"{sha256}.json"


def _read(data: bytes, sha256: str) -> dict[str, Any] | None:
    """Return a definition, or None if its digest differs, or its data is not a definition in canonical form."""
    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    try:
        definition: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
        return definition if canonical_form(definition) == data else None
    except (ValueError, RecursionError):
        return None
