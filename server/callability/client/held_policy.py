"""The policy that decides in this process: how old it is, its last good bundle on disk, and a file that is followed."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread

from callability.client.hooks import GuardedHooks, PolicyUnavailable
from callability.kernel.calls import UNOBSERVED, LocalCalls
from callability.kernel.envelope import MAX_BYTES, BundleRefused, RefusalCode
from callability.kernel.policy import LocalPolicy, read
from callability.kernel.results import Observer
from callability.process.regular_file import read_regular, replacing

_MAGIC = b"callability kept bundle 1\n"
_MAX_HEAD = 4_096


@dataclass(frozen=True, slots=True)
class Kept:
    """A bundle from disk, and for how many seconds nothing has confirmed it; None if the clock went back since."""

    bundle: bytes
    age_seconds: float | None
    sequence: int


class DamagedFile(Exception):
    """A file of a kept bundle whose beginning cannot be read: its sequence number is not known."""


class KeptBundle:
    """A file with one bundle and the time of its last confirmation, by the wall clock. It is replaced as a whole."""

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_clock = wall_clock

    def read(self) -> Kept | None:
        """Return what the file holds; None if there is no file.

        Raises:
            OSError: the file is there and cannot be read.
            DamagedFile: it is not one that was written here, as a whole.
        """
        try:
            data = read_regular(self._path)
        except FileNotFoundError:
            return None
        magic, head, bundle = data[: len(_MAGIC)], *_split(data[len(_MAGIC) :])
        try:
            values = json.loads(head)
            confirmed_at, sequence = float(values["confirmed_at"]), int(values["sequence"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise DamagedFile from None
        if magic != _MAGIC:
            raise DamagedFile
        age = self._wall_clock() - confirmed_at
        return Kept(bundle, age if age >= 0 else None, sequence)

    def write(self, bundle: bytes, sequence: int) -> None:
        """Put a bundle that is confirmed now in place of what the file holds; its directory is made if it is missing.

        Raises:
            OSError: it cannot be written; the file is then as it was.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        head = json.dumps({"confirmed_at": self._wall_clock(), "sequence": sequence}).encode()
        # A link leads to the file that is replaced.
        target = Path(os.path.realpath(self._path))
        with replacing(target, 0o600) as file:
            file.write(_MAGIC + head + b"\n" + bundle)
        _sync(target.parent)


def _split(data: bytes) -> tuple[bytes, bytes]:
    head = data[:_MAX_HEAD].partition(b"\n")[0]
    return head, data[len(head) + 1 :]


