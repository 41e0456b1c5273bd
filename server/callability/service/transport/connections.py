"""How many connections there may be: each takes a file descriptor, and the service needs some for itself."""

from __future__ import annotations

import resource

MOST_DESCRIPTORS = 65_536
OWN_DESCRIPTORS = 128
"""File descriptors that are kept for the files of the policy, for the processes that check it, and for the log."""


def raise_descriptor_limit() -> None:
    """Raise the limit of open files as far as this user may, at most to `MOST_DESCRIPTORS`.

    Systems start programs with 1,024, for the sake of older ones that could not handle more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """Return how many connections there may be at once. gRPC closes more at once; without a limit they would hang."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    return max(1, descriptors - OWN_DESCRIPTORS, descriptors // 2)
