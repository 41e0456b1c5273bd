"""Finds what is wrong with the keys of a config file, with what to write instead, and what the environment lacks.

Keys may be wrong by themselves, not fit together, or be those of other clients' configs. Servers of the catalog are
left out: an agent that enables one learns what is not set. No finding holds a value of `args`, `env`, `headers`,
`oauth` or `url`, nor a name in `env` or `headers`: they may be secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from callability.contract.finding import Finding, Severity, as_code, did_you_mean, list_names, nearest
from callability.files import document
from callability.files.document import DocumentMapping, DocumentSequence, Node, Scalar
from callability.gateway.config import variables
from callability.gateway.config.model import (
    HTTP_SPELLINGS,
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

URL_KEYS = frozenset({"httpUrl", "serverUrl"})
"""What others call `url`."""
SERVERS_KEYS = frozenset({"servers", "context_servers", "mcp_servers"})
"""What others call `mcpServers`."""

_ASKS_NOBODY = "leave it out: the gateway asks for no confirmation; `disabled_tools` lists the tools that it refuses"
_OF_SERVERS: Mapping[str, str] = {
    **dict.fromkeys(URL_KEYS, "write `url`"),
    "alwaysAllow": _ASKS_NOBODY,
    "autoApprove": _ASKS_NOBODY,
    "disabledTools": "write `disabled_tools`",
    "enabledTools": "write `enabled_tools`",
    "envFile": "write `env_file`",
    "excludeTools": "write `disabled_tools`",
    "includeTools": "write `enabled_tools`",
    "timeout": "write `deadlines: {call_seconds: SECONDS}`",
    "transport": "write `type`",
}
_OF_FILE: Mapping[str, str] = {
    **dict.fromkeys(SERVERS_KEYS, "write `mcpServers`"),
    "inputs": "leave it out: the gateway does not prompt for values; write `${NAME}` for an environment variable",
}


def hint_for_key(key: str, node: Node, *, of_server: bool, in_catalog: bool = False) -> str:
    """Return what to write in place of another client's key, of a server or of the file; empty if it is none."""
    if of_server and key == "disabled":
        return _enabled_text(node, in_catalog=in_catalog)
    return (_OF_SERVERS if of_server else _OF_FILE).get(key, "")


def _enabled_text(node: Node, *, in_catalog: bool) -> str:
    if in_catalog:
        return "leave it out: a server of the catalog is connected when an agent enables it"
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return f"write `enabled: {str(not node.value).lower()}`"
    return "write `enabled`, with `true` or `false`"


TOOL_LISTS = ("enabled_tools", "disabled_tools")
SECTIONS = {"mcpServers": "server", "catalog": "catalog server"}
"""The keys of the file that hold servers, and what one of them is called."""

_WAYS: dict[object, str] = {"stdio": "command", **dict.fromkeys((*HTTP_SPELLINGS, "sse"), "url")}
_READ_AS_GIVEN = ("command", "cwd", "env_file")
"""Keys in which a reader may expect variables to be filled in, although they are not."""
_TYPES = {"command": "stdio", "url": "http"}
_COMPANIONS = {"command": ("args", "env", "env_file", "inherit", "cwd"), "url": ("headers", "oauth")}
_OF_A_SHELL = re.compile(
    r"(?P<dollar>(?<!\$)\$[A-Z_][A-Z0-9_]*\b)|(?P<percent>%[A-Z_][A-Z0-9_]+%)|(?P<home>(?:^|(?<==))~(?:/|$))"
)
_SHELL_FORMS = {
    "dollar": ("`$` before a name", "write `${NAME}` for an environment variable of the gateway"),
    "percent": ("a name between `%`", "write `${NAME}` for an environment variable of the gateway"),
    "home": ("`~`", "write `${HOME}` for the home directory"),
}
_SHELLS = re.compile(r"(?:.*[/\\])?(?:(?:ba|da|z|k|fi|a)?sh|cmd|powershell|pwsh)(?:\.exe)?", re.IGNORECASE)
_VARIABLE_OF_OTHERS = re.compile(r"\$\{(env|input):")


def server_subject(section: str, server: str) -> str:
    """Return the name of a server in a sentence."""
    return f"{SECTIONS[section]} {as_code(server)}"


