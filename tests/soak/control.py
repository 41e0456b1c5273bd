"""What the soak says to a process of callers, a line each: drop the connections, or end."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from threading import Thread

READY, RESULT = "ready", "result "
DROP, END = "drop", "end "


def listen(drop: Callable[[], None], end: Callable[[str], None]) -> None:
    """Follow the lines on standard input in a thread; `end` receives the revision that decides at the end.

    If standard input closes, the soak is gone, and so is this process.
    """

    def follow() -> None:
        for line in sys.stdin:
            if line.strip() == DROP:
                drop()
            else:
                end(line.removeprefix(END).strip())
                return
        os._exit(1)

    Thread(target=follow, daemon=True).start()


def ready() -> None:
    """Report that every caller has had an answer."""
    print(READY, flush=True)


def finished(problems: Mapping[str, Sequence[str]]) -> None:
    """Report what was wrong in each series."""
    print(RESULT + json.dumps(problems), flush=True)


def drop_connections(addresses: Collection[str]) -> None:
    """Close every connection of this process to some addresses, as a network may: both ends read an end."""
    ports = {int(address.rpartition(":")[2]) for address in addresses}
    for name in os.listdir("/proc/self/fd"):
        # What is no socket is not copied: a copy that nobody closes would be copied again at the next drop.
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as found:
                    if found.family == socket.AF_INET and found.getpeername()[1] in ports:
                        found.shutdown(socket.SHUT_RDWR)
