"""Writes the client for threads from the client for asyncio. `make client` runs it.

What carries the calls is written for each: a task is cancelled, and a thread is not.
"""

from __future__ import annotations

import re

from support.checkout import PACKAGE

SOURCE = PACKAGE / "client/client.py"
WRITTEN = PACKAGE / "client/blocking_client.py"
_DIFFERENCES = (
    (r"\A.*", '# Generated from `client.py` by `make client`.\n"""The client for threads."""'),
    (r"\basync def ", "def "),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\basyncio_remote\b", "blocking_remote"),
    (r"\bAsyncio(Remote|Local)\b", r"Blocking\1"),
    (r"\bClient\b", "BlockingClient"),
    (r"\bfrom asyncio\b", "from threads"),
    (r"\bUse it in one event loop\.", "Any number of threads may share one."),
)


def blocking_client() -> str:
    """Return the client for threads."""
    text = SOURCE.read_text()
    for asyncio, threads in _DIFFERENCES:
        text = re.sub(asyncio, threads, text)
    return text


if __name__ == "__main__":
    WRITTEN.write_text(blocking_client())
