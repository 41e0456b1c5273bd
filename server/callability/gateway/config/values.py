"""The values that a config file may hold, each with its check and the same as JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictInt,
    StrictStr,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

MAX_LABELS = 64
MAX_LABEL_KEY_BYTES = 128
MAX_LABEL_VALUE_BYTES = 512
MAX_FACTS = 64
MAX_FACT_BYTES = 128
MAX_SECONDS = 86_400
MAX_PORT = 65_535
MAX_SESSIONS = 10_000
MAX_REQUESTS = 10_000
MAX_REQUEST_BYTES = 64 * 1024 * 1024

_UNSENDABLE = re.compile(r"[\s\0-\x1f]")
HTTP_SPELLINGS = ("http", "streamable-http", "streamableHttp")
"""How clients spell the transport of a server on HTTP."""
_REFERENCE = re.compile(r"\$\{[A-Za-z_]")
# What a pattern can say of an address; which hosts and ports there can be, it cannot. One that names a variable is
# looked at when that is filled in.
_ADDRESS = (
    r"^([Hh][Tt][Tt][Pp][Ss]?://[^\s\x00-\x1f/?#]+([/?#][^\s\x00-\x1f]*)?"
    r"|[^\s\x00-\x1f]*\$\{[A-Za-z_][^\s\x00-\x1f]*)$"
)


# Compared by identity: what is in an annotation must have a hash.
@dataclass(frozen=True, slots=True, eq=False)
class _Checked:
    """A check of a value, and the keywords by which a JSON Schema says the same, as far as it can."""

    check: Callable[[Any], object]
    keywords: dict[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), **self.keywords}


def _given(value: object) -> object:
    # A list whose entries are all commented out must not count as no list: that would open every tool.
    if value is None:
        raise PydanticCustomError("no-value", "has no value", {"hint": "give it one, or leave the key out"})
    return value


def transport(value: object) -> object:
    """Return a transport in its one spelling."""
    return "http" if value in HTTP_SPELLINGS else value


def _address(value: str) -> str:
    if _REFERENCE.search(value) and not _UNSENDABLE.search(value):
        return value
    try:
        parts = urlsplit(value)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or _UNSENDABLE.search(value):
        hint = {"hint": "for example `https://example.com/mcp`"}
        raise PydanticCustomError("bad-url", "is not an http or https address with a host", hint)
    return value


def _seconds(value: object) -> object:
    if isinstance(value, int | float) and not 0 < value <= MAX_SECONDS:
        raise PydanticCustomError("out-of-range", f"is not more than 0 and at most {MAX_SECONDS:,} seconds")
    return value


def _seconds_or_none(value: object) -> object:
    if isinstance(value, int | float) and not 0 <= value <= MAX_SECONDS:
        raise PydanticCustomError("out-of-range", f"is not from 0 to {MAX_SECONDS:,} seconds")
    return value


def _port(value: int) -> int:
    if not 1 <= value <= MAX_PORT:
        raise PydanticCustomError("out-of-range", f"is not a port from 1 to {MAX_PORT:,}")
    return value


def _from_one_to(most: int) -> _Checked:
    def check(value: int) -> int:
        if not 1 <= value <= most:
            raise PydanticCustomError("out-of-range", f"is not a whole number from 1 to {most:,}")
        return value

    return _Checked(check, {"minimum": 1, "maximum": most})


def _few(value: Mapping[str, str]) -> Mapping[str, str]:
    if len(value) > MAX_LABELS:
        raise PydanticCustomError("too-many-labels", f"has more than {MAX_LABELS} entries")
    return value


def _few_facts(value: Mapping[str, str]) -> Mapping[str, str]:
    if len(value) > MAX_FACTS:
        raise PydanticCustomError("too-many-facts", f"has more than {MAX_FACTS} entries")
    return value


def _fact_value(value: object) -> object:
    """Return a truth value as rule files write it."""
    return str(value).lower() if isinstance(value, bool) else value


def _matching(pattern: str, code: str, sentence: str, **keywords: Any) -> _Checked:
    """Return a check by a pattern in a form that JSON Schema has too, or else has these keywords for."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise PydanticCustomError(code, sentence)
        return value

    return _Checked(check, keywords or {"pattern": f"^{pattern}$"})


