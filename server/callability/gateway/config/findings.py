"""What is wrong with a config file: its keys one by one; `disagreements` finds those that do not go together.

No finding holds a value of `args`, `env`, `headers` or `url`, nor a name in `env` or `headers`: they may be secrets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from callability.document import Mapping, Node, Scalar, Sequence, plain
from callability.finding import Finding, Place, did_you_mean, listed, shown
from callability.gateway.config.disagreements import SECTIONS, disagreements, server_subject
from callability.gateway.config.model import (
    AgentConfig,
    CatalogEntry,
    ConfigFile,
    Deadlines,
    OAuthConfig,
    ServerConfig,
)

_WANTED = {
    "bool_type": "`true` or `false`",
    "dict_type": "a mapping",
    "float_type": "a number",
    "int_type": "a whole number",
    "literal_error": "text",
    "model_type": "a mapping",
    "string_type": "text",
    "tuple_type": "a list",
}
_DOMAINS = {"type": ("stdio", "http"), "trust": ("auto", "manual")}
# What other programs call the same thing, where the names are not near.
_ELSEWHERE = {
    "excludeTools": "disabled_tools",
    "httpUrl": "url",
    "includeTools": "enabled_tools",
    "serverUrl": "url",
    "transport": "type",
}
_MODELS: dict[object, type[BaseModel]] = {
    "deadlines": Deadlines,
    "agents": AgentConfig,
    "mcpServers": ServerConfig,
    "catalog": CatalogEntry,
}

Location = tuple[int | str, ...]


def findings(root: Node) -> tuple[ConfigFile | None, tuple[Finding, ...]]:
    """Return what a file says, or None where it cannot be read so, and everything that is wrong with it."""
    together = tuple(disagreements(root))
    try:
        return ConfigFile.model_validate(plain(root)), together
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        return None, (*(_finding(root, fault["loc"], fault) for fault in faults), *together)


def place(root: Node, location: Iterable[int | str]) -> Place:
    """Return where a value stands, or the nearest node above it that is there."""
    return _found(root, location)[1].place


def _finding(root: Node, location: Location, fault: Any) -> Finding:
    kind, key = str(fault["type"]), location[-1] if location else ""
    named, node = _found(root, location)
    subject = _subject(location)
    match kind:
        case "extra_forbidden":
            hint = _better_key(location, node)
            return Finding(named.place, "unknown-key", f"unknown key {shown(str(key))}{_of(location[:-1])}", hint)
        case "missing":
            hint = f"write `{key}: {{}}` for none" if len(location) == 1 else ""
            return Finding(named.place, "missing-key", f"{_subject(location[:-1])} has no `{key}`", hint)
        case _ if kind in _WANTED and isinstance(node, Scalar) and node.value is None:
            return Finding(named.place, "no-value", f"{subject} has no value", "give it one, or leave the key out")
        case "literal_error" if isinstance(node, Scalar) and isinstance(node.value, str):
            hint = did_you_mean(node.value, _DOMAINS[str(key)])
            return Finding(node.place, "unknown-value", f"{subject} is {shown(node.value)}, which is not known", hint)
        case _ if kind in _WANTED:
            sentence = f"{subject} is {_kind(node)}, where {_WANTED[kind]} is wanted"
            return Finding(node.place, "wrong-type", sentence, _retyped(node, _WANTED[kind]))
        case _:
            at = named if key == "[key]" or kind == "no-value" else node
            return Finding(at.place, kind, f"{subject} {fault['msg']}", fault.get("ctx", {}).get("hint", ""))


def _found(root: Node, location: Iterable[int | str]) -> tuple[Node, Node]:
    """Return the key and the node at a location, as far as it leads; a list has its item for a key."""
    key = node = root
    held: tuple[Node, Node] | None
    for step in location:
        match node:
            case Mapping(entries=entries):
                held = next(((name, value) for name, value in entries if name.value == step), None)
            case Sequence(items=items) if isinstance(step, int) and step < len(items):
                held = (items[step], items[step])
            case _:
                held = None
        if held is None:
            break
        key, node = held
    return key, node


def _subject(location: Location) -> str:
    match location:
        case ():
            return "the file"
        case (section, server) | (section, server, "[key]") if section in SECTIONS:
            return server_subject(str(section), str(server))
        case ("agents", agent) | ("agents", agent, "[key]"):
            return f"agent {shown(str(agent))}"
        case ("agents", agent, key, *_):
            return f"`{key}` of agent {shown(str(agent))}"
        case (section, server, key) if section in SECTIONS:
            return f"`{key}` of {server_subject(str(section), str(server))}"
        case (section, server, key, *rest) if section in SECTIONS:
            part = "a key" if rest[-1] == "[key]" else "an item" if isinstance(rest[-1], int) else "a value"
            return f"{part} in `{key}` of {server_subject(str(section), str(server))}"
        case _:
            return f"`{'.'.join(map(str, location))}`"


def _of(location: Location) -> str:
    return f" in {_subject(location)}" if location else ""


def _kind(node: Node) -> str:
    match node:
        case Mapping():
            return "a mapping"
        case Sequence():
            return "a list"
        case Scalar(value=bool()):
            return "a truth value"
        case Scalar(value=int() | float()):
            return "a number"
        case Scalar():
            return "text"


def _retyped(node: Node, wanted: str) -> str:
    if not isinstance(node, Scalar):
        return ""
    if wanted == "text":
        return "put it in quotes"
    return "write it without quotes" if wanted == "`true` or `false`" and node.value in {"true", "false"} else ""


def _better_key(location: Location, node: Node) -> str:
    above, key = location[:-1], str(location[-1])
    model = OAuthConfig if above[-1:] == ("oauth",) else _MODELS[above[0]] if above else ConfigFile
    # `$schema` is for editors: nobody who looks for a key of the gateway's means it.
    names = [name for field, info in model.model_fields.items() if (name := info.alias or field) != "$schema"]
    if model is ServerConfig and key == "disabled" and isinstance(node, Scalar) and isinstance(node.value, bool):
        return f"write `enabled: {str(not node.value).lower()}`"
    if model in {ServerConfig, CatalogEntry} and key in _ELSEWHERE:
        return f"did you mean `{_ELSEWHERE[key]}`?"
    return did_you_mean(key, names) or f"one of {listed(names)}"
