"""Finds what is wrong with the single keys of a config file, and what the environment lacks for it.

No finding holds a value of `args`, `env`, `headers` or `url`, nor a name in `env` or `headers`: they may be secrets.
Servers of the catalog are left out: an agent that enables one learns what is not set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from callability.contract.finding import Finding, Severity, as_code, did_you_mean, list_names, nearest
from callability.files import document
from callability.files.document import DocumentMapping, DocumentSequence, Node, Scalar
from callability.gateway.config.disagreements import SECTIONS, SERVERS_KEYS, disagreements, hint_for_key, server_subject
from callability.gateway.config.model import (
    AgentConfig,
    CatalogEntry,
    ConfigFile,
    Deadlines,
    HttpConfig,
    OAuthConfig,
    RecordsConfig,
    ServerConfig,
    ServerDeadlines,
)
from callability.gateway.config.secrets_file import PREFIX, SECRETS_FILE
from callability.gateway.config.variables import FILLED, Unfillable, fill, find_node, place, unset, unset_in

_SECTION = "mcpServers"


LACKS = ("unset-variable", "unset-secret", "unfit-variable")
"""The codes of what a server lacks: a gateway serves the other servers, and says of this one that it does not load."""


def unset_variables(root: Node, environment: Mapping[str, str], only: str = "") -> Iterator[Finding]:
    """Yield a warning for each variable that is not set and has no default, whatever else is wrong with the file.

    `only` is the name of the server that is looked at, if it is not every server.
    """
    servers = document.node_at(root, _SECTION)
    for name, server in document.entries_of(servers):
        if only not in {"", name.value}:
            continue
        for key, value in document.entries_of(server):
            if key.value in FILLED:
                subject = f"`{key.value}` of {server_subject(_SECTION, str(name.value))}"
                yield from _unset(value, subject, environment)


def unfit_variables(
    root: Node, servers: Mapping[str, ServerConfig], environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield a warning for each key that its variables make invalid, such as a line break in a header."""
    for name, server in servers.items():
        if unset(server, environment):
            continue
        try:
            fill(server, environment)
        except Unfillable as error:
            for key in error.keys:
                sentence = f"`{key}` of {server_subject(_SECTION, name)} is invalid after its variables are filled in"
                hint = "check the values of the variables in the environment of the gateway"
                yield Finding(place(root, (_SECTION, name, key)), "unfit-variable", sentence, hint, Severity.WARNING)