def _bytes_long(low: int, high: int, **keywords: Any) -> _Checked:
    def check(value: str) -> str:
        if not low <= len(value.encode()) <= high:
            raise PydanticCustomError("bad-length", f"is not {low} to {high} bytes long")
        return value

    return _Checked(check, {"minLength": low, "maxLength": high, **keywords})


Sealed = AfterValidator(MappingProxyType)
Empty = partial(MappingProxyType, dict[str, str]())
Given = BeforeValidator(_given)

_ZeroFree = _matching(r"[^\x00]*", "zero-character", "contains a zero character, which cannot be passed to a program")
Argument = Annotated[StrictStr, _ZeroFree]
Text = Annotated[StrictStr, _matching(r"(?s).+", "empty-text", "is empty", minLength=1), _ZeroFree]
Url = Annotated[StrictStr, _Checked(_address, {"pattern": _ADDRESS})]
Seconds = Annotated[
    float,
    Field(strict=True, json_schema_extra={"exclusiveMinimum": 0, "maximum": MAX_SECONDS}),
    BeforeValidator(_seconds),
]
SecondsOrNever = Annotated[
    float,
    Field(strict=True, json_schema_extra={"minimum": 0, "maximum": MAX_SECONDS}),
    BeforeValidator(_seconds_or_none),
]
Port = Annotated[StrictInt, _Checked(_port, {"minimum": 1, "maximum": MAX_PORT})]
Sessions = Annotated[StrictInt, _from_one_to(MAX_SESSIONS)]
Requests = Annotated[StrictInt, _from_one_to(MAX_REQUESTS)]
RequestBytes = Annotated[StrictInt, _from_one_to(MAX_REQUEST_BYTES)]
ServerName = Annotated[
    StrictStr, _matching(r"[A-Za-z0-9_.-]{1,128}", "bad-server-name", "is not named with 1 to 128 of `A-Za-z0-9_.-`")
]
Variable = Annotated[
    StrictStr, _matching(r"[^=\x00]+", "bad-variable", "cannot be the name of an environment variable")
]
Header = Annotated[StrictStr, _matching(r"[A-Za-z0-9_!#$%&'*+.^`|~-]+", "bad-header", "cannot be the name of a header")]
HeaderText = Annotated[
    StrictStr, _matching(r"([!-~]([\t -~]*[!-~])?)?", "bad-header", "is not text that a header can carry")
]
Digest = Annotated[StrictStr, _matching(r"[0-9a-fA-F]{64}", "bad-digest", "is not a SHA-256 of 64 hexadecimal digits")]
AgentName = Annotated[
    StrictStr, _matching(r"[A-Za-z0-9_.-]{1,128}", "bad-agent-name", "is not named with 1 to 128 of `A-Za-z0-9_.-`")
]
Labels = Annotated[
    Mapping[
        Annotated[StrictStr, _bytes_long(1, MAX_LABEL_KEY_BYTES)],
        Annotated[StrictStr, _bytes_long(0, MAX_LABEL_VALUE_BYTES)],
    ],
    _Checked(_few, {"maxProperties": MAX_LABELS}),
    Sealed,
]
FactValues = Annotated[
    Mapping[
        Annotated[StrictStr, _bytes_long(1, MAX_FACT_BYTES)],
        Annotated[
            StrictStr,
            _bytes_long(1, MAX_FACT_BYTES, type=["string", "boolean", "integer"]),
            BeforeValidator(_fact_value),
        ],
    ],
    _Checked(_few_facts, {"maxProperties": MAX_FACTS}),
    Sealed,
]
