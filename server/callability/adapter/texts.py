"""Texts and JSON as an agent reads them: the same bytes from every language.

Actions are filled in with the proxy's phrases, names with what the agent wrote. A name or a reason that somebody else
wrote is quoted, and stays in one line. An upstream's numbers stay as it wrote them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from callability.contract.vocabulary import ACTIONS, is_plain

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LONGEST = 32
"""Characters of a number up to which Python may write it as it was; reading a long one takes time."""


@dataclass(frozen=True, slots=True)
class JsonNumber:
    """A number of a JSON text that Python would write in another way, such as `1e400`, `1.50` or `-0`.

    Raises:
        ValueError: the text is no JSON number.
    """

    text: str

    def __post_init__(self) -> None:
        if not _NUMBER.fullmatch(self.text):
            raise ValueError("the text is no JSON number")

    @property
    def value(self) -> float:
        """The nearest number that Python's floats have, which may be an infinity."""
        return float(self.text)


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; a number that Python would write in another way is a `JsonNumber`.

    The last of several members with one key counts, in the place of the first.

    Raises:
        ValueError: the text is no JSON, or is nested too deeply.
    """
    try:
        return json.loads(text, parse_int=_integer, parse_float=_decimal, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def well_formed(text: str) -> str:
    """Return a text with U+FFFD in place of each half of a surrogate pair that is without its other half."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def json_text(value: Any) -> str:
    """Return a value as compact JSON: only what must be escaped is, and what JSON cannot hold is replaced."""
    return portable(value)[1]


def portable(value: Any) -> tuple[Any, str]:
    """Return a value without what JSON cannot hold, and its JSON: null for what is no number, well-formed texts."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except (TypeError, ValueError):
        value = _replace_numbers(value)
        text = _number_text(value)
    return value, text


def _replace_numbers(value: Any) -> Any:
    match value:
        case str():
            return well_formed(value)
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {_replace_numbers(key): _replace_numbers(each) for key, each in value.items()}
        case list() | tuple():
            return [_replace_numbers(each) for each in value]
    return value


def _number_text(value: Any) -> str:
    match value:
        case JsonNumber():
            return value.text
        case dict():
            return "{" + ",".join(f"{_number_text(key)}:{_number_text(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_number_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _integer(text: str) -> int | JsonNumber:
    return int(text) if text != "-0" and len(text) <= _LONGEST else JsonNumber(text)


def _decimal(text: str) -> float | JsonNumber:
    number = float(text) if len(text) <= _LONGEST else math.nan
    return number if repr(number) == text else JsonNumber(text)


def _no_number(text: str) -> None:
    raise ValueError(f"`{text}` is no JSON number")


def tool_result(
    structured: Mapping[str, Any] | None, *, text: str | None = None, is_error: bool = False
) -> dict[str, Any]:
    """Return a `CallToolResult` as JSON; without a `text` of its own the block holds the structured content's JSON."""
    found, written = portable(None if structured is None else dict(structured))
    text = written if text is None else well_formed(text)
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if structured is not None:
        result["structuredContent"] = found
    return result | {"isError": is_error}


def result_json(result: Mapping[str, Any]) -> str:
    """Return a tool result as the JSON text that a proxy sends, to the byte in UTF-8 what every language sends."""
    return json_text(result)


def error_result(text: str) -> dict[str, Any]:
    """Return a tool result that is an error and has only a text."""
    return tool_result(None, text=text, is_error=True)


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
