"""How the C library's allocator treats large blocks, such as those of a large request."""

from __future__ import annotations

import ctypes

_M_MMAP_THRESHOLD = -3
_LARGE = 131_072


def return_large_blocks() -> None:
    """Make the allocator return large blocks to the system as soon as they are freed.

    glibc stops doing so by itself: when a large block is freed, it raises the size from which blocks are mapped one by
    one. It then keeps what later large requests take, once for each thread. Other C libraries have no such call.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE)
