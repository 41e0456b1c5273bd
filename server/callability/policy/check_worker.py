"""Checking a policy in a process of its own, so that no request waits for it and nothing of it stays behind.

The process reads a policy as it is written from standard input and writes the check to standard output.
"""

from __future__ import annotations

import pickle
import resource
import sys

from callability.policy.deciding.engine import MAX_MEMORY
from callability.policy.loading import check_source
from callability.policy.packing import packed
from callability.policy.reading.policy_source import PolicySource

MAX_CPU = 120
"""Seconds of processor time of the process."""


def limit() -> None:
    """Limit this process, which may outlive the one that started it; its own children set their limits themselves."""
    for kind, most in ((resource.RLIMIT_AS, MAX_MEMORY), (resource.RLIMIT_CPU, MAX_CPU)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    """Check the policy on standard input."""
    limit()
    source = pickle.load(sys.stdin.buffer)
    assert isinstance(source, PolicySource)
    sys.stdout.buffer.write(packed(check_source(source)))


if __name__ == "__main__":
    main()
