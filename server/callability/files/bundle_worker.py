"""The child process that opens a bundle, so that a hostile one costs the service neither time nor memory.

It reads a pickled `ReadBundle` from standard input and writes a pickled `PolicySource` to standard output.
"""

from __future__ import annotations

import pickle
import sys

from callability.files.policy_source import ReadBundle, source_of
from callability.process.limits import limit_this_process

MAX_CPU = 60
"""Seconds of processor time of the process."""


def main() -> None:
    """Open the bundle on standard input."""
    limit_this_process(MAX_CPU)
    bundle = pickle.load(sys.stdin.buffer)
    assert isinstance(bundle, ReadBundle)
    sys.stdout.buffer.write(pickle.dumps(source_of(bundle)))


if __name__ == "__main__":
    main()
