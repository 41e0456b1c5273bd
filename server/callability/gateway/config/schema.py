"""The config file as a JSON Schema (2020-12) for editors, and as a page for people, from the models that check it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from callability.gateway.config.approvals import ApprovalStatus
from callability.gateway.config.model import HTTP_SPELLINGS, CatalogEntry, ConfigFile, OAuthConfig, ServerConfig

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
            "env_file": False,
            "cwd": False,
            "type": {"enum": [*HTTP_SPELLINGS, "sse"]},
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


_HEAD = """\
# The files of the gateway, key by key

`make docs` generates this page and [mcp_config.schema.json](mcp_config.schema.json).
[gateway.md](gateway.md) describes what the keys are for, and [what `${NAME}` stands for](gateway.md#variables).

A file whose name ends in `.json` or `.jsonc` is JSON, in which comments and trailing commas are allowed.
Any other file is YAML 1.2.
An unknown key is an error, and so is a key without a value.

An editor checks the config while you type if the schema is beside it.
`callability schema config` prints the schema.

- In JSON, the first key is `"$schema": "mcp_config.schema.json"`.
- In YAML, the first line is `# yaml-language-server: $schema=mcp_config.schema.json`.
"""
_TOGETHER = """\
## Keys that depend on each other

- A server has either `command`, or `url`.
  `args`, `env`, `env_file` and `cwd` go with `command`, `headers` and `oauth` go with `url`, and `type` must agree.
- A server has at most one of `enabled_tools` and `disabled_tools`.
- A `client_secret` needs a `client_id`.
- With `oauth`, `headers` have no `Authorization`.
- A server of the catalog has a name that no server in `mcpServers` has.
- An agent's `servers` are in `mcpServers` or in the catalog, and no two agents have the same token.

The schema covers all of this except the last three.
The gateway also checks the following, which the schema does not cover:

- how many bytes a label has: a key 1 to 128, a value at most 512;
- how many bytes a fact has: a name and a value 1 to 128 each;
- which hosts and ports `url` may have;
- that no key is repeated;
- that the approvals can be written if a server has `trust: first_use`.
"""
_APPROVALS = """\
## The approvals file

The file has a record for each server and tool: `git: {git_push: {status: pending}}`.
An empty record (`{}`) has the defaults.
Any other value makes that field unknown, with a warning, and an unknown field opens nothing.
An unknown key is ignored, with a warning.
"""
_RECORD_KEYS = (
    ("disabled", "`true` or `false`", "`false`", "Whether the user has disabled the tool."),
    (
        "status",
        ", ".join(f"`{status}`" for status in get_args(ApprovalStatus)),
        "`approved`",
        "What the user decided after a review of the tool. `changed` counts as `pending`.",
    ),
    (
        "sha256",
        "`v2:` and 64 hexadecimal digits, or `any`",
        "none",
        "The fingerprint of the tool that was reviewed. If the server lists another form of it, the status is"
        " `changed`. `any` stands for any form. A fingerprint without `v2:` is of the version before. Any other value"
        " makes the status unknown.",
    ),
)
_ONE = {"string": "text", "number": "a number", "integer": "a whole number", "boolean": "`true` or `false`"}
_MANY = {"string": "texts", "array": "lists", "object": "mappings"}

Schema = Mapping[str, Any]


def config_page() -> str:
    """Return the page, in Markdown."""
    schema = config_schema()
    sections = [_section("## The config", schema)]
    sections += [_section(f"## `{place}`", model) for place, model in _models(schema, schema["$defs"])]
    records = "\n".join([_APPROVALS, *_header(), *(_row(f"`{key}`", *cells) for key, *cells in _RECORD_KEYS)])
    return "\n".join([_HEAD, *sections, _TOGETHER, records]) + "\n"


def _models(model: Schema, models: Schema, above: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield each model that a key leads to, with its place, and behind it those that its own keys lead to."""
    for key, value in model["properties"].items():
        for place, inner in ((key, value), (f"{key}.NAME", value.get("additionalProperties", {}))):
            if inner and "$ref" in inner:
                found = models[inner["$ref"].rpartition("/")[2]]
                yield f"{above}{place}", found
                yield from _models(found, models, f"{above}{place}.")


def _section(heading: str, model: Schema) -> str:
    rows = (
        _row(f"`{key}`", _kind(value), _default(key, value, model), value["description"])
        for key, value in model["properties"].items()
    )
    return "\n".join([heading, "", model["description"], "", *_header(), *rows, ""])


def _header() -> tuple[str, str]:
    return _row("key", "value", "default", "meaning"), _row("---", "---", "---", "---")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _kind(value: Schema) -> str:
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    match value:
        case {"type": "array", "items": {"type": kind}}:
            return f"a list of {_MANY[kind]}"
        case {"type": "object", "additionalProperties": {"type": [*_]}}:
            return "texts, numbers, `true` or `false` by name"
        case {"type": "object", "additionalProperties": {"type": kind}}:
            return f"{_MANY[kind]} by name"
        case {"type": "object"}:
            return "mappings by name"
        case {"type": kind}:
            return _ONE[kind]
    return "a mapping"


def _default(key: str, value: Schema, model: Schema) -> str:
    if key in model.get("required", ()):
        return "required"
    if "default" in value:
        return f"`{json.dumps(value['default'])}`"
    return "`{}`" if value.get("type") == "object" else "none"
