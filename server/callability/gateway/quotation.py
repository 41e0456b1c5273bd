"""An author's word in a sentence."""

from __future__ import annotations

MAX_SHOWN = 128


def shown(word: str) -> str:
    """Return an author's word in backticks, fit for one line: escaped, and cut at 128 characters."""
    escaped = "".join(
        character if character.isprintable() and character != "`" else f"\\u{ord(character):04x}" for character in word
    )
    return f"`{escaped}`" if len(escaped) <= MAX_SHOWN else f"`{escaped[: MAX_SHOWN - 1]}…`"
