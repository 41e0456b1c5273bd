"""From the bytes of a bundle to the source of a policy: its rule files, or the finding that refuses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from callability.bundle.v1 import bundle_pb2 as pb
from callability.files.policy_source import MAX_FILES, PolicyFile, PolicySource
from callability.finding import Finding, Place, shown
from callability.kernel.envelope import Envelope, opened
from callability.kernel.policy import payload_in
from callability.kernel.refusal import BundleRefused, invalid

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
        envelope = opened(bundle.data, bundle.keys)
        payload = payload_in(envelope, bundle.accepted_sequence)
        if payload.rule_files:
            return _source(bundle.file, envelope, payload)
        return refused(Finding(Place(bundle.file), "no-rule-files", "the bundle has no rule files", BUILD))
    except BundleRefused as error:
        return refused(Finding(Place(bundle.file), "bundle-refused", str(error)))


def refused(finding: Finding) -> PolicySource:
    """Return the source of a bundle that a finding refuses."""
    return PolicySource(finding.place.file, (), (finding,))


def _source(file: str, envelope: Envelope, payload: pb.Payload) -> PolicySource:
    _check_names(payload)
    contents = {PurePath(file, each.name): each.content for each in payload.rule_files}
    files = tuple(PolicyFile(path, str(path), content) for path, content in contents.items())
    names = frozenset(path.stem for path in contents)
    source = PolicySource(file, files, (), names, envelope.digest, payload.sequence)
    if source.revision != payload.revision:
        raise invalid(f"its rule files have revision {source.revision}, and it states {shown(payload.revision)}")
    return source


def _check_names(payload: pb.Payload) -> None:
    """Refuse names that the files of a directory cannot have, so that a finding names the file that is meant."""
    if len(payload.rule_files) > MAX_FILES:
        raise invalid(f"the bundle has {len(payload.rule_files):,} rule files; the maximum is {MAX_FILES}")
    seen = set()
    for name in (each.name for each in payload.rule_files):
        if not name or name in seen or name.startswith(".") or PurePath(name).name != name or "\0" in name:
            raise invalid(f"{shown(name)} cannot be the name of a rule file, or is repeated")
        seen.add(name)
