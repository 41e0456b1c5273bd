"""The child process that checks a policy, so that no request waits for the check and no memory of it remains.

It reads a pickled `PolicySource` from standard input and writes the packed check and the bundle to standard output.
"""

from __future__ import annotations

import pickle
import sys

from callability.bundling.writing import with_bundle
from callability.child_process.limits import limit_this_process
from callability.policy.loading import Check, check_source
from callability.policy.packing import packed, unpacked
from callability.policy.reading.policy_source import PolicySource

MAX_CPU = 120
"""Seconds of processor time of the process."""


def output(check: Check, bundle: bytes) -> bytes:
    """Return what the process writes."""
    return pickle.dumps((packed(check), bundle))


def read_output(data: bytes) -> tuple[Check, bytes]:
    """Return the check and the bundle that the process wrote; the bundle is empty if the policy is refused."""
    check, bundle = pickle.loads(data)
    assert isinstance(bundle, bytes)
    return unpacked(check), bundle


def main() -> None:
    """Check the policy on standard input."""
    limit_this_process(MAX_CPU)
    source = pickle.load(sys.stdin.buffer)
    assert isinstance(source, PolicySource)
    sys.stdout.buffer.write(output(*with_bundle(check_source(source), source.shown)))


if __name__ == "__main__":
    main()
