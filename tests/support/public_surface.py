"""What users of the program rely on by name: commands, codes, metrics, exported names, keys of JSON and YAML.

`PYTHONPATH=tests python -m support.public_surface` records it in `tests/public_surface.json`. A name that is gone is
kept there, so that the test fails until it is back.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from enum import EnumType
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

import typer

from callability.cli.application import COMMANDS, Group, application
from callability.cli.service_settings import SETTINGS
from callability.compiler.questions import QUESTIONS
from callability.compiler.schema import schema_of_rules, schema_of_tests
from callability.gateway.config.schema import config_schema
from callability.service.callers import CALLER_KEYS, TOKEN_KEYS, Right
from support.checkout import ROOT, TESTS
from support.commands import callability

RECORDED = TESTS / "public_surface.json"
EXPORTING = (
    *("callability.adapter", "callability.bundle", "callability.client", "callability.gateway.loading"),
    *("callability.records", "callability.tables", "callability.otel"),
)
JSON_COMMANDS = (
    ("check", "--json"),
    ("test", "--json"),
    ("explain", "--json", "server.enabled=false"),
    ("table", "--format", "json"),
    ("diff", "--json", "policy", "{example}"),
)
"""Commands that write JSON; `{example}` stands for the directory of an exported example."""


def surface() -> dict[str, list[str]]:
    """Return every public name by its kind, sorted."""
    kinds = {
        "commands": _commands(),
        "finding codes": _finding_codes(),
        "metrics": metrics(),
        "exported names": _exported(),
        "keys of JSON": _json_keys(),
        "keys of YAML": _yaml_keys(),
    }
    return {kind: sorted(set(names)) for kind, names in kinds.items()}


def _every_command() -> Iterator[tuple[str, ...]]:
    for name, command in COMMANDS.items():
        if not isinstance(command, Group) or command.own:
            yield (name,)
        if isinstance(command, Group):
            yield from ((name, each) for each in command.commands)


def _commands() -> Iterator[str]:
    """Yield each command, its options and the words that each may take."""
    for path in _every_command():
        command: Any = typer.main.get_command(application(path))
        yield "callability"
        yield from _options(command, "callability")
        for number, word in enumerate(path, 1):
            command = command.commands[word]
            name = " ".join(("callability", *path[:number]))
            yield name
            yield from _options(command, name)


def _options(command: Any, name: str) -> Iterator[str]:
    # A hidden option only says what to write in its place.
    for parameter in (each for each in command.params if not getattr(each, "hidden", False)):
        kind = parameter.type_descriptor.annotation
        choices = [*kind] if isinstance(kind, EnumType) else []
        for spelling in (*parameter.opts, *parameter.secondary_opts):
            yield f"{name} {spelling}"
            yield from (f"{name} {spelling} {choice.value}" for choice in choices)


def _finding_codes() -> Iterator[str]:
    yield from re.findall(r"(?m)^### ([a-z0-9-]+)$", (ROOT / "docs/findings.md").read_text(encoding="utf-8"))


def metrics() -> Iterator[str]:
    """Yield each metric with its labels, as the calls that make them are written."""
    for path in sorted((ROOT / "server").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        # To parse every module takes a third of a second.
        for node in ast.walk(ast.parse(text)) if '"callability_' in text else ():
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = node.args[0].value
                if isinstance(name, str) and re.fullmatch(r"callability_[a-z_]+", name):
                    labels = [ast.literal_eval(each) for each in node.args if isinstance(each, ast.Tuple)]
                    yield f"{name}{{{', '.join(labels[0]) if labels else ''}}}"


def _exported() -> Iterator[str]:
    for module in EXPORTING:
        yield from (f"{module}.{name}" for name in import_module(module).__all__)


def _json_keys() -> Iterator[str]:
    with TemporaryDirectory() as example:
        _printed("policy", "export", "--example", "change-freeze", example)
        for command in JSON_COMMANDS:
            printed = _printed(*(word.format(example=example) for word in command))
            yield from (f"{command[0]} {path}" for path in _paths(json.loads(printed), "$"))


def _printed(*arguments: str) -> str:
    return callability(*arguments, cwd=ROOT).stdout


def _paths(value: Any, path: str) -> Iterator[str]:
    """Yield the path of every key; a key that is data, such as the name of a fact, is written `*`."""
    if isinstance(value, dict):
        for key, each in value.items():
            below = f"{path}.{key if re.fullmatch(r'[a-z_]+', key) else '*'}"
            yield below
            yield from _paths(each, below)
    elif isinstance(value, list):
        for each in value:
            yield from _paths(each, f"{path}[]")


def _yaml_keys() -> Iterator[str]:
    schemas = {"config": config_schema()}
    for name, question in QUESTIONS.items():
        schemas |= {f"{name} rules": schema_of_rules(question), f"{name} tests": schema_of_tests(question)}
    for name, schema in schemas.items():
        yield from (f"{name} {key}" for key in _properties(schema))
    yield from (f"service {name}" for name in SETTINGS)
    yield from (f"callers {key}" for key in ("callers", *CALLER_KEYS, *TOKEN_KEYS, *Right))


def _properties(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        for each in schema.values():
            yield from _properties(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _properties(each)


def main() -> None:
    """Record what there is, and keep what is gone."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    kept = {kind: sorted({*recorded.get(kind, ()), *names}) for kind, names in surface().items()}
    RECORDED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
