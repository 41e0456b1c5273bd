"""Filling the placeholders of words: actions by the proxy's own phrases, names by what the agent wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from callability.vocabulary import ACTIONS

MAX_NAME = 128
"""Characters of a name that are shown."""

Phrases = Mapping[str, str]
"""For an action, such as `enable_server`, a verb phrase in the infinitive that names the proxy's own switch."""

NEUTRAL: Phrases = {action.name: action.phrase for action in ACTIONS}
"""What is said where a proxy has no phrase of its own."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def quoted(name: str) -> str:
    """Return a name as it may stand in a text for a model: in quotes, escaped, cut at 128 characters."""
    return json.dumps(name[:MAX_NAME])


def fill(template: str, phrases: Phrases, names: Mapping[str, str] | None = None) -> str:
    """Fill a template; an action of a newer service without a phrase is named by its own words."""

    def filling(match: re.Match[str]) -> str:
        name = match[1]
        if names and name in names:
            return quoted(names[name])
        return phrases.get(name) or NEUTRAL.get(name) or name.replace("_", " ")

    return _PLACEHOLDER.sub(filling, template)
