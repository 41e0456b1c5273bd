"""The source of a policy in a bundle: the files of its directory, or what refuses it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from callability.compiler.bundle_writing import payload_of
from callability.contract.finding import line
from callability.files.policy_origin import BundleOrigin, PolicyDirectory, origin_at
from callability.files.policy_source import MAX_FILES, ReadBundle, source_in, source_of
from callability.kernel.envelope import envelop
from support.bundles import SHIPPED, policy_of
from support.checkout import POLICY
from support.rule_file_bundles import Files, bundle_with, files_of

GOOD = files_of(POLICY)


def _findings(bundle: bytes, accepted_sequence: int = 0) -> list[str]:
    source = source_of(ReadBundle("policy.bundle", bundle, None, accepted_sequence))
    assert not source.files
    return [line(finding) for finding in source.findings]


def test_what_is_read_from_a_bundle_is_what_was_written_into_it() -> None:
    """Names and bytes, tests included, with the same revision."""
    written = source_in(POLICY)
    bundle = envelop(payload_of(policy_of(SHIPPED), 3, written.files))
    source = source_of(ReadBundle("policy.bundle", bundle))
    assert [(each.path.name, each.data) for each in source.files] == [
        (each.path.name, each.data) for each in written.files
    ]
    assert (source.revision, source.names, source.findings) == (written.revision, written.names, ())
    assert [each.shown for each in source.files] == [f"policy.bundle/{name}" for name in GOOD]
    assert source.sequence == 3


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"": b""}, "`` cannot be the name of a rule file, or is repeated"),
        ({"a/b.yaml": b""}, "`a/b.yaml` cannot be the name of a rule file, or is repeated"),
        ({"/b.yaml": b""}, "`/b.yaml` cannot be the name of a rule file, or is repeated"),
        ({".hidden.yaml": b""}, "`.hidden.yaml` cannot be the name of a rule file, or is repeated"),
        ({f"{number}.yaml": b"" for number in range(MAX_FILES)}, "the bundle has 22 rule files; the maximum is 16"),
    ],
)
def test_names_that_no_file_of_a_directory_has_are_refused(files: Files, said: str) -> None:
    """So that a finding in one of them names the file that is meant, and nothing else."""
    assert _findings(bundle_with(GOOD | files)) == [f"policy.bundle: {said} [bundle-refused]"]


def test_a_file_that_is_in_a_bundle_twice_is_refused() -> None:
    """It would be checked once, and count twice in the revision."""
    written = source_in(POLICY).files
    payload = payload_of(policy_of(SHIPPED), files=(*written, written[0]))
    said = "`callability.yaml` cannot be the name of a rule file, or is repeated"
    assert _findings(envelop(payload)) == [f"policy.bundle: {said} [bundle-refused]"]


def test_files_of_another_revision_than_the_bundle_states_are_refused() -> None:
    """Clients decide by what was compiled, and the service by the rule files: they would differ."""
    stated = "0" * 64
    own = source_in(POLICY).revision
    said = f"its rule files have revision {own}, and it states `{stated}`"
    assert _findings(bundle_with(GOOD, revision=stated)) == [f"policy.bundle: {said} [bundle-refused]"]


def test_a_lower_sequence_number_than_the_accepted_one_is_refused() -> None:
    """As a client does; the same number is not lower."""
    said = "the bundle has sequence 6, which is older than 7"
    assert _findings(bundle_with(GOOD, 6), 7) == [f"policy.bundle: {said} [bundle-refused]"]
    assert source_of(ReadBundle("policy.bundle", bundle_with(GOOD, 7), None, 7)).findings == ()


def test_equal_rules_in_another_bundle_are_another_state() -> None:
    """So a service notices the sequence number of each bundle."""
    first, second = (source_of(ReadBundle("policy.bundle", bundle_with(GOOD, number))) for number in (1, 2))
    assert first.revision == second.revision
    assert first.digest != second.digest


def test_a_bundle_is_a_file_that_is_neither_a_rule_file_nor_a_directory(tmp_path: Path) -> None:
    """Whatever its name is; one that is not there yet is known by its ending."""
    shutil.copyfile(POLICY / "callability.yaml", tmp_path / "callability.yaml")
    (tmp_path / "any").write_bytes(b"")
    (tmp_path / "directory.bundle").mkdir()
    kinds = {name: type(origin_at(tmp_path / name)) for name in ("any", "none.bundle", "callability.yaml", "none")}
    assert kinds == {
        "any": BundleOrigin,
        "none.bundle": BundleOrigin,
        "callability.yaml": PolicyDirectory,
        "none": PolicyDirectory,
    }
    assert isinstance(origin_at(tmp_path / "directory.bundle"), PolicyDirectory)