def _unset(node: Node, subject: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    for text, at in document.texts(node):
        for variable in unset_in(text, environment):
            if variable.startswith(PREFIX):
                name = variable.removeprefix(PREFIX)
                state, hint = f"not in `{SECRETS_FILE}` beside it", f"add a line `{name}=VALUE` to it"
                if variable in environment:
                    state, hint = "empty, or cannot be read", ""
                sentence = f"{subject} needs the secret {as_code(name)}, which is {state}"
                yield Finding(at, "unset-secret", sentence, hint, Severity.WARNING)
                continue
            state = "empty" if variable in environment else "not set"
            sentence = f"{subject} needs the environment variable {as_code(variable)}, which is {state}"
            hint = f"set it for the gateway, or give it a default: `${{{variable}:-DEFAULT}}`"
            yield Finding(at, "unset-variable", sentence, hint, Severity.WARNING)


def content(node: Node, *above: object) -> object:
    """Return a node as `document.plain` does, but whole numbers among facts as they are written.

    A policy compares texts: to it, `00` is not `0`. `above` are the keys that lead to the node.
    """
    match node, above:
        case DocumentMapping(entries=entries), _:
            return {key.value: content(value, *above, key.value) for key, value in entries}
        case Scalar(word=word), (_, _, "facts" | "tool_fact_defaults", _) | (_, _, "tool_facts", _, _):
            return word
        case _:
            return document.plain(node)


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
_QUOTED = re.compile(r"'([^']*)'")
_MODELS: dict[object, type[BaseModel]] = {
    "deadlines": Deadlines,
    "http": HttpConfig,
    "records": RecordsConfig,
    "agents": AgentConfig,
    "mcpServers": ServerConfig,
    "catalog": CatalogEntry,
}
_INNER: dict[object, type[BaseModel]] = {"oauth": OAuthConfig, "deadlines": ServerDeadlines}

Location = tuple[int | str, ...]


def findings(root: Node) -> tuple[ConfigFile | None, tuple[Finding, ...]]:
    """Return the content of a file, or None if it is invalid, and all its findings."""
    together = tuple(disagreements(root))
    try:
        return ConfigFile.model_validate(content(root)), together
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        named_here = (fault for fault in faults if not _is_misnamed(root, fault))
        return None, (*(_model_finding(root, fault["loc"], fault) for fault in named_here), *together)


def _is_misnamed(root: Node, fault: Any) -> bool:
    """Return whether a missing key is there, misspelled or by another client's name; the unknown key has a hint."""
    if fault["type"] != "missing":
        return False
    *above, key = fault["loc"]
    node = find_node(root, above)[1]
    keys = {str(name.value) for name, _ in node.entries} if isinstance(node, DocumentMapping) else set()
    names = _names(_model(tuple(above)))
    if not above and not keys.isdisjoint(SERVERS_KEYS):
        return True
    return any(nearest(each, names) == key for each in keys.difference(names))


def _model_finding(root: Node, location: Location, fault: Any) -> Finding:
    kind, key = str(fault["type"]), location[-1] if location else ""
    named, node = find_node(root, location)
    subject = _subject(location)
    match kind:
        case "extra_forbidden":
            hint = _better_key(location, node)
            return Finding(named.place, "unknown-key", f"unknown key {as_code(str(key))}{_of(location[:-1])}", hint)
        case "missing":
            hint = f"write `{key}: {{}}` for none" if len(location) == 1 else ""
            return Finding(named.place, "missing-key", f"{_subject(location[:-1])} has no `{key}`", hint)
        case _ if kind in _WANTED and isinstance(node, Scalar) and node.value is None:
            return Finding(named.place, "no-value", f"{subject} has no value", "give it one, or leave the key out")
        case "literal_error" if isinstance(node, Scalar) and isinstance(node.value, str):
            hint = did_you_mean(node.value, _domain(fault))
            return Finding(node.place, "unknown-value", f"{subject} is {as_code(node.value)}, which is not known", hint)
        case _ if kind in _WANTED:
            sentence = f"{subject} is {_kind(node)}, but must be {_WANTED[kind]}"
            domain = _domain(fault) if kind == "literal_error" else ()
            hint = did_you_mean("", domain) if domain else _retype(node, _WANTED[kind])
            return Finding(node.place, "wrong-type", sentence, hint)
        case _:
            at = named if key == "[key]" or kind == "no-value" else node
            return Finding(at.place, kind, f"{subject} {fault['msg']}", fault.get("ctx", {}).get("hint", ""))


def _domain(fault: Any) -> list[str]:
    """Return the values of which one was expected."""
    return _QUOTED.findall(str(fault["ctx"]["expected"]))


def _subject(location: Location) -> str:
    match location:
        case ():
            return "the file"
        case (section, server) | (section, server, "[key]") if section in SECTIONS:
            return server_subject(str(section), str(server))
        case ("agents", agent) | ("agents", agent, "[key]"):
            return f"agent {as_code(str(agent))}"
        case ("agents", agent, key, *_):
            return f"`{key}` of agent {as_code(str(agent))}"
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
        case DocumentMapping():
            return "a mapping"
        case DocumentSequence():
            return "a list"
        case Scalar(value=bool()):
            return "a truth value"
        case Scalar(value=int() | float()):
            return "a number"
        case Scalar():
            return "text"


def _retype(node: Node, wanted: str) -> str:
    if not isinstance(node, Scalar):
        return ""
    if wanted == "text":
        return "put it in quotes"
    return "write it without quotes" if wanted == "`true` or `false`" and node.value in {"true", "false"} else ""


def _model(location: Location) -> type[BaseModel]:
    """Return the model of the mapping at a location."""
    return _INNER[location[2]] if len(location) > 2 else _MODELS[location[0]] if location else ConfigFile


def _names(model: type[BaseModel]) -> list[str]:
    """Return the keys of a mapping, except `$schema`, which is for editors."""
    return [name for field, info in model.model_fields.items() if (name := info.alias or field) != "$schema"]


def _better_key(location: Location, node: Node) -> str:
    above, key = location[:-1], str(location[-1])
    model = _model(above)
    names = _names(model)
    of_server = model in {ServerConfig, CatalogEntry}
    if (of_server or not above) and (
        hint := hint_for_key(key, node, of_server=of_server, in_catalog=model is CatalogEntry)
    ):
        return hint
    return did_you_mean(key, names) or f"one of {list_names(names)}"
