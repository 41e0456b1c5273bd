"""Which tool names may be shown, and which may be written to a file: upstream servers choose them."""

from __future__ import annotations

import re

MAX_BYTES = 512
"""The longest name that the contract accepts, in bytes of UTF-8."""
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def is_plain(name: str) -> bool:
    """Say whether a name is 1 to 128 characters of `[A-Za-z0-9_.-]`, which mean nothing to a terminal or a shell."""
    return _PLAIN.fullmatch(name) is not None


def byte_length(name: str) -> int:
    """Return the length of a name in bytes of UTF-8; half a character counts as three."""
    return len(name.encode("utf-8", "surrogatepass"))


def unrecordable(name: str) -> str:
    """Return why no file is given a record for a name, as the end of a sentence; empty if it may have one."""
    if not 0 < (size := byte_length(name)) <= MAX_BYTES:
        return f"its name has {size:,} bytes, and only a tool with a name of 1 to {MAX_BYTES} bytes can be called"
    if not name.isprintable():
        return "its name has characters that are not printable; `enabled_tools` of its server can rule it out"
    return ""
