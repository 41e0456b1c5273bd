"""The places in files to which a report about a tool points, as the files are written now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callability.compiler.policy import Policy
from callability.compiler.questions import CALLABILITY
from callability.contract.finding import Place
from callability.files import document
from callability.gateway.config.variables import find_node


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a gateway as it is written now; `root` is None if it cannot be read."""

    path: Path
    root: document.Node | None
    digest: str

    @classmethod
    def at(cls, path: Path) -> WrittenFile:
        """Read a file."""
        try:
            data = document.read_bytes(path)
        except document.Refused:
            return cls(path, None, "")
        try:
            return cls(path, document.parse(data, str(path)), document.digest(data))
        except document.Refused:
            return cls(path, None, document.digest(data))

    def place(self, keys: Sequence[str | int]) -> Place:
        """Return the place of a value, or of the nearest one above it that is there."""
        if self.root is None:
            return Place(str(self.path))
        if keys and not self.has(keys):
            # Of a key that is not there, the name of what would hold it says more than where its content begins.
            return self.key_place(keys)
        return find_node(self.root, keys)[1].place

    def key_place(self, keys: Sequence[str | int]) -> Place:
        """Return the place of a key, or of the nearest one above it that is there."""
        return find_node(self.root, keys)[0].place if self.root is not None else Place(str(self.path))

    def removal(self, keys: Sequence[str | int]) -> tuple[Sequence[str | int], int]:
        """Return the keys of what is removed with an entry, since nothing may be left empty, and its last line."""
        while len(keys) > 2 and self.has(keys) and _size(find_node(self.root, keys[:-1])[1]) == 1:  # type: ignore[arg-type]
            keys = keys[:-1]
        return keys, max(
            (place.line for place in _places(find_node(self.root, keys)[1])), default=0
        ) if self.root else 0

    def has(self, keys: Sequence[str | int]) -> bool:
        """Say whether a value is there."""
        node = self.root
        for key in keys:
            match node:
                case document.DocumentMapping():
                    node = node.get(str(key))
                case document.DocumentSequence(items=items) if isinstance(key, int) and key < len(items):
                    node = items[key]
                case _:
                    return False
        return node is not None


@dataclass(frozen=True, slots=True)
class FactPlaces:
    """The files of a gateway, and the directory of the policy that decides for it, None if a service does.

    `rules` are the rules in that directory, None if they are refused.
    """

    config: WrittenFile
    approvals: WrittenFile | None
    directory: Path | None
    rules: Policy | None

    @classmethod
    def of(cls, config: Path, approvals: Path | None, directory: Path | None, rules: Policy | None) -> FactPlaces:
        """Read the files."""
        return cls(WrittenFile.at(config), WrittenFile.at(approvals) if approvals else None, directory, rules)

    def place(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Return a report in which each source has its place in a file, and the rule that decides its own."""
        placed: dict[str, Any] = self._with_places(report)
        return placed | {"rule_at": self._rule_place(report), "newer_files": [*self._newer(report)]}

    def _with_places(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            inner = {key: self._with_places(each) for key, each in value.items()}
            return inner | (self._place_of(value) if "in" in value and "keys" in value else {})
        return [self._with_places(each) for each in value] if isinstance(value, list) else value

    def _place_of(self, source: Mapping[str, Any]) -> dict[str, Any]:
        file = {"config": self.config, "approvals": self.approvals}.get(source["in"])
        if file is None:
            return {"file": None, "line": 0, "column": 0, "is_set": False}
        keys: Sequence[str | int] = source["keys"]
        if keys[-1:] == ["status"] and not file.has(keys) and file.has([*keys[:-1], "sha256"]):
            # Without a status, the fingerprint alone says what is approved.
            keys = [*keys[:-1], "sha256"]
        placed: dict[str, Any] = {"is_set": file.has(keys)}
        if source.get("do") == "remove":
            keys, last = file.removal(keys)
            placed |= {"keys": [*keys], "last_line": last}
        at = file.key_place(keys) if source.get("do") == "remove" else file.place(keys)
        return placed | {"file": at.file, "line": at.line, "column": at.column}

    def _rule_place(self, report: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the place of the rule that decided, if the rule files are here and still those that decided."""
        rule = report.get("rule")
        if not rule or self.directory is None:
            return None
        if self.rules is None or self.rules.revision != report["revision"]:
            return {"file": str(self.directory), "line": 0, "column": 0}
        at = self.rules.rule_sets[CALLABILITY.name].rule_set.rule(rule).place
        return {"file": at.file, "line": at.line, "column": at.column}

    def _newer(self, report: Mapping[str, Any]) -> Iterator[str]:
        """Yield the files that were edited since those by which the report was made."""
        in_effect = report.get("in_effect", {})
        for name, file in (("config", self.config), ("approvals", self.approvals)):
            if file is not None and name in in_effect and file.digest != in_effect[name]:
                yield str(file.path)
        decided_by = report["revision"] if report.get("rule") else None
        if decided_by and self.directory is not None and (self.rules is None or self.rules.revision != decided_by):
            yield str(self.directory)


def _size(node: document.Node) -> int:
    match node:
        case document.DocumentMapping(entries=entries):
            return len(entries)
        case document.DocumentSequence(items=items):
            return len(items)
        case _:
            return 0


def _places(node: document.Node) -> Iterator[Place]:
    """Yield the places of a node and of all that it holds."""
    yield node.place
    match node:
        case document.DocumentMapping(entries=entries):
            for key, value in entries:
                yield key.place
                yield from _places(value)
        case document.DocumentSequence(items=items):
            for item in items:
                yield from _places(item)
