"""JSON as an agent reads it: the same bytes from every language, as structured content and in one text block.

An upstream's numbers stay as it wrote them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
