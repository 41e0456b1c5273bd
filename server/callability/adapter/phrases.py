"""Filling placeholders in words: actions with the proxy's phrases, names with what the agent wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice

from callability.vocabulary import ACTIONS

MAX_NAME = 128
"""Characters of a name that are shown."""
MAX_TEXT = 1_000
"""Characters of a text of the proxy's own that are shown."""

Phrases = Mapping[str, str]
"""For an action, such as `enable_server`, a verb phrase in the infinitive that names the proxy's own switch."""

NEUTRAL: Phrases = {action.name: action.phrase for action in ACTIONS}
"""What is said where a proxy has no phrase of its own."""

MAX_PARTS = 19
"""Parts of a reason that are shown, the sign that it is cut included."""

_PART = re.compile(r"[A-Z]?[a-z]{1,8}|[A-Z]{1,3}|[0-9]{1,3}|[^\sA-Za-z0-9]")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def quoted(name: str) -> str:
    """Return a name as it may stand in a text for a model: in quotes, escaped, cut at 128 characters."""
    return json.dumps(name[:MAX_NAME])


def on_one_line(text: str) -> str:
    """Return a text of the proxy's own as it may stand in a sentence: in one line, cut."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:MAX_TEXT]


def shortened(text: str) -> str:
    """Return a text of about 20 tokens at most, cut at the end of a part of a word.

    The tokenizer of the model is not known here: a token is counted as a word of up to eight small letters,
    three capitals or digits, or a sign.
    """
    parts = list(islice(_PART.finditer(text), MAX_PARTS + 1))
    return text if len(parts) <= MAX_PARTS else f"{text[: parts[MAX_PARTS - 2].end()]}…"


def fill(
    template: str, phrases: Phrases, names: Mapping[str, str] | None = None, texts: Mapping[str, str] | None = None
) -> str:
    """Fill a template: names quoted, texts as they are; an action of a newer service without a phrase is named by its
    own words.
    """

    def filling(match: re.Match[str]) -> str:
        name = match[1]
        if names and name in names:
            return quoted(names[name])
        if texts and name in texts:
            return texts[name]
        return phrases.get(name) or NEUTRAL.get(name) or name.replace("_", " ")

    return _PLACEHOLDER.sub(filling, template)
