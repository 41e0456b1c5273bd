"""The source of a policy: its files are read once, so that the bytes that were checked are the ones served."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from callability.bundle.v1 import bundle_pb2 as pb
from callability.contract.finding import Finding, Place, as_code
from callability.files import document
from callability.kernel.envelope import BundleRefused, Envelope, invalid, open_bundle
from callability.kernel.policy import payload_in
from callability.process.regular_file import read_regular

MAX_FILES = 16
"""YAML files in the directory of a policy, including those whose names are no question."""
_BUNDLE_START = b"\x0a\x12callability bundle"
"""The bytes with which a bundle begins."""
TESTS = "_test"
"""How the name of a file with tests ends, before its ending."""


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A file that could be read: its path, its name in findings, and its bytes."""

    path: PurePath
    shown: str
    data: bytes

    @property
    def question(self) -> str:
        """The question that its name says."""
        return self.path.stem.removesuffix(TESTS)

    @property
    def tests(self) -> bool:
        """Whether it holds tests."""
        return self.path.stem.endswith(TESTS)


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The files of a policy, and findings about unreadable ones; `shown` is the policy's name in findings."""

    shown: str
    files: tuple[PolicyFile, ...]
    findings: tuple[Finding, ...] = ()
    names: frozenset[str] = frozenset()
    """The names of all files without their endings, unreadable ones included."""
    bundle_digest: str = ""
    """The digest of the bundle that holds the files; empty if they are not in one."""
    sequence: int = 0
    """The sequence number of that bundle."""

    @property
    def revision(self) -> str:
        """The revision of a policy with these rule sets, without its tests."""
        return revision_of((file.path.name, file.data) for file in self.files if not file.tests)

    @property
    def digest(self) -> str:
        """A digest that differs between two states of the files, including tests, unreadable files and bundles."""
        read = revision_of((file.path.name, file.data) for file in self.files)
        return document.digest("\n".join((read, self.bundle_digest, *map(str, self.findings))).encode())


def policy_files(directory: Path) -> tuple[Path, ...]:
    """Return the paths in a policy's directory that are named like YAML files, readable or not.

    Hidden files are left out: editors put them beside the file that they have open.
    """
    try:
        there = sorted(path for path in directory.iterdir() if not path.name.startswith("."))
        return tuple(path for path in there if path.suffix.lower() in {".yaml", ".yml"})
    except OSError:
        return ()


def source_in(directory: Path) -> PolicySource:
    """Return the current source of the policy in a directory."""
    return read_source(policy_files(directory), directory)


def read_source(paths: Iterable[Path], directory: Path) -> PolicySource:
    """Read the files of a policy, in any order."""
    paths = sorted(paths, key=lambda path: path.name)
    shown = str(directory)
    if not (os.access(directory, os.R_OK | os.X_OK) and directory.is_dir()):
        return PolicySource(shown, (), (_no_directory(directory),))
    files: list[PolicyFile] = []
    findings: list[Finding] = []
    if len(paths) > MAX_FILES:
        sentence = f"has {len(paths):,} YAML files; the maximum is {MAX_FILES}"
        return PolicySource(shown, (), (Finding(Place(shown), "too-many-files", sentence, "none is read"),))
    for path in paths:
        try:
            files.append(PolicyFile(path, str(path), document.read_bytes(path)))
        except document.Refused as error:
            findings.extend(error.findings)
    return PolicySource(shown, tuple(files), tuple(findings), frozenset(path.stem for path in paths))


def _no_directory(path: Path) -> Finding:
    """Return the finding for a path where the directory of a policy is expected, with what it is and what to do."""
    place = Place(str(path))
    if not path.is_file():
        what = "is not a directory that can be read" if path.exists() else "there is no such directory"
        return Finding(place, "no-directory", what)
    if _is_bundle(path):
        hint = "this command reads no bundles: give the directory that it was built from"
        return Finding(place, "no-directory", "is a bundle, and not the directory of a policy", hint)
    is_rule_file = path.suffix in {".yaml", ".yml"}
    wanted = f"`{path.parent}`" if is_rule_file else "a directory with `callability.yaml` and the other rule files"
    hint = f"the files of a policy are read together: give {wanted}"
    return Finding(place, "no-directory", "is a file, and not the directory of a policy", hint)


def _is_bundle(path: Path) -> bool:
    try:
        return read_regular(path, len(_BUNDLE_START)) == _BUNDLE_START
    except OSError:
        return False


def revision_of(files: Iterable[tuple[str, bytes]]) -> str:
    """Return the revision of rule set files: SHA-256 over name, zero byte, length in decimal, zero byte, bytes."""
    digest = hashlib.sha256()
    for name, data in sorted(files):
        digest.update(b"%b\0%d\0%b" % (name.encode(errors="surrogateescape"), len(data), data))
    return digest.hexdigest()


BUILD = "build it with `callability bundle build --with-rule-files`"


@dataclass(frozen=True, slots=True)
class ReadBundle:
    """The bytes of a bundle in a file, and what is demanded of it: see `callability.bundle.read`."""

    file: str
    data: bytes
    keys: Mapping[str, bytes] | None = None
    accepted_sequence: int = 0


def source_of(bundle: ReadBundle) -> PolicySource:
    """Return the rule files in a bundle, or the finding that refuses it."""
    try:
        envelope = open_bundle(bundle.data, bundle.keys)
        payload = payload_in(envelope, bundle.accepted_sequence)
        if payload.rule_files:
            return _source(bundle.file, envelope, payload)
        return refused_source(Finding(Place(bundle.file), "no-rule-files", "the bundle has no rule files", BUILD))
    except BundleRefused as error:
        return refused_source(Finding(Place(bundle.file), "bundle-refused", str(error)))


def refused_source(finding: Finding) -> PolicySource:
    """Return the source of a bundle that a finding refuses."""
    return PolicySource(finding.place.file, (), (finding,))


def _source(file: str, envelope: Envelope, payload: pb.Payload) -> PolicySource:
    _check_names(payload)
    contents = {PurePath(file, each.name): each.content for each in payload.rule_files}
    files = tuple(PolicyFile(path, str(path), content) for path, content in contents.items())
    names = frozenset(path.stem for path in contents)
    source = PolicySource(file, files, (), names, envelope.digest, payload.sequence)
    if source.revision != payload.revision:
        raise invalid(f"its rule files have revision {source.revision}, and it states {as_code(payload.revision)}")
    return source


def _check_names(payload: pb.Payload) -> None:
    """Refuse names that the files of a directory cannot have, so that a finding names the file that is meant."""
    if len(payload.rule_files) > MAX_FILES:
        raise invalid(f"the bundle has {len(payload.rule_files):,} rule files; the maximum is {MAX_FILES}")
    seen = set()
    for name in (each.name for each in payload.rule_files):
        if not name or name in seen or name.startswith(".") or PurePath(name).name != name or "\0" in name:
            raise invalid(f"{as_code(name)} cannot be the name of a rule file, or is repeated")
        seen.add(name)
