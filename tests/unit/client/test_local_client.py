"""The local client without a service: bundles in files, what is kept on disk, and the age of a policy."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from callability.adapter import ALL_SERVERS, NEUTRAL, rejection, unknown_tool
from callability.client import (
    BlockingClient,
    Client,
    ClientClosed,
    InvalidRequest,
    Inventory,
    PolicyUnavailable,
    held_policy,
)
from callability.client import local as local_client
from callability.client.held_policy import BundleFile, HeldPolicy
from callability.client.hooks import GuardedHooks
from callability.client.local import MANY_TOOLS, LocalDecisions
from callability.client.replicas import no_answer
from callability.compiler.bundle_writing import payload_of
from callability.compiler.question import LabelFact
from callability.contract.vocabulary import ToolStatus
from callability.kernel.conditions import SEMANTICS
from callability.kernel.envelope import envelop
from callability.v1 import callability_service_pb2 as pb
from callability.v1.facts_pb2 import ToolFacts
from support.bundles import POLICIES, bundle_of, policy_of
from support.checkout import VECTORS
from support.clients import KINDS, Caller, Recorded, calling
from support.services import OPEN_SERVER, SWITCHED_OFF
from support.waiting import SECONDS, eventually

MAX_AGE = 60.0


class _Clocks:
    """A clock of the machine and one of the wall, which a test sets."""

    def __init__(self) -> None:
        self.machine, self.wall = 100.0, 1_000_000.0

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass, for both."""
        self.machine += seconds
        self.wall += seconds


def _held(clocks: _Clocks, recorded: Recorded, keep: Path | None = None) -> HeldPolicy:
    hooks = GuardedHooks(recorded)
    return HeldPolicy(MAX_AGE, hooks, keep=keep, clock=lambda: clocks.machine, wall_clock=lambda: clocks.wall)


@pytest.fixture(autouse=True)
def _read_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a bundle is read ten times a second, so that a test sees its edit soon."""
    monkeypatch.setattr(held_policy, "POLL_SECONDS", 0.1)


@pytest.fixture
def clocks() -> _Clocks:
    """Clocks that stand still."""
    return _Clocks()


@pytest.fixture
def set_clock(clocks: _Clocks, monkeypatch: pytest.MonkeyPatch) -> _Clocks:
    """Clocks that stand still, by which clients measure the age of their policies."""
    options = HeldPolicy.__init__.__kwdefaults__
    assert options is not None
    monkeypatch.setitem(options, "clock", lambda: clocks.machine)
    monkeypatch.setitem(options, "wall_clock", lambda: clocks.wall)
    return clocks


@pytest.fixture
def recorded() -> Recorded:
    """Hooks that keep what they receive."""
    return Recorded()


def test_the_first_calls_take_no_thread_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy may have many agents while no service answers yet. The calls end when the client is closed."""
    monkeypatch.setattr(local_client, "FIRST_SECONDS", SECONDS)

    async def story() -> None:
        async with Client.local(["127.0.0.1:1"]) as client:
            waiting = [asyncio.create_task(client.check_tool(SWITCHED_OFF)) for _ in range(100)]
            await asyncio.sleep(0)
            assert await asyncio.to_thread(lambda: not any(each.done() for each in waiting))
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, ClientClosed) for each in ended)

    asyncio.run(asyncio.wait_for(story(), SECONDS / 4))


