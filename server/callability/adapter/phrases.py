"""Fills the placeholders in words: actions with the proxy's phrases, names with what the agent wrote.

A name or a reason that somebody else wrote is quoted, and stays in one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice

from callability.adapter.json_text import well_formed
from callability.contract.vocabulary import ACTIONS, is_plain

MAX_NAME = 128
"""Characters of a name that are shown."""
MAX_TEXT = 1_000
"""Characters of a text of the proxy's own that are shown."""
MAX_PARTS = 19
"""Parts of a reason that are shown, the sign that it is cut included."""

_FIRST_PARTS = 8
"""Parts before the sign, if a text is cut in the middle."""
_PART = re.compile(r"[A-Z]?[a-z]{1,8}|[A-Z]{1,3}|[0-9]{1,3}|[^ A-Za-z0-9]")
_VISIBLE = re.compile(r"[!-_a-~]{1,128}")
"""A name of visible characters without a backtick."""
# Listed, and not asked of Python: another version of Unicode would give other bytes.
_BLANK = re.compile(
    "[\0- \x7f-\xa0\xad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff0-\ufffb"
    "\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]+"
)


def cut_name(name: str) -> str:
    """Return a name, well-formed and cut at 128 characters."""
    return well_formed(name)[:MAX_NAME]


def quote(name: str) -> str:
    """Return a name as it may stand in a text for a model: in quotes, escaped, cut at 128 characters."""
    return json.dumps(cut_name(name))


def in_sentence(name: str) -> str:
    """Return a name as a sentence gives it: between backticks, or as `quoted` if these might end before it does."""
    return f"`{name}`" if _VISIBLE.fullmatch(name) else quote(name)


def on_one_line(text: str) -> str:
    """Return a text of the proxy's own as it may stand in a sentence: in one line, cut.

    What is white space, cannot be seen or changes the direction of writing becomes one space.
    """
    return _BLANK.sub(" ", well_formed(text)).strip(" ")[:MAX_TEXT].rstrip(" ")


def abridge(text: str) -> str:
    """Return a text of about 20 tokens at most, cut in the middle: it begins with what happened, and ends with why."""
    parts = list(_PART.finditer(text))
    if len(parts) <= MAX_PARTS:
        return text
    return f"{text[: parts[_FIRST_PARTS - 1].end()]}…{text[parts[_FIRST_PARTS - MAX_PARTS + 1].start() :]}"


def shorten(text: str) -> str:
    """Return a text of about 20 tokens at most, cut at the end of a part of a word.

    The tokenizer of the model is not known here: a token is counted as a word of up to eight small letters,
    three capitals or digits, or a sign.
    """
    parts = list(islice(_PART.finditer(text), MAX_PARTS + 1))
    return text if len(parts) <= MAX_PARTS else f"{text[: parts[MAX_PARTS - 2].end()]}…"


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
            return quote(names[name])
        if texts and name in texts:
            return texts[name]
        return _phrase(name, phrases, names or {})

    return _PLACEHOLDER.sub(filling, template)


def _phrase(action: str, phrases: Phrases, names: Mapping[str, str]) -> str:
    def name_of(match: re.Match[str]) -> str:
        name = names.get(match[1], "")
        return name if is_plain(name) and not name.startswith("-") else match[1].upper()

    phrase = phrases.get(action)
    return _NAME_IN_PHRASE.sub(name_of, phrase) if phrase else NEUTRAL.get(action) or action.replace("_", " ")
