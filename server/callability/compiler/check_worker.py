"""The child process that checks a policy, so that no request waits for the check and no memory of it remains.

It reads a pickled `PolicySource` from standard input and writes a packed `CheckedPolicy` to standard output.
"""

from __future__ import annotations

import pickle
import sys

from callability.compiler.bundle_writing import with_bundle
from callability.compiler.policy import check_source
from callability.files.policy_source import PolicySource
from callability.process.limits import limit_this_process

MAX_CPU = 120
"""Seconds of processor time of the process."""


def main() -> None:
    """Check the policy on standard input."""
    limit_this_process(MAX_CPU)
    source = pickle.load(sys.stdin.buffer)
    assert isinstance(source, PolicySource)
    sys.stdout.buffer.write(with_bundle(check_source(source), source.shown).pack())


if __name__ == "__main__":
    main()
