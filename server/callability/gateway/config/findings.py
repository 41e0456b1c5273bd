"""What is wrong with a config file: its keys one by one, and those that do not go together.

No finding holds a value of `args`, `env`, `headers` or `url`, nor a name in `env` or `headers`: they may be secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from callability.document import Mapping, Node, Scalar, Sequence, plain
from callability.finding import Finding, Place, Severity, did_you_mean, listed, shown
from callability.gateway.config.model import AgentConfig, ConfigFile, Deadlines, ServerConfig

TOOL_LISTS = ("enabled_tools", "disabled_tools")

_WANTED = {
    "bool_type": "`true` or `false`",
    "dict_type": "a mapping",
    "float_type": "a number",
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
_WAYS: dict[object, str] = {"stdio": "command", "http": "url", "streamable-http": "url"}
_TYPES = {"command": "stdio", "url": "http"}
_COMPANIONS = {"command": ("args", "env", "cwd"), "url": ("headers",)}

Location = tuple[int | str, ...]


def findings(root: Node) -> tuple[ConfigFile | None, tuple[Finding, ...]]:
    """Return what a file says, or None where it cannot be read so, and everything that is wrong with it."""
    together = tuple(_across_keys(root))
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
        case ("mcpServers", server) | ("mcpServers", server, "[key]"):
            return f"server {shown(str(server))}"
        case ("agents", agent) | ("agents", agent, "[key]"):
            return f"agent {shown(str(agent))}"
        case ("agents", agent, key, *_):
            return f"`{key}` of agent {shown(str(agent))}"
        case ("mcpServers", server, key):
            return f"`{key}` of server {shown(str(server))}"
        case ("mcpServers", server, key, *rest):
            part = "a key" if rest[-1] == "[key]" else "an item" if isinstance(rest[-1], int) else "a value"
            return f"{part} in `{key}` of server {shown(str(server))}"
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
    models: dict[object, type[BaseModel]] = {"deadlines": Deadlines, "agents": AgentConfig, "mcpServers": ServerConfig}
    model = models[above[0]] if above else ConfigFile
    # `$schema` is for editors: nobody who looks for a key of the gateway's means it.
    names = [name for field, info in model.model_fields.items() if (name := info.alias or field) != "$schema"]
    if model is ServerConfig and key == "disabled" and isinstance(node, Scalar) and isinstance(node.value, bool):
        return f"write `enabled: {str(not node.value).lower()}`"
    if model is ServerConfig and key in _ELSEWHERE:
        return f"did you mean `{_ELSEWHERE[key]}`?"
    return did_you_mean(key, names) or f"one of {listed(names)}"


def _across_keys(root: Node) -> Iterator[Finding]:
    servers = root.get("mcpServers") if isinstance(root, Mapping) else None
    for name, server in servers.entries if isinstance(servers, Mapping) else ():
        if isinstance(server, Mapping):
            keys = {str(key.value): key for key, _ in server.entries}
            subject = f"server {shown(str(name.value))}"
            yield from _transport_findings(name, server, keys, subject)
            yield from _list_findings(server, keys, subject)
    yield from _agent_findings(root, servers)


def _agent_findings(root: Node, servers: Node | None) -> Iterator[Finding]:
    """Find servers of agents that are not there, and tokens that would name two agents."""
    agents = root.get("agents") if isinstance(root, Mapping) else None
    known = [str(name.value) for name, _ in servers.entries] if isinstance(servers, Mapping) else []
    digests: dict[str, str] = {}
    for name, agent in agents.entries if isinstance(agents, Mapping) else ():
        seen = agent.get("servers") if isinstance(agent, Mapping) else None
        subject = f"agent {shown(str(name.value))}"
        for item in seen.items if isinstance(seen, Sequence) else ():
            if isinstance(item, Scalar) and isinstance(item.value, str) and item.value not in known:
                sentence = f"{subject} may see server {shown(item.value)}, which is not in `mcpServers`"
                yield Finding(item.place, "unknown-server", sentence, did_you_mean(item.value, known))
        digest = agent.get("token_sha256") if isinstance(agent, Mapping) else None
        if isinstance(digest, Scalar) and isinstance(digest.value, str):
            first = digests.setdefault(digest.value.lower(), subject)
            if first != subject:
                yield Finding(
                    digest.place, "shared-token", f"{subject} has the same token as {first}", "give each its own"
                )


def _transport_findings(name: Scalar, server: Mapping, keys: dict[str, Scalar], subject: str) -> Iterator[Finding]:
    ways = [key for key in keys if key in _COMPANIONS]
    if not ways:
        yield Finding(name.place, "no-transport", f"{subject} has neither `command` nor `url`", "give it one of them")
    elif len(ways) > 1:
        sentence = f"{subject} has both `command` and `url`"
        yield Finding(keys[ways[1]].place, "two-transports", sentence, "keep one of them")
    else:
        [way] = ways
        [other] = _COMPANIONS.keys() - {way}
        for key in (key for key in _COMPANIONS[other] if key in keys):
            sentence = f"`{key}` of {subject} does not go with `{way}`"
            yield Finding(keys[key].place, "key-of-other-transport", sentence, f"it belongs to a server with `{other}`")
        yield from _type_findings(server.get("type"), way, subject)


def _type_findings(node: Node | None, way: str, subject: str) -> Iterator[Finding]:
    if isinstance(node, Scalar) and _WAYS.get(node.value, way) != way:
        sentence = f"`type` of {subject} is `{node.value}`, but the server has `{way}`"
        yield Finding(node.place, "type-disagrees", sentence, f"write `type: {_TYPES[way]}`, or leave it out")


def _list_findings(server: Mapping, keys: dict[str, Scalar], subject: str) -> Iterator[Finding]:
    both = [key for key in keys if key in TOOL_LISTS]
    if len(both) > 1:
        sentence = f"{subject} has both `enabled_tools` and `disabled_tools`"
        yield Finding(keys[both[1]].place, "two-tool-lists", sentence, "keep one of them")
    for key in both:
        items = server.get(key)
        if not isinstance(items, Sequence):
            continue
        if key == "enabled_tools" and not items.items:
            sentence = f"`enabled_tools` of {subject} is empty, so that no tool could be called"
            yield Finding(items.place, "empty-allow-list", sentence, "to switch the server off, write `enabled: false`")
        yield from _duplicates(items, f"`{key}` of {subject}")


def _duplicates(items: Sequence, subject: str) -> Iterator[Finding]:
    seen: set[object] = set()
    for item in items.items:
        if isinstance(item, Scalar) and isinstance(item.value, str):
            if item.value in seen:
                sentence = f"{shown(item.value)} stands twice in {subject}"
                yield Finding(item.place, "duplicate-entry", sentence, "keep one of them", Severity.WARNING)
            seen.add(item.value)
