"""The fingerprint of a tool: what changes it, and what does not."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from mcp_types import Tool

from callability.gateway.config.approvals import Fingerprint, fingerprint

SETS: list[Any] = [
    {"required": ["a", "b"]},
    {"enum": ["a", {"y": 1, "x": [2, 1]}, None, 3, True]},
    {"type": ["string", "null"]},
    {"dependentRequired": {"a": ["b", "c"]}},
    {"dependencies": {"a": ["b", "c"]}},
]
SCHEMA_POSITIONS = [
    *("items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties"),
    *("propertyNames", "not", "if", "then", "else", "contentSchema"),
]
LIST_POSITIONS = ["items", "prefixItems", "anyOf", "oneOf", "allOf"]
NAMED_POSITIONS = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"]


def of(schema: Any, key: str = "inputSchema") -> Fingerprint:
    """Return the fingerprint of a tool with a schema."""
    return fingerprint(Tool.model_validate({"name": "it", "inputSchema": {"type": "object"}, key: schema}))


def turned(value: Any) -> Any:
    """Return a value whose lists are in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(each) for key, each in value.items()}
    return value[::-1] if isinstance(value, list) else value


@pytest.mark.parametrize("key", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize("schema", SETS)
def test_the_order_of_a_set_does_not_count(schema: Any, key: str) -> None:
    """JSON Schema gives it no meaning, and a program may list the members as its hash table has them."""
    one, other = of(schema, key), of(turned(schema), key)
    assert one.current == other.current
    assert one.earlier != other.earlier


@pytest.mark.parametrize("schema", SETS)
@pytest.mark.parametrize(
    "around",
    [
        *(lambda schema, key=key: {key: schema} for key in SCHEMA_POSITIONS),
        *(lambda schema, key=key: {key: [{}, schema]} for key in LIST_POSITIONS),
        *(lambda schema, key=key: {key: {"required": schema, "default": schema}} for key in NAMED_POSITIONS),
    ],
)
def test_sets_are_found_wherever_a_schema_stands(around: Any, schema: Any) -> None:
    """Also two levels deep, and under a property that is named like a keyword."""
    assert of(around(schema)).current == of(around(turned(schema))).current
    deeper = of({"properties": {"x": around(schema)}}), of({"properties": {"x": around(turned(schema))}})
    assert deeper[0].current == deeper[1].current


@pytest.mark.parametrize(
    "schema",
    [
        *({key: {"required": ["a", "b"]}} for key in ("default", "const", "examples", "x-ours", "properties")),
        {"examples": [{"required": ["a", "b"]}]},
        {"examples": ["a", "b"]},
        {"default": {"properties": {"x": {"enum": ["a", "b"]}}}},
        {"enum": [{"required": ["a", "b"]}]},
        {"prefixItems": ["a", "b"]},
        {"properties": {"x": {"default": ["a", "b"]}}},
        {"description": ["a", "b"]},
    ],
)
def test_the_order_of_any_other_list_counts(schema: Any) -> None:
    """The name of a keyword is none where no schema stands: a server could hide a change there."""
    other = json.loads(json.dumps(schema).replace('"a", "b"', '"b", "a"'))
    assert schema != other
    assert of(schema).current != of(other).current


def test_members_of_a_set_count_one_by_one() -> None:
    """One more, one fewer, twice the same one, and one of another type are other forms."""
    forms = [["a"], ["a", "b"], ["a", "a"], ["1"], [1], [1.5], [True], [None]]
    assert len({of({"enum": members}).current for members in forms}) == len(forms)


def test_the_earlier_version_is_still_known() -> None:
    """Its records were written by releases that sorted no sets."""
    part = {"name": "it", "inputSchema": {"type": ["object", "null"], "required": ["b", "a"]}}
    canonical = json.dumps(part, sort_keys=True, separators=(",", ":"))
    known = fingerprint(Tool.model_validate(part))
    assert known.earlier == hashlib.sha256(canonical.encode()).hexdigest()
    assert known.matches(known.earlier)
    assert known.matches(known.current)
    assert known.is_named(known.current.upper())
    assert known.is_named(known.current.removeprefix("v2:"))
    assert not known.matches(known.current.removeprefix("v2:"))


def test_a_schema_may_be_deep() -> None:
    """A server decides how deep."""
    deep: dict[str, Any] = {"required": ["a", "b"]}
    other: dict[str, Any] = {"required": ["b", "a"]}
    for _ in range(150):
        deep, other = {"items": deep}, {"items": other}
    assert of(deep).current == of(other).current