@pytest.fixture(params=KINDS)
def local(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A function that opens a local client of one kind."""
    return lambda source, **options: calling(str(request.param), lambda client: client.local(source, **options))


def _names(held: HeldPolicy) -> str:
    return held.calls().check_tool(SWITCHED_OFF).verdict.rule


def test_a_policy_decides_until_nothing_has_confirmed_it_for_too_long(clocks: _Clocks, recorded: Recorded) -> None:
    """The error is that of a service that cannot be reached, and the next confirmation ends it."""
    held = _held(clocks, recorded)
    with pytest.raises(PolicyUnavailable) as before:
        held.calls()
    assert held.accept(bundle_of("shipped"))
    clocks.pass_seconds(MAX_AGE)
    assert _names(held) == "user-off"
    clocks.pass_seconds(0.1)
    with pytest.raises(PolicyUnavailable) as caught:
        held.calls()
    unreachable = no_answer(grpc.StatusCode.UNAVAILABLE, "")
    assert isinstance(unreachable, PolicyUnavailable)
    assert str(caught.value) == str(before.value) == str(unreachable)
    assert caught.value.code == unreachable.code
    held.confirm()
    assert _names(held) == "user-off"
    assert [event for event, _ in recorded.events] == ["policy_accepted", "policy_too_old", "policy_confirmed"]


def test_a_refused_bundle_changes_nothing_and_confirms_nothing(clocks: _Clocks, recorded: Recorded) -> None:
    """It is reported once, with the reason."""
    held = _held(clocks, recorded)
    held.accept(bundle_of("shipped"))
    clocks.pass_seconds(MAX_AGE / 2)
    damaged = bundle_of("shipped")[:-1] + b"\0"
    assert not held.accept(damaged)
    assert not held.accept(damaged)
    assert not held.accept(bundle_of("change-freeze"), digest="0" * 64)
    assert held.policy is not None
    assert held.policy.revision == policy_of("shipped").revision
    assert held.age_seconds == MAX_AGE / 2
    assert [event for event, _ in recorded.events] == ["policy_accepted", "bundle_refused", "bundle_refused"]


def test_a_start_takes_the_bundle_from_disk_and_its_age_counts_on(
    clocks: _Clocks, recorded: Recorded, tmp_path: Path
) -> None:
    """By the wall clock while no process runs, and by the machine's afterwards."""
    keep = tmp_path / "new" / "kept"
    _held(clocks, recorded, keep).accept(bundle_of("shipped"))
    clocks.machine = 5.0
    clocks.wall += MAX_AGE - 10
    started = _held(clocks, recorded, keep)
    started.load()
    assert _names(started) == "user-off"
    assert started.age_seconds == MAX_AGE - 10
    clocks.machine += 11
    with pytest.raises(PolicyUnavailable):
        started.calls()


@pytest.mark.parametrize("seconds", [MAX_AGE + 0.1, -0.1])
def test_a_bundle_on_disk_that_is_too_old_or_from_the_future_is_not_taken(
    seconds: float, clocks: _Clocks, recorded: Recorded, tmp_path: Path
) -> None:
    """If the clock went back, nobody knows how old it is."""
    _held(clocks, recorded, tmp_path / "kept").accept(bundle_of("shipped"))
    clocks.wall += seconds
    started = _held(clocks, recorded, tmp_path / "kept")
    started.load()
    with pytest.raises(PolicyUnavailable):
        started.calls()
    assert recorded.saw("kept_bundle_refused")


def test_a_confirmation_reaches_the_disk_from_time_to_time(clocks: _Clocks, recorded: Recorded, tmp_path: Path) -> None:
    """So that a cold start counts from it, without a write at each heartbeat."""
    keep = tmp_path / "kept"
    held = _held(clocks, recorded, keep)
    held.accept(bundle_of("shipped"))
    first = keep.stat().st_ino
    clocks.pass_seconds(1)
    held.confirm()
    assert keep.stat().st_ino == first
    clocks.pass_seconds(30)
    held.confirm()
    assert keep.stat().st_ino != first
    clocks.wall += MAX_AGE
    started = _held(clocks, recorded, keep)
    started.load()
    assert started.age_seconds == MAX_AGE


@pytest.mark.parametrize("size", [0, 10, 26, 30, 60, 200, 5_000])
def test_a_file_that_is_not_whole_is_not_taken_and_reported(
    size: int, clocks: _Clocks, recorded: Recorded, tmp_path: Path
) -> None:
    """Whatever is missing of it: what it protects from is an older bundle, too."""
    keep = tmp_path / "kept"
    _held(clocks, recorded, keep).accept(bundle_of("shipped"))
    keep.write_bytes(keep.read_bytes()[:size])
    started = _held(clocks, recorded, keep)
    started.load()
    assert started.policy is None
    assert recorded.saw("kept_bundle_refused") or recorded.saw("bundle_refused")


@pytest.mark.parametrize(
    "head", [b"{}", b"[]", b'{"confirmed_at": NaN, "sequence": 0}', b'{"confirmed_at": 1e999, "sequence": 0}']
)
def test_a_file_with_another_head_is_not_taken_and_reported(
    head: bytes, clocks: _Clocks, recorded: Recorded, tmp_path: Path
) -> None:
    """A time that is no time makes no bundle young."""
    keep = tmp_path / "kept"
    keep.write_bytes(b"callability kept bundle 1\n" + head + b"\n" + bundle_of("shipped"))
    started = _held(clocks, recorded, keep)
    started.load()
    assert started.policy is None
    assert recorded.saw("kept_bundle_refused")


def test_a_disk_that_cannot_be_written_stops_no_decision(clocks: _Clocks, recorded: Recorded, tmp_path: Path) -> None:
    """The log says so."""
    (tmp_path / "file").write_text("")
    held = _held(clocks, recorded, tmp_path / "file" / "kept")
    held.load()
    assert held.accept(bundle_of("shipped"))
    assert _names(held) == "user-off"
    assert recorded.saw("bundle_not_kept")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def _written(path: Path, bundle: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(bundle)
    new.replace(path)


def test_a_file_decides_and_its_replacement_too(local: Any, tmp_path: Path, recorded: Recorded) -> None:
    """A damaged one does not, and neither does one with a lower sequence number."""
    path = tmp_path / "policy.bundle"
    _written(path, envelop(payload_of(policy_of("shipped"), 7)))
    with local(path, hooks=recorded) as caller:
        assert caller.check().revision == policy_of("shipped").revision
        _written(path, b"callability")
        eventually(lambda: recorded.saw("bundle_refused"))
        assert caller.check().revision == policy_of("shipped").revision
        _written(path, envelop(payload_of(policy_of("change-freeze"), 6)))
        eventually(lambda: {"code": "older-sequence"}.items() <= recorded.events[-1][1].items())
        assert caller.check().revision == policy_of("shipped").revision
        _written(path, envelop(payload_of(policy_of("change-freeze"), 8)))
        eventually(lambda: caller.check().revision == policy_of("change-freeze").revision)


def test_a_sequence_number_is_remembered_on_disk(local: Any, tmp_path: Path, recorded: Recorded) -> None:
    """A start does not accept an older bundle, unless rollback is wanted."""
    path, keep = tmp_path / "policy.bundle", tmp_path / "kept"
    _written(path, envelop(payload_of(policy_of("shipped"), 7)))
    with local(path, keep=keep) as caller:
        caller.check()
    _written(path, envelop(payload_of(policy_of("change-freeze"), 6)))
    with local(path, keep=keep, hooks=recorded) as caller:
        assert caller.check().revision == policy_of("shipped").revision
        assert recorded.saw("bundle_refused")
    with local(path, keep=keep, rollback=True) as caller:
        assert caller.check().revision == policy_of("change-freeze").revision


def test_a_link_to_what_is_kept_stays_a_link(local: Any, tmp_path: Path, recorded: Recorded) -> None:
    """The file that it leads to is written, for its owner alone; a pipe is not replaced by a file."""
    path, keep, kept = tmp_path / "policy.bundle", tmp_path / "kept", tmp_path / "volume/kept"
    kept.parent.mkdir()
    keep.symlink_to("volume/kept")
    _written(path, bundle_of("shipped"))
    with local(path, keep=keep) as caller:
        caller.check()
    assert (keep.is_symlink(), kept.stat().st_mode & 0o777) == (True, 0o600)
    kept.unlink()
    os.mkfifo(kept)
    with local(path, keep=keep, hooks=recorded) as caller:
        caller.check()
    assert kept.is_fifo()
    assert recorded.saw("bundle_not_kept")


def test_a_file_that_is_gone_confirms_nothing(
    local: Any, tmp_path: Path, recorded: Recorded, set_clock: _Clocks
) -> None:
    """The policy becomes too old, and the file decides again when it is back."""
    path = tmp_path / "policy.bundle"
    _written(path, bundle_of("shipped"))
    with local(path, max_age_seconds=MAX_AGE, hooks=recorded) as caller:
        caller.check()
        path.unlink()
        eventually(lambda: recorded.saw("bundle_unreadable"))
        caller.check()
        set_clock.pass_seconds(MAX_AGE + 1)
        assert _refused(caller)
        _written(path, bundle_of("shipped"))
        eventually(lambda: not _refused(caller))


def _refused(caller: Caller) -> bool:
    try:
        caller.check()
    except PolicyUnavailable:
        return True
    return False


def test_a_refused_file_is_read_once_and_confirms_nothing(
    local: Any, tmp_path: Path, recorded: Recorded, set_clock: _Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have megabytes, and lie there for days; the policy before it becomes too old meanwhile."""
    path = tmp_path / "policy.bundle"
    _written(path, bundle_of("shipped"))
    given: list[bytes] = []
    accept = HeldPolicy.accept

    def accepted(self: HeldPolicy, bundle: bytes, digest: str = "", *, rollback: bool = False) -> bool:
        given.append(bundle)
        return accept(self, bundle, digest, rollback=rollback)

    monkeypatch.setattr(HeldPolicy, "accept", accepted)
    looks: list[None] = []
    look = BundleFile._look

    def looked(self: BundleFile) -> None:
        look(self)
        looks.append(None)

    monkeypatch.setattr(BundleFile, "_look", looked)
    with local(path, max_age_seconds=MAX_AGE, hooks=recorded) as caller:
        caller.check()
        _written(path, b"callability")
        eventually(lambda: recorded.saw("bundle_refused"))
        caller.check()
        set_clock.pass_seconds(MAX_AGE + 1)
        before = len(looks)
        eventually(lambda: len(looks) > before + 2)
        assert _refused(caller)
        assert given == [bundle_of("shipped"), b"callability"]
        _written(path, bundle_of("shipped"))
        eventually(lambda: not _refused(caller))


@pytest.mark.parametrize("client", [Client, BlockingClient])
def test_keys_without_cryptography_are_refused_at_once(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call would find no policy, and only the first one would say why."""
    monkeypatch.delitem(sys.modules, "callability.kernel.signatures", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(ImportError, match=r"callability\[bundle\]"):
        client.local(tmp_path / "policy.bundle", keys={"old": bytes(32)})


@pytest.mark.parametrize("client", [Client, BlockingClient])
@pytest.mark.parametrize("key", [b"", bytes(31), b"-----BEGIN PUBLIC KEY-----", "text"])
def test_a_key_that_is_none_is_refused_at_once(client: Any, tmp_path: Path, key: Any) -> None:
    """Otherwise every signature would look wrong."""
    with pytest.raises(ValueError, match=r"^key `2026` is no ed25519 public key: give its 32 bytes, or its PEM form$"):
        client.local(tmp_path / "policy.bundle", keys={"2026": key})


def test_the_details_say_why_there_is_no_policy(
    local: Any, set_clock: _Clocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the log of the proxy: the text says only that there is no answer, and an agent reads it."""
    monkeypatch.setattr(local_client, "FIRST_SECONDS", 0.2)
    path = tmp_path / "policy.bundle"
    for content, why in (
        (None, f"{path}: No such file or directory"),
        (b"rules: []", "the file is not a bundle: it does not start as one [not-a-bundle]"),
    ):
        if content is not None:
            path.write_bytes(content)
        with local(path) as caller, pytest.raises(PolicyUnavailable) as caught:
            caller.check()
        assert str(caught.value) == "the policy service gave no answer (UNAVAILABLE)"
        assert caught.value.details == why
    path.write_bytes(bundle_of("shipped"))
    with local(path, max_age_seconds=MAX_AGE) as caller:
        caller.check()
        path.unlink()
        set_clock.pass_seconds(MAX_AGE + 1)
        with pytest.raises(PolicyUnavailable) as caught:
            caller.check()
    old = "nothing has confirmed the policy for more than 60 seconds"
    assert caught.value.details in {old, f"{old}: {path}: No such file or directory"}


def test_a_client_that_could_not_open_tries_again(
    tmp_path: Path, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for want of threads: a later call begins to follow the file."""
    path = tmp_path / "policy.bundle"
    opening = BundleFile.open
    failing = iter([True])

    def opened(self: BundleFile) -> None:
        if next(failing, False):
            raise RuntimeError("can't start new thread")
        opening(self)

    monkeypatch.setattr(BundleFile, "open", opened)
    _written(path, bundle_of("shipped"))
    hooks = GuardedHooks(recorded)
    held = HeldPolicy(MAX_AGE, hooks)
    calls = LocalDecisions(held, BundleFile(path, held, hooks, rollback=False), hooks)
    with pytest.raises(RuntimeError):
        calls.open()
    calls.open()
    assert held.policy is not None
    calls.close()


def _pem(key: bytes) -> bytes:
    """Return a public key as `openssl pkey -pubout` writes it."""
    public = Ed25519PublicKey.from_public_bytes(key)
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_a_bundle_must_be_signed_by_one_of_the_keys(
    local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If keys are given."""
    monkeypatch.setattr(local_client, "FIRST_SECONDS", 0.5)
    manifest = json.loads((VECTORS / "bundles/manifest.json").read_text())
    keys = {key_id: bytes.fromhex(key) for key_id, key in manifest["keys"].items()}
    path = tmp_path / "policy.bundle"
    shutil.copy(VECTORS / "bundles/signed.bundle", path)
    with local(path, keys={"old": keys["old"]}) as caller:
        assert caller.check().verdict.rule
    with local(path, keys={"old": _pem(keys["old"])}) as caller:
        assert caller.check().verdict.rule
    _written(path, bundle_of("shipped"))
    with local(path, keys=keys, max_age_seconds=60) as caller, pytest.raises(PolicyUnavailable):
        caller.check()


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_reported_of_a_policy_is_what_was_compiled(name: str, local: Any, tmp_path: Path) -> None:
    """So that a proxy compares its labels and facts with it, wherever it decides."""
    path = tmp_path / "policy.bundle"
    path.write_bytes(bundle_of(name))
    with local(path) as caller:
        described = caller.do("get_policy")
    policy = policy_of(name)
    assert (described.revision, described.semantics) == (policy.revision, SEMANTICS)
    assert [action.name for action in described.actions] == [action.name for action in policy.actions]
    assert [status.name for status in described.statuses] == [*ToolStatus]
    for mine, proved in zip(
        described.rule_sets, map(policy.rule_sets.__getitem__, sorted(policy.rule_sets)), strict=True
    ):
        rules, space = proved.rule_set, proved.diagram.space
        assert [*mine.rules] == [rule.id for rule in rules.rules]
        assert (tuple(mine.facts), tuple(mine.reads)) == (
            space.facts,
            tuple(name for name in rules.question.facts if any(name in rule.reads for rule in rules.rules)),
        )
        assert {each.fact: [*each.values, "none"] for each in mine.labels} == {
            fact.name: [*sorted(fact.values, key="none".__eq__)]
            for fact in rules.question.facts.values()
            if isinstance(fact, LabelFact)
        }
        assert [(each.fact, each.default_value, each.asserted, each.phrase) for each in mine.declared_facts] == [
            (fact.name, fact.open_value, fact.asserted, fact.phrase) for fact in rules.declared_facts
        ]
        sizes = (space.size, len(proved.diagram.inner), proved.diagram.regions, proved.tests)
        assert sizes == (int(mine.exact_combinations), mine.inner_nodes, int(mine.regions), mine.tests_passed)


def test_an_invalid_request_is_refused_as_by_a_service(local: Any, tmp_path: Path) -> None:
    """With the same sentence."""
    path = tmp_path / "policy.bundle"
    path.write_bytes(bundle_of("shipped"))
    with local(path) as caller, pytest.raises(InvalidRequest, match="the name of the server has 1,000 bytes"):
        caller.do("check_tool", pb.CheckToolRequest(server="s" * 1_000, tool="t"))


def test_an_inventory_is_judged_in_this_process(local: Any, tmp_path: Path) -> None:
    """Many tools are decided beside the event loop."""
    path = tmp_path / "policy.bundle"
    path.write_bytes(bundle_of("shipped"))
    inventory = Inventory()
    inventory.put_server("s", OPEN_SERVER)
    inventory.replace_tools("s", {f"t{number}": SWITCHED_OFF.tool_facts for number in range(MANY_TOOLS + 1)})
    with local(path) as caller:
        assert len(caller.do("judge", inventory, visible=ALL_SERVERS).locked) == MANY_TOOLS + 1
        inventory.put_tool("s", "t0", ToolFacts())
        assert sum(tool.undetermined for tool in caller.do("judge", inventory, visible=ALL_SERVERS).tools) == 1


def test_a_closed_client_decides_no_longer(local: Any, tmp_path: Path) -> None:
    """It does not follow the policy any more."""
    path = tmp_path / "policy.bundle"
    path.write_bytes(bundle_of("shipped"))
    with local(path) as caller:
        caller.check()
        caller.do("close")
        with pytest.raises(ClientClosed):
            caller.check()


@pytest.mark.parametrize("client", [Client, BlockingClient])
def test_arguments_that_do_not_go_together_are_refused(client: Any, tmp_path: Path) -> None:
    """At once, and not at the first call."""
    with pytest.raises(ValueError, match="go with a bundle"):
        client.local(["127.0.0.1:7420"], keys={})
    with pytest.raises(ValueError, match="max_age_seconds"):
        client.local(tmp_path / "policy.bundle", max_age_seconds=0)
    sources: tuple[str | list[str], ...] = ("policy.bundle", "127.0.0.1:7420", [])
    for source in sources:
        with pytest.raises(ValueError, match=r"^`source` must be the path of a bundle as a `Path`"):
            client.local(source)


def test_a_tool_that_the_inventory_does_not_have_is_rejected_as_one_that_does_not_exist(
    local: Any, tmp_path: Path
) -> None:
    """Also as the first call, before any client has listed the tools: nothing that a proxy tests is false."""
    path = tmp_path / "policy.bundle"
    path.write_bytes(bundle_of("shipped"))
    inventory = Inventory(separator="_")
    inventory.put_server("s", OPEN_SERVER)
    with local(path) as caller:
        for server, tool in (("s", "wipe"), ("elsewhere", "wipe")):
            answer = caller.do("check", inventory, server, tool)
            rejected = rejection(answer, server, tool, phrases=NEUTRAL)
            assert rejected == unknown_tool(f"{server}_{tool}", ())


def test_a_pipe_in_place_of_a_bundle_is_refused_and_not_waited_for(local: Any, tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    path = tmp_path / "policy.bundle"
    os.mkfifo(path)
    with local(path, max_age_seconds=60) as caller, pytest.raises(PolicyUnavailable):
        caller.check()
