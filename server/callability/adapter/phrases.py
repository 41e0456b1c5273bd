"""Filling placeholders in words: actions with the proxy's phrases, names with what the agent wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from callability.vocabulary import ACTIONS

MAX_NAME = 128
"""Characters of a name that are shown."""
MAX_TEXT = 1_000
"""Characters of a text of the proxy's own that are shown."""

Phrases = Mapping[str, str]
"""For an action, such as `enable_server`, a verb phrase in the infinitive that names the proxy's own switch."""

NEUTRAL: Phrases = {action.name: action.phrase for action in ACTIONS}
"""What is said where a proxy has no phrase of its own."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def quoted(name: str) -> str:
    """Return a name as it may stand in a text for a model: in quotes, escaped, cut at 128 characters."""
    return json.dumps(name[:MAX_NAME])


def on_one_line(text: str) -> str:
    """Return a text of the proxy's own as it may stand in a sentence: in one line, cut."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:MAX_TEXT]


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