def _sync(directory: Path) -> None:
    """Make the replacement of a file in a directory last, even if the machine stops."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_NO_ANSWER = "the policy service gave no answer (UNAVAILABLE)"
_SHARE = 20
"""The file on disk is confirmed again after this share of the greatest age, so that it is not written all the time."""
_LEAST_SECONDS = 5.0


def boot_clock() -> float:
    """Return the seconds since the machine was started, those in which it was suspended included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class HeldPolicy:
    """Holds the last policy that was accepted, and hands it out as long as it has been confirmed recently enough.

    It may be used from several threads.

    Raises:
        ValueError: the greatest age is not above zero.
    """

    def __init__(
        self,
        max_age_seconds: float,
        hooks: GuardedHooks,
        *,
        keep: Path | None = None,
        keys: Mapping[str, bytes] | None = None,
        observed: Callable[[str], Observer] = lambda _: UNOBSERVED,
        clock: Callable[[], float] = boot_clock,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        if not max_age_seconds > 0:
            raise ValueError("`max_age_seconds` must be above zero")
        self._max_age = max_age_seconds
        self._hooks = hooks
        self._kept = KeptBundle(keep, wall_clock) if keep is not None else None
        self._keys = keys
        self._observed = observed
        self._clock = clock
        self._lock = Lock()
        self._calls: LocalCalls | None = None
        self._bundle = b""
        self._confirmed_at = self._written_at = float("-inf")
        self._sequence = 0
        self._refused = b""
        self._refused_digest = ""
        self._too_old = False
        self._fault = ""
        self.accepted = Event()
        """Set when there is a policy, however old."""

    @property
    def policy(self) -> LocalPolicy | None:
        """The policy that was accepted last, however old."""
        calls = self._calls
        return calls.policy if calls is not None else None

    @property
    def digest(self) -> str:
        """The digest of its bundle; empty if there is none."""
        policy = self.policy
        return policy.digest if policy is not None else ""

    @property
    def age_seconds(self) -> float:
        """For how many seconds nothing has confirmed the policy; infinite if there is none."""
        return self._clock() - self._confirmed_at

    def has_refused(self, digest: str) -> bool:
        """Say whether the bundle that was refused last came with this digest."""
        return bool(digest) and digest == self._refused_digest

    def calls(self) -> LocalCalls:
        """Return what decides.

        Raises:
            PolicyUnavailable: there is no policy, or it has not been confirmed for longer than the greatest age.
        """
        calls = self._calls
        if calls is None:
            raise PolicyUnavailable(_NO_ANSWER, "UNAVAILABLE", self._fault or "no policy has been received yet")
        if self.age_seconds > self._max_age:
            if not self._too_old:
                self._too_old = True
                self._hooks.log(logging.ERROR, "policy_too_old", {"max_age_seconds": self._max_age})
            old = f"nothing has confirmed the policy for more than {self._max_age:g} seconds"
            raise PolicyUnavailable(_NO_ANSWER, "UNAVAILABLE", f"{old}: {self._fault}" if self._fault else old)
        return calls

    def note_fault(self, why: str) -> None:
        """Note why the policy could not be confirmed, for the details of a call without an answer."""
        self._fault = why

    def load(self) -> None:
        """Accept the bundle on disk, if it is whole and was confirmed recently enough."""
        if self._kept is None:
            return
        try:
            kept = self._kept.read()
        except OSError as error:
            self._hooks.log(logging.WARNING, "kept_bundle_unreadable", {"error": error.strerror or "error"})
            return
        except DamagedFile:
            why = "it is damaged, and the sequence number in it is lost"
            self._hooks.log(logging.WARNING, "kept_bundle_refused", {"why": why})
            return
        if kept is None:
            return
        self._sequence = max(self._sequence, kept.sequence)
        if kept.age_seconds is None or kept.age_seconds > self._max_age:
            why = "the clock went back" if kept.age_seconds is None else "too old"
            self._hooks.log(logging.WARNING, "kept_bundle_refused", {"why": why})
            return
        self._accept(kept.bundle, self._clock() - kept.age_seconds)

    def accept(self, bundle: bytes, digest: str = "", *, rollback: bool = False) -> bool:
        """Accept a bundle that decides from now on, unless it is refused or is the one that decides already.

        Args:
            bundle: the bundle.
            digest: what its digest must be, if that is known.
            rollback: whether its sequence number may be lower than that of the last one.

        Returns:
            Whether it decides now.
        """
        if bundle == self._bundle and self._bundle:
            self.confirm()
            return True
        return self._accept(bundle, None, digest, rollback=rollback)

    def confirm(self) -> None:
        """Note that the policy decides at this moment at the service, or is in the file."""
        with self._lock:
            if self._calls is None:
                return
            self._confirmed_at = self._clock()
            self._fault = ""
            self._report_recovery()
            since = self._confirmed_at - self._written_at
            if since > max(_LEAST_SECONDS, self._max_age / _SHARE):
                self._write()
        self._hooks.metric("callability_client_policy_age_seconds", 0.0, {})

    def _accept(self, bundle: bytes, confirmed_at: float | None, digest: str = "", *, rollback: bool = False) -> bool:
        try:
            policy = read(bundle, keys=self._keys, accepted_sequence=self._sequence, rollback=rollback)
            _check_digest(policy, digest)
            calls = LocalCalls(policy, self._observed(policy.revision))
        except BundleRefused as error:
            self._refused_digest = digest
            self._report_refusal(bundle, error)
            return False
        with self._lock:
            self._calls, self._bundle, self._sequence = calls, bundle, policy.sequence
            self._confirmed_at = self._clock() if confirmed_at is None else confirmed_at
            self._refused = b""
            self._fault = ""
            self._report_recovery()
            if confirmed_at is None:
                self._write()
        self.accepted.set()
        self._hooks.log(logging.INFO, "policy_accepted", {"revision": policy.revision, "sequence": policy.sequence})
        return True

    def _report_refusal(self, bundle: bytes, error: BundleRefused) -> None:
        self.note_fault(f"{error} [{error.code}]")
        if bundle == self._refused:
            return
        self._refused = bundle
        self._hooks.log(logging.ERROR, "bundle_refused", {"code": str(error.code), "why": str(error)})
        self._hooks.metric("callability_client_bundles_refused_total", 1, {"code": str(error.code)})

    def _report_recovery(self) -> None:
        if self._too_old:
            self._too_old = False
            self._hooks.log(logging.INFO, "policy_confirmed", {})

    def _write(self) -> None:
        if self._kept is None:
            return
        self._written_at = self._clock()
        try:
            self._kept.write(self._bundle, self._sequence)
        except OSError as error:
            self._hooks.log(logging.WARNING, "bundle_not_kept", {"error": error.strerror or "error"})


def _check_digest(policy: LocalPolicy, digest: str) -> None:
    if digest and policy.digest != digest:
        raise BundleRefused(RefusalCode.DAMAGED, "the bundle has another digest than was announced")


POLL_SECONDS = 1.0
"""How often the file is looked at. Each look at a file that is as it was confirms the policy."""
CLOSE_SECONDS = 10.0

_Signature = tuple[int, int, int]


class BundleFile:
    """Keeps a policy current from a file, in a thread of its own."""

    def __init__(self, path: Path, held: HeldPolicy, hooks: GuardedHooks, *, rollback: bool) -> None:
        self._path = path
        self._held = held
        self._hooks = hooks
        self._rollback = rollback
        self._accepted: _Signature | None = None
        self._refused: _Signature | None = None
        self._why = ""
        self._closed = Event()
        self._thread = Thread(target=self._follow, daemon=True, name="callability-policy")

    def open(self) -> None:
        """Read the file, and begin to follow it."""
        self._look()
        self._thread.start()

    def close(self) -> None:
        """End, and wait for the thread."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _follow(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            before = self._signature()
            if before == self._accepted:
                self._held.confirm()
                return
            if before == self._refused:
                return
            bundle = read_regular(self._path, MAX_BYTES + 1)
            # A file that changes while it is read is read again.
            whole = self._signature() == before
        except OSError as error:
            self._report(error.strerror or "error")
            return
        if whole and self._held.accept(bundle, rollback=self._rollback):
            self._accepted, self._refused = before, None
        elif whole:
            # It stays refused: the keys are the same, and a sequence number that was accepted never becomes lower.
            self._refused = before
        self._report("")

    def _signature(self) -> _Signature:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _report(self, why: str) -> None:
        if why:
            self._held.note_fault(f"{self._path}: {why}")
        if why and why != self._why:
            self._hooks.log(logging.ERROR, "bundle_unreadable", {"why": why})
        self._why = why
