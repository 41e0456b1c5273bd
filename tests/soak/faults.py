"""What happens to the replicas. Each fault lasts until its effect is over: they come one after the other."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random

from soak.policies import Policies
from soak.replicas import Replica, Replicas, seen

STOPPED_SECONDS = 5.0
LEAST_SECONDS = 1.0
"""How long a fault counts as such at least, in seconds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that has happened: its name, and when it began and was over, in seconds of the monotonic clock."""

    name: str
    began: float
    ended: float


class Faults:
    """Draws faults: every kind once before one comes again."""

    def __init__(self, replicas: Replicas, policies: Policies, drop: Callable[[], None], random: Random) -> None:
        self._replicas = replicas
        self._policies = policies
        self._drop = drop
        self._random = random
        self._certificates = count(1)
        self._kinds: Mapping[str, Callable[[], str]] = {
            "kill -9": self._kill,
            "SIGSTOP": self._stop,
            "good policy": self._edit,
            "bad policy": self._spoil,
            "new certificate": self._rotate,
            "dropped connections": self._cut,
            "rolling restart": self._roll,
        }
        self._order = self._drawn()

    def next(self, report: Callable[[str], None]) -> Fault:
        """Let the next fault happen, and return when it is over.

        Raises:
            SoakFailed: it had no effect, or a replica did not start again.
        """
        name = next(self._order)
        began = time.monotonic()
        about = self._kinds[name]()
        ended = max(time.monotonic(), began + LEAST_SECONDS)
        report(f"{name} ({about}), over after {ended - began:.1f} s")
        return Fault(name, began, ended)

    def _drawn(self) -> Iterator[str]:
        while True:
            yield from self._random.sample(list(self._kinds), len(self._kinds))

    def _kill(self) -> str:
        replica = self._one()
        replica.kill()
        replica.restart()
        return f"replica {replica.number}"

    def _stop(self) -> str:
        replica = self._one()
        replica.stop()
        try:
            time.sleep(STOPPED_SECONDS)
        finally:
            replica.resume()
        return f"replica {replica.number} for {STOPPED_SECONDS:.0f} s"

    def _edit(self) -> str:
        revision = self._policies.edit(self._random).revision
        self._all(lambda replica: replica.policy().revision == revision, f"does not decide by {revision}")
        return f"revision {revision[:12]}"

    def _spoil(self) -> str:
        self._policies.spoil(self._random)
        self._all(lambda replica: replica.policy().HasField("rejected_edit"), "has not refused the edit")
        self._policies.restore()
        self._all(lambda replica: not replica.policy().HasField("rejected_edit"), "still refuses the edit")
        return "refused"

    def _rotate(self) -> str:
        number = next(self._certificates)
        self._replicas.certificate.replace_by(self._replicas.authority.pair(f"server-{number}"))
        wanted = ssl.PEM_cert_to_DER_cert(self._replicas.certificate.certificate.read_text())
        self._all(lambda replica: replica.certificate() == wanted, "does not present the new certificate")
        return f"number {number}"

    def _cut(self) -> str:
        self._drop()
        return "of every caller"

    def _roll(self) -> str:
        for replica in self._random.sample(self._replicas.each, len(self._replicas.each)):
            replica.restart()
        return "one replica after the other"

    def _one(self) -> Replica:
        return self._random.choice(self._replicas.each)

    def _all(self, effect: Callable[[Replica], bool], otherwise: str) -> None:
        for replica in self._replicas.each:
            seen(f"replica {replica.number} {otherwise}", partial(effect, replica))
