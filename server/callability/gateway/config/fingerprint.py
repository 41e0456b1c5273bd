"""The fingerprint by which an approval recognizes a tool: the digest of the part that a person approves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcp_types import Tool

VERSION = "v2:"
"""What a fingerprint of the current version starts with; one of the version before has no prefix."""

_SETS = ("required", "enum", "type")
_SETS_BY_NAME = ("dependentRequired", "dependencies")
_SCHEMAS = (
    *("items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties"),
    *("propertyNames", "not", "if", "then", "else", "contentSchema"),
)
_LISTS_OF_SCHEMAS = ("items", "prefixItems", "anyOf", "oneOf", "allOf")
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The fingerprint of one form of a tool: the current one, and the one of the version before.

    In the current version, the order of sets in the schemas does not count: a program may list them in another order
    each time that it is started.
    """

    current: str
    earlier: str

    def matches(self, pin: str) -> bool:
        """Say whether the record of an approval is about this form."""
        return pin in (self.current, self.earlier)

    def is_named(self, digest: str) -> bool:
        """Say whether a person means this form by a digest; its version may be left out."""
        named = digest.lower()
        return self.matches(named) or named == digits_of(self.current)


def digits_of(fingerprint: str) -> str:
    """Return the hexadecimal digits of a fingerprint, of whichever version: the SHA-256 of the form that it is of."""
    return fingerprint.removeprefix(VERSION)


def approved_part(tool: Tool) -> dict[str, Any]:
    """Return the part of a tool that a person approves, as MCP writes it: all that is searched, shown or decided by.

    What the tool does not give is left out. The sets of the schemas are sorted.
    """
    part = _part(tool)
    sort_sets(part)
    return part


def canonical_form(part: dict[str, Any]) -> bytes:
    """Return JSON in UTF-8 without white space, its keys sorted by code point at every depth, and every character that
    need not be escaped written as itself.
    """
    return _json(part).encode("utf-8", "surrogatepass")


def fingerprint(tool: Tool) -> Fingerprint:
    """Return the fingerprint of what is approved of a tool: the SHA-256, in hexadecimal, of its canonical form."""
    part = _part(tool)
    earlier = _digest(part)
    sort_sets(part)
    return Fingerprint(f"{VERSION}{_digest(part)}", earlier)


def sort_sets(part: dict[str, Any]) -> None:
    """Sort the sets in the schemas of an approved part, and nothing else of it.

    A keyword counts only where a schema stands: the property `required` is no set, nor is what a `default` holds.
    """
    # Not by recursion: a server decides how deep its schemas are.
    schemas = [part.get("inputSchema"), part.get("outputSchema")]
    while schemas:
        schema = schemas.pop()
        if not isinstance(schema, dict):
            continue
        for members in _sets_of(schema):
            members.sort(key=_json)
        schemas += _schemas_in(schema)


def _part(tool: Tool) -> dict[str, Any]:
    return tool.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        include={"name", "title", "description", "input_schema", "output_schema", "annotations"},
    )


def _digest(part: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_form(part)).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _sets_of(schema: dict[str, Any]) -> Iterator[list[Any]]:
    by_name = (schema.get(keyword) for keyword in _SETS_BY_NAME)
    values = (value for names in by_name if isinstance(names, dict) for value in names.values())
    for value in (*(schema.get(keyword) for keyword in _SETS), *values):
        if isinstance(value, list):
            yield value


def _schemas_in(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield what stands at the positions of schemas in a schema."""
    for keyword, value in schema.items():
        if keyword in _SCHEMAS:
            yield value
        if keyword in _LISTS_OF_SCHEMAS and isinstance(value, list):
            yield from value
        if keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
            yield from value.values()
