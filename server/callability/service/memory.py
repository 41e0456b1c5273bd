"""How the C library's allocator returns the memory that large requests took."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

_M_MMAP_THRESHOLD = -3
_LARGE = 131_072
_QUIET = 0.5
"""Seconds after the end of a large request, in which gRPC frees what it holds of it, before memory is returned."""
_LATER = 5.0
"""Seconds after which memory is returned once more: a slow connection may have held its part for longer."""


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


class LargeRequests:
    """Returns freed memory to the system when large requests have ended, and none has come for a moment.

    The pieces in which a message arrives are smaller than a large block, so glibc keeps them in the heaps of the
    threads that received it. Use it in one event loop.
    """

    def __init__(self) -> None:
        self._give_back = _trim()
        self._timer: asyncio.TimerHandle | None = None

    def ended(self, size: int) -> None:
        """Note the end of a request of so many bytes."""
        if size >= _LARGE:
            self._schedule(_QUIET, _LATER)

    def _schedule(self, seconds: float, *later: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._run, *later)

    def _run(self, *later: float) -> None:
        self._timer = None
        # It takes milliseconds, in which other threads go on.
        asyncio.get_running_loop().run_in_executor(None, self._give_back)
        if later:
            self._schedule(*later)


def _trim() -> Callable[[], object]:
    """Return what returns the freed memory of every heap; it does nothing if the C library has no such call."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda: None
    return lambda: malloc_trim(0)
