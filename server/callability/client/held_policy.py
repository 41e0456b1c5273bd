"""The policy that decides in this process, and for how long nothing has confirmed it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Lock

from callability.client.failure import PolicyUnavailable
from callability.client.hooks import GuardedHooks
from callability.client.kept_bundle import KeptBundle
from callability.kernel.calls import UNOBSERVED, LocalCalls
from callability.kernel.encoded_results import Observer
from callability.kernel.policy import LocalPolicy, read
from callability.kernel.refusal import BundleRefused, RefusalCode

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
            raise PolicyUnavailable(_NO_ANSWER, "UNAVAILABLE")
        if self.age_seconds > self._max_age:
            if not self._too_old:
                self._too_old = True
                self._hooks.log(logging.ERROR, "policy_too_old", {"max_age_seconds": self._max_age})
            raise PolicyUnavailable(_NO_ANSWER, "UNAVAILABLE")
        return calls

    def load(self) -> None:
        """Accept the bundle on disk, if it is whole and was confirmed recently enough."""
        if self._kept is None:
            return
        try:
            kept = self._kept.read()
        except OSError as error:
            self._hooks.log(logging.WARNING, "kept_bundle_unreadable", {"error": error.strerror or "error"})
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
            self._recovered()
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
            self._recovered()
            if confirmed_at is None:
                self._write()
        self.accepted.set()
        self._hooks.log(logging.INFO, "policy_accepted", {"revision": policy.revision, "sequence": policy.sequence})
        return True

    def _report_refusal(self, bundle: bytes, error: BundleRefused) -> None:
        if bundle == self._refused:
            return
        self._refused = bundle
        self._hooks.log(logging.ERROR, "bundle_refused", {"code": str(error.code), "why": str(error)})
        self._hooks.metric("callability_client_bundles_refused_total", 1, {"code": str(error.code)})

    def _recovered(self) -> None:
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