def disagreements(root: Node) -> Iterator[Finding]:
    """Yield what is wrong between keys, in servers, in the catalog and in agents."""
    sections = {section: document.node_at(root, section) for section in SECTIONS}
    names: dict[str, str] = {}
    for section, servers in sections.items():
        for name, server in document.entries_of(servers):
            subject = server_subject(section, str(name.value))
            first = names.setdefault(str(name.value), section)
            if first != section:
                sentence = f"{subject} has the name of a server in `{first}`"
                yield Finding(name.place, "name-taken", sentence, "give it another one")
            if isinstance(server, DocumentMapping):
                keys = {str(key.value): key for key, _ in server.entries}
                yield from _transport_findings(name, server, keys, subject)
                yield from _list_findings(server, keys, subject)
                yield from _secret_findings(server, subject)
                for key, value in server.entries:
                    if key.value in _READ_AS_GIVEN or key.value in variables.FILLED:
                        yield from _variable_findings(str(key.value), value, subject)
                    if key.value == "env" or (key.value == "args" and not _runs_a_shell(server)):
                        yield from _shell_findings(str(key.value), value, subject)
                yield from _oauth_findings(server, keys, subject)
    yield from _agent_findings(root, tuple(names))


def _oauth_findings(server: DocumentMapping, keys: dict[str, Scalar], subject: str) -> Iterator[Finding]:
    oauth, headers = server.get("oauth"), server.get("headers")
    if not isinstance(oauth, DocumentMapping):
        return
    for header, _ in document.entries_of(headers):
        if str(header.value).lower() == "authorization":
            sentence = f"{subject} has both `oauth` and an authorization in `headers`"
            yield Finding(keys["oauth"].place, "two-authorizations", sentence, "keep one of them")
    for key, value in oauth.entries:
        if key.value == "client_secret" and oauth.get("client_id") is None:
            sentence = f"`oauth` of {subject} has `client_secret`, and no `client_id`"
            yield Finding(value.place, "secret-without-client", sentence, "give the `client_id` that it belongs to")


def _runs_a_shell(server: DocumentMapping) -> bool:
    """Say whether the arguments of a server are read by a shell."""
    command = server.get("command")
    return isinstance(command, Scalar) and _SHELLS.fullmatch(str(command.value)) is not None


def _variable_findings(key: str, node: Node, subject: str) -> Iterator[Finding]:
    """Find what looks like a variable and is used as it is written."""
    for text, at in document.texts(node):
        if key in _READ_AS_GIVEN and "${" in text:
            sentence = f"`{key}` of {subject} has `${{`, and is used literally: variables are not filled in here"
            hint = f"variables are filled in only in {list_names(variables.FILLED)}"
            yield Finding(at, "odd-variable", sentence, hint, Severity.WARNING)
        elif variables.is_odd(text):
            sentence = f"a value in `{key}` of {subject} has `${{` without a variable, and is used literally"
            yield Finding(at, "odd-variable", sentence, _variable_hint(text), Severity.WARNING)


def _shell_findings(key: str, node: Node, subject: str) -> Iterator[Finding]:
    """Find what a shell would fill in, and nothing does."""
    for text, at in document.texts(node):
        if found := _OF_A_SHELL.search(text):
            what, hint = _SHELL_FORMS[str(found.lastgroup)]
            sentence = f"a value in `{key}` of {subject} has {what}, and is used literally: no shell reads it"
            yield Finding(at, "odd-variable", sentence, hint, Severity.WARNING)


def _variable_hint(text: str) -> str:
    found = _VARIABLE_OF_OTHERS.search(text)
    if found is None:
        return "a variable is written `${NAME}` or `${NAME:-default}`, and the text `${` is written `$${`"
    if found[1] == "env":
        return "write `${NAME}` for an environment variable, without `env:`"
    return "the gateway does not prompt for values: write `${NAME}` for an environment variable"


def _secret_findings(server: DocumentMapping, subject: str) -> Iterator[Finding]:
    arguments = server.get("args")
    items = document.items_of(arguments)
    given = [str(item.value) if isinstance(item, Scalar) else "" for item in items]
    for index in variables.secret_arguments(given):
        sentence = f"an argument of {subject} holds a secret, and every process list of the machine shows arguments"
        hint = "pass it by `env` if the server can read it there"
        yield Finding(items[index].place, "secret-in-args", sentence, hint, Severity.WARNING)


