"""A service of a bundle with rule files: it decides as one of their directory does, and follows the file."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from callability.kernel.policy import read
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2 import GetPolicyRequest
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.bundles import SHIPPED, DrawnRequests, bundle_of
from support.checkout import POLICY
from support.commands import callability
from support.hostile_bundles import sealed
from support.rule_file_bundles import Files, bundle_with, files_of, key_pair, put
from support.running import service
from support.services import SWITCHED_OFF, ServedPolicy, served
from support.waiting import eventually

OWN = (("grpc.use_local_subchannel_pool", 1),)
GOOD = files_of(POLICY)
OTHER = {name: data.replace(b"user-off", b"switched-off") for name, data in GOOD.items()}
"""The shipped policy with another id for one rule."""
SECONDS = 120


class Bundle(NamedTuple):
    """The file of a bundle, a private key for it, and the arguments of a service that wants its signature."""

    path: Path
    key: Path
    stranger: Path
    arguments: tuple[str, str]

    def put(self, files: Files, sequence: int, *, key: Path | None = None, revision: str = "") -> None:
        """Replace the file by a signed bundle with some rule files."""
        put(self.path, bundle_with(files, sequence, revision=revision, key=key or self.key))


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """A signed bundle of the shipped policy with sequence number 5."""
    (key, _, public), (stranger, *_) = (key_pair(tmp_path, name) for name in ("own", "stranger"))
    made = Bundle(tmp_path / "policy.bundle", key, stranger, ("--bundle-key", f"2026={public}"))
    made.put(GOOD, 5)
    return made


@pytest.fixture
def running(bundle: Bundle) -> Iterator[ServedPolicy]:
    """A service of it."""
    with served(bundle.path, *bundle.arguments) as service:
        yield service


def test_a_bundle_decides_as_the_directory_that_it_was_built_from(tmp_path: Path) -> None:
    """Both answer alike, byte for byte, with the same revision, engine, counts of tests, and bundle for clients."""
    path, directory = tmp_path / "policy.bundle", tmp_path / "policy"
    shutil.copytree(POLICY, directory, ignore=shutil.ignore_patterns("schema", "examples"))
    built = callability("bundle", "build", str(directory), "--output", str(path), "--with-rule-files")
    assert built.returncode == 0
    drawn = DrawnRequests(read(bundle_of(SHIPPED)).callability, seed=1)
    requests = [drawn.check_tool() for _ in range(100)]
    with served(path) as of_bundle, served(directory) as of_directory:
        stubs = [CallabilityServiceStub(each.channel) for each in (of_bundle, of_directory)]
        for request in requests:
            answers = [stub.CheckTool(request) for stub in stubs]
            assert answers[0] == answers[1]
        assert of_bundle.policy() == of_directory.policy()
        assert of_bundle.policy().revision == read(path.read_bytes()).revision


def test_a_bundle_that_replaces_another_decides_and_one_that_is_refused_does_not(
    bundle: Bundle, running: ServedPolicy
) -> None:
    """Each refusal is in the log, in a metric and in `GetPolicy`, and the next good bundle ends it."""
    assert running.rule() == "user-off"
    bundle.put(OTHER, 6)
    eventually(lambda: running.rule() == "switched-off")
    revision = running.policy().revision

    def refused(finding: str) -> None:
        eventually(lambda: [*running.policy().rejected_edit.findings] == [finding])
        assert finding in running.log
        assert "callability_policy_broken 1.0" in running.metrics
        assert (running.policy().revision, running.rule(), running.healthy()) == (revision, "switched-off", True)

    good = bundle_with(GOOD, 7, key=bundle.key)
    put(bundle.path, good.replace(b"id: open,", b"id: ajar,"))
    refused(f"{bundle.path}: the bundle is damaged: its digest is not that of its payload [bundle-refused]")
    put(bundle.path, bundle_with(GOOD, 7))
    refused(f"{bundle.path}: the bundle is not signed [bundle-refused]")
    bundle.put(GOOD, 7, key=bundle.stranger)
    refused(f"{bundle.path}: the signature of the bundle is not valid [bundle-refused]")
    bundle.put(GOOD, 5)
    refused(f"{bundle.path}: the bundle has sequence 5, which is older than 6 [bundle-refused]")
    bundle.put({}, 7)
    hint = "build it with `callability bundle build --with-rule-files`"
    refused(f"{bundle.path}: the bundle has no rule files ({hint}) [no-rule-files]")
    bundle.put(GOOD, 7, revision="0" * 64)
    own = read(bundle_of(SHIPPED)).revision
    refused(f"{bundle.path}: its rule files have revision {own}, and it states `{'0' * 64}` [bundle-refused]")
    bundle.path.unlink()
    refused(f"{bundle.path}: cannot be read: no such file or directory [unreadable-file]")
    assert running.log.count("the edit of the policy is refused") == 7

    bundle.put(GOOD, 7)
    eventually(lambda: running.rule() == "user-off")
    eventually(lambda: not running.policy().HasField("rejected_edit"))
    assert "callability_policy_broken 0.0" in running.metrics


def test_a_fault_in_a_rule_file_of_a_bundle_is_found_at_its_line(bundle: Bundle, running: ServedPolicy) -> None:
    """And a test that fails refuses the bundle, as in a directory; its sequence number is not counted then."""
    typo = GOOD | {
        "callability.yaml": GOOD["callability.yaml"].replace(b"server.enabled: false", b"server.enable: no", 1)
    }
    bundle.put(typo, 9)
    eventually(lambda: running.policy().HasField("rejected_edit"))
    [finding] = [each for each in running.policy().rejected_edit.findings if each.endswith("[unknown-fact]")]
    line = 1 + GOOD["callability.yaml"].split(b"server.enabled: false")[0].count(b"\n")
    assert finding.startswith(f"{bundle.path}/callability.yaml:{line}:")
    bundle.put(GOOD | {"callability.yaml": OTHER["callability.yaml"]}, 8)
    eventually(lambda: any("[unknown-rule]" in each for each in running.policy().rejected_edit.findings))
    assert running.rule() == "user-off"
    bundle.put(OTHER, 7)
    eventually(lambda: running.rule() == "switched-off")


def test_a_sequence_number_counts_even_if_the_rules_are_the_same(bundle: Bundle, running: ServedPolicy) -> None:
    """So the bundles between two equal ones cannot come back."""
    bundle.put(GOOD, 8)
    eventually(lambda: "the edit of the policy is applied" in running.log)
    bundle.put(OTHER, 7)
    eventually(lambda: running.policy().HasField("rejected_edit"))
    assert "has sequence 7, which is older than 8" in running.policy().rejected_edit.findings[0]
    assert running.rule() == "user-off"


def test_a_key_that_is_replaced_counts_at_once(tmp_path: Path, bundle: Bundle, running: ServedPolicy) -> None:
    """A bundle that was refused is accepted when its key is there, and the policy stays if its own key is gone."""
    bundle.put(OTHER, 6, key=bundle.stranger)
    eventually(lambda: running.policy().HasField("rejected_edit"))
    put(tmp_path / "own.pub", b"not a key")
    eventually(lambda: "[unusable-key]" in running.policy().rejected_edit.findings[0])
    put(tmp_path / "own.pub", (tmp_path / "stranger.pub").read_bytes())
    eventually(lambda: running.rule() == "switched-off")
    assert not running.policy().HasField("rejected_edit")


def test_a_bundle_behind_links_is_followed(tmp_path: Path) -> None:
    """As a cluster mounts a Secret: a link through a link, which is switched to another directory."""
    for name, files in (("one", GOOD), ("two", OTHER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.bundle").write_bytes(bundle_with(files))
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "..data").symlink_to(tmp_path / "one")
    (mounted / "policy.bundle").symlink_to(Path("..data/policy.bundle"))
    with served(mounted / "policy.bundle") as running:
        assert running.rule() == "user-off"
        (mounted / "..new").symlink_to(tmp_path / "two")
        os.replace(mounted / "..new", mounted / "..data")
        eventually(lambda: running.rule() == "switched-off")


def _revisions(address: str) -> Counter[tuple[str, bool]]:
    """Return the revision of each of several connections, which the system spreads, and whether an edit is refused."""
    found: Counter[tuple[str, bool]] = Counter()
    for _ in range(16):
        with grpc.insecure_channel(address, OWN) as channel:
            policy = PolicyServiceStub(channel).GetPolicy(GetPolicyRequest(), timeout=SECONDS)
            answer = CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF, timeout=SECONDS)
            found[answer.revision, policy.HasField("rejected_edit")] += 1
    return found


def test_a_bundle_of_millions_of_messages_costs_the_service_no_memory(tmp_path: Path) -> None:
    """It is opened in a process of its own, whose memory is gone with it; here 6 MB that are 500 MB when parsed."""
    path = tmp_path / "policy.bundle"
    path.write_bytes(bundle_with(GOOD))

    def peak(process: int) -> int:
        [found] = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        return int(found)

    with served(path) as running:
        before = peak(running.process)
        put(path, sealed(b"\x2a\x00" * 3_000_000))
        eventually(lambda: running.policy().HasField("rejected_edit"))
        assert "the payload of the bundle has too many parts for its size" in running.policy().rejected_edit.findings[0]
        assert peak(running.process) - before < 200_000


def test_all_workers_decide_by_the_same_bundle(bundle: Bundle) -> None:
    """By the one that replaces it too; one that is rolled back is refused in all of them."""
    with service("--workers", "2", "--policy", str(bundle.path), *bundle.arguments) as running:
        [(first, _)] = _revisions(running.address)
        assert first == read(bundle.path.read_bytes()).revision
        bundle.put(OTHER, 6)
        second = read(bundle.path.read_bytes()).revision
        eventually(lambda: [*_revisions(running.address)] == [(second, False)])
        bundle.put(GOOD, 5)
        eventually(lambda: [*_revisions(running.address)] == [(second, True)])


@pytest.mark.parametrize(
    ("made", "arguments", "code", "said"),
    [
        (bundle_of(SHIPPED), (), 1, "(build it with `callability bundle build --with-rule-files`) [no-rule-files]"),
        (bundle_with(GOOD), ("--bundle-key", "2026={key}"), 1, "the bundle is not signed [bundle-refused]"),
        (bundle_with(GOOD)[:-1], (), 1, "the bundle is damaged: its envelope cannot be read [bundle-refused]"),
        (b"rules", (), 1, "the file is not a bundle: it does not start as one [bundle-refused]"),
        (bundle_with({**GOOD, "../x.yaml": b""}), (), 1, "`../x.yaml` cannot be the name of a rule file"),
        (bundle_with(GOOD), ("--bundle-key", "2026={policy}"), 1, "holds no ed25519 public key in PEM form"),
        (bundle_with(GOOD), ("--bundle-key", "2026={none}"), 1, "cannot be read: no such file or directory"),
        (bundle_with(GOOD), ("--bundle-key", "{key}"), 2, "is not KEY_ID=FILE"),
        (None, ("--bundle-key", "2026={key}"), 2, "`--bundle-key` needs a bundle: give its file as `--policy`"),
    ],
)
def test_a_bundle_that_cannot_be_served_refuses_the_start(
    made: bytes | None, arguments: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    """With what is wrong; a directory has no signature, so a key for one is a mistake."""
    path = tmp_path / "policy.bundle" if made is not None else POLICY
    if made is not None:
        path.write_bytes(made)
    _, _, public = key_pair(tmp_path, "own")
    given = [each.format(key=public, policy=path, none=tmp_path / "none") for each in arguments]
    done = callability("serve", "--policy", str(path), "--address", "127.0.0.1:0", *given)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
