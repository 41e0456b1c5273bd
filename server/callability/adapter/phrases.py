"""Filling placeholders in words: actions with the proxy's phrases, names with what the agent wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping

from callability.adapter.shown_text import on_one_line, quoted
from callability.tool_name import is_plain
from callability.vocabulary import ACTIONS

Phrases = Mapping[str, str]
"""For an action, such as `enable_server`, a verb phrase in the infinitive that names the proxy's own switch.

`{server}` and `{tool}` in it are the names that the answer is about. `SERVER` and `TOOL` take their place if the answer
is about several, or if a name is not plain: a person copies a phrase, and a shell may run it.
"""

NEUTRAL: Phrases = {action.name: action.phrase for action in ACTIONS}
"""What is said where a proxy has no phrase of its own."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_NAME_IN_PHRASE = re.compile(r"\{(server|tool)\}")


def with_declared(phrases: Phrases, declared: Phrases) -> Phrases:
    """Return phrases with those of declared actions, as the service sends them, where the proxy has none of its own."""
    if not declared:
        return phrases
    own = {name: phrase for name, phrase in phrases.items() if phrase}
    return {name: on_one_line(phrase) for name, phrase in declared.items()} | own


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
        return _phrase(name, phrases, names or {})

    return _PLACEHOLDER.sub(filling, template)


def _phrase(action: str, phrases: Phrases, names: Mapping[str, str]) -> str:
    def named(match: re.Match[str]) -> str:
        name = names.get(match[1], "")
        return name if is_plain(name) and not name.startswith("-") else match[1].upper()

    phrase = phrases.get(action)
    return _NAME_IN_PHRASE.sub(named, phrase) if phrase else NEUTRAL.get(action) or action.replace("_", " ")