def _agent_findings(root: Node, known: tuple[str, ...]) -> Iterator[Finding]:
    """Find servers of agents that do not exist, and tokens that would identify two agents."""
    agents = document.node_at(root, "agents")
    digests: dict[str, str] = {}
    for name, agent in document.entries_of(agents):
        seen = document.node_at(agent, "servers")
        subject = f"agent {as_code(str(name.value))}"
        for item in document.items_of(seen):
            if isinstance(item, Scalar) and isinstance(item.value, str) and item.value not in known:
                sentence = (
                    f"{subject} may see server {as_code(item.value)}, which is not in `mcpServers`, nor in `catalog`"
                )
                yield Finding(item.place, "unknown-server", sentence, did_you_mean(item.value, known))
        digest = document.node_at(agent, "token_sha256")
        if isinstance(digest, Scalar) and isinstance(digest.value, str):
            first = digests.setdefault(digest.value.lower(), subject)
            if first != subject:
                yield Finding(
                    digest.place, "shared-token", f"{subject} has the same token as {first}", "give each its own"
                )


def _transport_findings(
    name: Scalar, server: DocumentMapping, keys: dict[str, Scalar], subject: str
) -> Iterator[Finding]:
    ways = [key for key in keys if key in _COMPANIONS]
    if not ways and any(_stands_for_a_way(key) for key in keys):
        return
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


def _stands_for_a_way(key: str) -> bool:
    """Return whether an unknown key has a hint to write `command` or `url`."""
    known = ServerConfig.model_fields
    return key in URL_KEYS or (key not in known and nearest(key, known) in _COMPANIONS)


def _type_findings(node: Node | None, way: str, subject: str) -> Iterator[Finding]:
    if isinstance(node, Scalar) and _WAYS.get(node.value, way) != way:
        sentence = f"`type` of {subject} is `{node.value}`, but the server has `{way}`"
        yield Finding(node.place, "type-disagrees", sentence, f"write `type: {_TYPES[way]}`, or leave it out")


def _list_findings(server: DocumentMapping, keys: dict[str, Scalar], subject: str) -> Iterator[Finding]:
    both = [key for key in keys if key in TOOL_LISTS]
    if len(both) > 1:
        sentence = f"{subject} has both `enabled_tools` and `disabled_tools`"
        yield Finding(keys[both[1]].place, "two-tool-lists", sentence, "keep one of them")
    for key in both:
        items = server.get(key)
        if not isinstance(items, DocumentSequence):
            continue
        if key == "enabled_tools" and not items.items:
            sentence = f"`enabled_tools` of {subject} is empty, so no tool could be called"
            yield Finding(items.place, "empty-allow-list", sentence, "to switch the server off, write `enabled: false`")
        yield from _duplicates(items, f"`{key}` of {subject}")


def _duplicates(items: DocumentSequence, subject: str) -> Iterator[Finding]:
    seen: set[object] = set()
    for item in items.items:
        if isinstance(item, Scalar) and isinstance(item.value, str):
            if item.value in seen:
                sentence = f"{as_code(item.value)} is repeated in {subject}"
                yield Finding(item.place, "duplicate-entry", sentence, "keep one of them", Severity.WARNING)
            seen.add(item.value)


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
            if key.value in variables.FILLED:
                subject = f"`{key.value}` of {server_subject(_SECTION, str(name.value))}"
                yield from _unset(value, subject, environment)


def unfit_variables(
    root: Node, servers: Mapping[str, ServerConfig], environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield a warning for each key that its variables make invalid, such as a line break in a header."""
    for name, server in servers.items():
        if variables.unset(server, environment):
            continue
        try:
            variables.fill(server, environment)
        except variables.Unfillable as error:
            for key in error.keys:
                sentence = f"`{key}` of {server_subject(_SECTION, name)} is invalid after its variables are filled in"
                hint = "check the values of the variables in the environment of the gateway"
                yield Finding(
                    variables.place(root, (_SECTION, name, key)), "unfit-variable", sentence, hint, Severity.WARNING
                )


def _unset(node: Node, subject: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    for text, at in document.texts(node):
        for variable in variables.unset_in(text, environment):
            if variable.startswith(variables.PREFIX):
                name = variable.removeprefix(variables.PREFIX)
                state, hint = f"not in `{variables.SECRETS_FILE}` beside it", f"add a line `{name}=VALUE` to it"
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
    node = variables.find_node(root, above)[1]
    keys = {str(name.value) for name, _ in node.entries} if isinstance(node, DocumentMapping) else set()
    names = _names(_model(tuple(above)))
    if not above and not keys.isdisjoint(SERVERS_KEYS):
        return True
    return any(nearest(each, names) == key for each in keys.difference(names))


def _model_finding(root: Node, location: Location, fault: Any) -> Finding:
    kind, key = str(fault["type"]), location[-1] if location else ""
    named, node = variables.find_node(root, location)
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
