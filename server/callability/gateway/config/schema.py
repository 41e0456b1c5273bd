"""The config file as a JSON Schema (2020-12) for editors; it refuses what the gateway refuses, as far as it can."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from callability.gateway.config.model import CatalogEntry, ConfigFile, OAuthConfig, ServerConfig
from callability.gateway.config.values import HTTP_SPELLINGS

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_STDIO_OR_HTTP = [
    {
        "title": "A server on standard input and output",
        "required": ["command"],
        "properties": {"url": False, "headers": False, "oauth": False, "type": {"const": "stdio"}},
    },
    {
        "title": "A server on HTTP",
        "required": ["url"],
        "properties": {
            "command": False,
            "args": False,
            "env": False,
            "cwd": False,
            "type": {"enum": [*HTTP_SPELLINGS]},
        },
    },
]
_NOT_BOTH_LISTS = {"required": ["enabled_tools", "disabled_tools"]}


def config_schema() -> dict[str, Any]:
    """Return the schema of a config file.

    No schema can say whether two parts of a file agree, how many bytes a text takes, or whether a host can be one:
    these are the gateway's alone to check.
    """
    schema = ConfigFile.model_json_schema(schema_generator=_Generator)
    for model in (ServerConfig, CatalogEntry):
        server = schema["$defs"][model.__name__]
        server["properties"]["enabled_tools"]["minItems"] = 1
        server["oneOf"] = [_of(model, way) for way in _STDIO_OR_HTTP]
        server["not"] = _NOT_BOTH_LISTS
    reviewable = {"if": {"required": ["oauth"]}, "then": {"properties": {"trust": {"const": "auto"}}}}
    schema["$defs"][CatalogEntry.__name__] |= reviewable
    schema["$defs"][OAuthConfig.__name__]["dependentRequired"] = {"client_secret": ["client_id"]}
    return {"$schema": DIALECT, **schema, "title": "The config of a callability gateway"}


def _of(model: type[BaseModel], way: dict[str, Any]) -> dict[str, Any]:
    """Return what a way to reach a server asks of the keys that a model has."""
    properties = {key: value for key, value in way["properties"].items() if key in model.model_fields}
    return {**way, "properties": properties}


class _Generator(GenerateJsonSchema):
    """Writes what is checked: null is no value of a key, which may be left out instead, and names have patterns."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        written = super().default_schema(schema)
        return {key: value for key, value in written.items() if key != "default" or value is not None}

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        """Restrict names: with `patternProperties` a name that does not match would be accepted, and its value too."""
        written = super().dict_schema(schema)
        for pattern, values in written.pop("patternProperties", {}).items():
            names = {**written.get("propertyNames", {}), "pattern": pattern}
            written |= {"additionalProperties": values, "propertyNames": names}
        return written

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave out titles that only repeat a key."""
        return False
