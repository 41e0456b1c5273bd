"""From a server in the config of a client to one in ours, or the reason why it stays where it is.

A server never gets more than it had: what cannot be translated without a loss of limits is left out, and the client
keeps it.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callability.contract.finding import Severity, as_code, joined_hints, list_names
from callability.files import document
from callability.gateway.config.findings import findings
from callability.gateway.config.variables import unset_in
from callability.setup.client_file import ClientFile, read_client_file
from callability.setup.clients import ConfigForm, Dialect, McpClient, Variables
from callability.setup.secret_values import OF_EVERY_SESSION, Entry

_ORDER = (
    *("command", "args", "env", "env_file", "inherit", "cwd", "url", "headers", "type", "enabled_tools"),
    *("disabled_tools", "trust", "deadlines", "enabled", "quarantined"),
)
_TYPES = {
    **dict.fromkeys(("stdio", "local"), "stdio"),
    **dict.fromkeys(("http", "streamable-http", "streamableHttp", "streamable_http", "remote"), "http"),
    "sse": "sse",
    "auto": "",
}
_TYPE_KEYS = ("type", "transport", "protocol", "transportType")
_PARTS_OF_GOOSE = frozenset({"builtin", "platform", "frontend", "inline_python"})
_LIMITING = re.compile(r"tool|allow|deny|denied|sandbox|permi|restrict|block|only|disable|exclude|include|isolat", re.I)
_SHELL = re.compile(r"\$\{(?![A-Za-z_][A-Za-z0-9_]*(?::-[^}$]*)?\})")
_PREFIXED = re.compile(r"\$\{([^}]*)\}")
_DOLLAR = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)|\$\{")
_BRACES = re.compile(r"\{(env|file):([^}]*)\}")
_OURS = re.compile(r"(?:.*[/\\])?callability(?:\.exe)?", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HERE = frozenset({"PWD", "CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT"})
"""Variables that mean the place where a client works."""
_BY_HAND = "add it by `callability servers add NAME --agent AGENT` with the value, and remove it there"
_LONGEST_SECONDS = 86_400
_EMPTY_IS_ALL = "available_tools"
"""The list of allowed tools that allows all of them if it is empty, as one that is left out does."""


class LeftOut(Exception):
    """A server that stays at its client; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A server as our config has it, and what a person should know about the translation."""

    entry: Entry
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a translation may look up: the home directory, and the variables that a gateway would find.

    `stores_variables`: their values are stored, and the gateway does not need the variables.
    """

    home: Path
    environment: Mapping[str, str]
    stores_variables: bool = False


def is_ours(entry: object) -> bool:
    """Say whether an entry of a client starts callability."""
    found = entry.get("command", entry.get("cmd")) if isinstance(entry, Mapping) else None
    line = found if isinstance(found, list) else [found]
    if isinstance(entry, Mapping) and isinstance(found, str) and isinstance(entry.get("args"), list):
        line = [found, *entry["args"]]
    return bool(line) and (_OURS.fullmatch(str(line[0])) is not None or [*map(str, line[1:3])] == ["-m", "callability"])


def translate(
    client: McpClient, name: str, entry: object, denied: Sequence[str], surroundings: Surroundings
) -> Translation:
    """Return a server of a client as our config has it; `denied` are tools that the client denies elsewhere.

    Raises:
        LeftOut: it cannot be translated; the message has no value of the entry that may be a secret.
    """
    if not isinstance(entry, Mapping):
        raise LeftOut("is no mapping")
    given = _flatten_entry(client, dict(entry))
    # In a list of servers, it is what another form has as a key.
    if given.get("name") == name:
        del given["name"]
    work = _Work(client.dialect, surroundings)
    work.take_switches(given)
    work.take_type(given)
    work.take_tools(given, denied)
    for key, value in given.items():
        work.take(str(key), value)
    if not work.entry.keys() & {"command", "url"}:
        raise LeftOut("has neither a command nor an address: the client itself provides it, as by an extension")
    return Translation(_check_entry(name, work.finish()), tuple(work.notes))


def denials(client: McpClient, file: ClientFile, home: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the tools of each server that a client denies elsewhere in its config; `*` is all of them.

    Raises:
        Unusable: the file where they are cannot be read.
    """
    if client.name == "opencode":
        switches = file.root.get("tools")
        off = [key for key, value in switches.items() if value is False] if isinstance(switches, Mapping) else []
        return {name: found for name in file.servers if (found := tuple(_tools_of_patterns(name, off)))}
    settings = home / ".claude/settings.json"
    if client.name != "claude-code" or not settings.is_file():
        return {}
    permissions = read_client_file(settings, ConfigForm.JSON, ()).root.get("permissions")
    rules = permissions.get("deny") if isinstance(permissions, Mapping) else None
    by_server: dict[str, tuple[str, ...]] = {}
    for rule in rules if isinstance(rules, list) else ():
        prefix, _, rest = str(rule).partition("__")
        server, _, tool = rest.partition("__")
        if prefix == "mcp" and server:
            by_server[server] = (*by_server.get(server, ()), tool or "*")
    return by_server


def _tools_of_patterns(server: str, patterns: Iterable[str]) -> Iterable[str]:
    for pattern in patterns:
        if pattern.startswith(f"{server}_") and not set(pattern) & set("*?["):
            yield pattern.removeprefix(f"{server}_")
        elif fnmatch.fnmatchcase(f"{server}_", pattern):
            yield "*"
        elif pattern.startswith(f"{server}_"):
            yield f"?{pattern}"


def _flatten_entry(client: McpClient, entry: Entry) -> Entry:
    """Return an entry whose command is one text, and whose arguments and headers are of their own keys."""
    command = entry.get("command")
    if isinstance(command, Mapping):
        inner = {"command": command.get("path"), "args": command.get("args", []), "env": command.get("env") or {}}
        entry = {**entry, **inner}
    elif isinstance(command, list):
        if not command:
            raise LeftOut("has an empty `command`")
        entry = {**entry, "command": command[0], "args": command[1:]}
    if client.name == "goose" and entry.get("type") in _PARTS_OF_GOOSE:
        raise LeftOut("is a part of Goose, and no MCP server")
    return entry


class _Work:
    """A translation in progress."""

    def __init__(self, dialect: Dialect, surroundings: Surroundings) -> None:
        self.entry: Entry = {}
        self.notes: list[str] = []
        self._dialect = dialect
        self._surroundings = surroundings

    def take_switches(self, given: Entry) -> None:
        """Take the switches of a server."""
        if given.pop("disabled", False) is True or given.pop("enabled", True) is False:
            self.entry["enabled"] = False
            self.notes.append("is switched off at the client, and here")
        given.pop("enabled", None)
        if given.pop("quarantined", False) is True:
            self.entry["quarantined"] = True
            self.notes.append("is in quarantine there, and here")
        if self._dialect.trust:
            self.entry["trust"] = self._dialect.trust
            self.notes.append("its tools are pending")

    def take_type(self, given: Entry) -> None:
        """Take the transport, which many clients leave out."""
        named = [given.pop(key) for key in _TYPE_KEYS if key in given]
        kinds = {_TYPES.get(str(each)) for each in named}
        if None in kinds:
            raise LeftOut(f"has the transport {as_code(str(named[0]))}, which is not known")
        kinds.discard("")
        if len(kinds) > 1:
            raise LeftOut("names two transports")
        url = next((key for key, ours in self._dialect.keys.items() if ours == "url" and key in given), None)
        kind = kinds.pop() if kinds else "http" if url in ("httpUrl",) else None
        if url == "httpUrl":
            given.pop("url", None)
        if kind in ("http", "sse") and url is not None:
            self.entry["type"] = kind
        elif kind is None and url == "url" and self._dialect.url_is_sse:
            self.notes.append("is tried by streamable HTTP first, which the client does not do")

    def take_tools(self, given: Entry, denied_elsewhere: Sequence[str]) -> None:
        """Take the lists of tools: at most one of ours results, and it allows no tool that the client denies."""
        allowed = given.pop(self._dialect.allowed_tools, None) if self._dialect.allowed_tools else None
        denied = given.pop(self._dialect.denied_tools, None) if self._dialect.denied_tools else None
        denied = [*_tool_names(denied or []), *denied_elsewhere]
        if any(set(name) & set("*?(") for name in denied if name != "*"):
            raise LeftOut("the client denies tools by patterns, and the gateway by exact names")
        if "*" in denied or (allowed == [] and self._dialect.allowed_tools != _EMPTY_IS_ALL):
            self.entry["enabled"] = False
            self.notes.append("has no tool that the client allows: it is switched off")
        elif allowed:
            left = [name for name in _tool_names(allowed) if name not in denied]
            if any("(" in name for name in left):
                raise LeftOut("the client allows single arguments of tools, and the gateway whole tools")
            self.entry |= {"enabled_tools": left} if left else {"enabled": False}
        elif denied:
            self.entry["disabled_tools"] = [*dict.fromkeys(denied)]

    def take(self, key: str, value: object) -> None:
        """Take one more key of the client."""
        dialect = self._dialect
        if key in dialect.refusing:
            if value not in (None, False, {}, [], "") and not (
                isinstance(value, Mapping) and value.get("enabled") is False
            ):
                raise LeftOut(dialect.refusing[key])
        elif key in dialect.seconds:
            self._take_seconds(*dialect.seconds[key], value)
        elif key in dialect.keys:
            if value not in (None, {}, [], ""):
                self._take_known(dialect.keys[key], value)
        elif key in dialect.left_out:
            if value not in (None, False, {}, [], ""):
                self.notes.append(f"`{key}` is left out: {dialect.left_out[key]}")
        elif value not in (None, False, {}, [], ""):
            if _LIMITING.search(key):
                raise LeftOut(f"has the key {as_code(key)}, which is not known and may limit it")
            self.notes.append(f"{as_code(key)} is left out: it is not known")

    def finish(self) -> Entry:
        """Return the entry, its keys in our order."""
        return {key: self.entry[key] for key in _ORDER if key in self.entry}

    def _take_seconds(self, ours: str, unit: float, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            return
        seconds = min(value * unit, _LONGEST_SECONDS)
        plain = int(seconds) if seconds == int(seconds) else seconds
        self.entry.setdefault("deadlines", {})[ours] = plain

    def _take_known(self, ours: str, value: Any) -> None:
        match ours:
            case "args":
                self.entry["args"] = [self._text("args", each) for each in _list_in("args", value)]
            case "env" | "headers":
                texts = {str(name): self._text(ours, each) for name, each in _mapping_in(ours, value).items()}
                self.entry[ours] = {**self.entry.get(ours, {}), **texts}
            case "headers from variables":
                for header, variable in _mapping_in(ours, value).items():
                    self.entry.setdefault("headers", {})[str(header)] = self._variable(str(variable))
            case "bearer from a variable":
                self.entry.setdefault("headers", {})["Authorization"] = f"Bearer {self._variable(str(value))}"
            case "inherit":
                self.entry["inherit"] = [_inherited_name(each) for each in _list_in(ours, value)]
            case "command" | "cwd" | "env_file":
                self.entry[ours] = self._place(ours, value)
            case _:
                self.entry[ours] = self._text(ours, value)

    def _place(self, key: str, value: object) -> str:
        """Return a path or a command with its variables filled in: ours has none there."""
        text = self._text(key, value)
        text = re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", self._value, text).replace("$${", "${")
        if text.startswith("~/"):
            text = str(self._surroundings.home / text[2:])
        is_absolute = os.path.isabs(text) or re.match(r"[A-Za-z]:[\\/]", text)
        if key == "command" and not is_absolute and len(text.split()) > 1:
            raise LeftOut("its `command` has arguments behind it: write them to `args` there")
        if (key != "command" or "/" in text) and not is_absolute:
            raise LeftOut(f"its `{key}` is relative to where the client runs: write an absolute path there")
        return text

    def _value(self, match: re.Match[str]) -> str:
        return self._surroundings.environment.get(match[1]) or match[2] or ""

    def _variable(self, name: str) -> str:
        if not _VARIABLE.fullmatch(name):
            raise LeftOut("names a variable that cannot be one")
        return self._check_variables(f"${{{name}}}")

    def _text(self, key: str, value: object) -> str:
        """Return a text of the client in our form."""
        if isinstance(value, bool):
            value = str(value).lower()
        if isinstance(value, int | float):
            value = str(value)
        if not isinstance(value, str):
            raise LeftOut(f"a value in `{key}` is no text")
        return self._check_variables(_translate_variables(value, self._dialect.variables, self._surroundings.home))

    def _check_variables(self, text: str) -> str:
        here = {name for name in _HERE if f"${{{name}}}" in text}
        if here:
            raise LeftOut(f"names {list_names(sorted(here))}, which the gateway cannot know: write the directory there")
        if missing := unset_in(text, self._surroundings.environment):
            raise LeftOut(
                f"needs {list_names(missing)}, which is not set here: set it for the gateway, and run this again"
            )
        for name in (each for each in unset_in(text, {}) if each not in OF_EVERY_SESSION):
            note = f"needs {as_code(name)} in the environment of the gateway"
            if self._surroundings.stores_variables:
                note = f"the value of {as_code(name)} is stored"
            self.notes += [] if note in self.notes else [note]
        return text


def _translate_variables(text: str, variables: Variables, home: Path) -> str:
    match variables:
        case Variables.NONE:
            return text.replace("${", "$${")
        case Variables.SHELL:
            return _SHELL.sub("$${", text)
        case Variables.DOLLAR:
            return _DOLLAR.sub(lambda found: f"${{{found[1] or found[2]}}}" if found[1] or found[2] else "$${", text)
        case Variables.BRACES:
            return _BRACES.sub(_translate_braces, text.replace("${", "$${"))
        case Variables.PREFIXED:
            return _PREFIXED.sub(lambda found: _translate_prefixed(found, home), text)


def _translate_braces(found: re.Match[str]) -> str:
    if found[1] == "file":
        raise LeftOut(f"reads a value from a file: {_BY_HAND}")
    return f"${{{found[2]}}}"


def _translate_prefixed(found: re.Match[str], home: Path) -> str:
    kind, _, rest = found[1].partition(":")
    if kind == "env" and _VARIABLE.fullmatch(rest):
        return f"${{{rest}}}"
    if found[1] == "userHome":
        return str(home)
    if found[1] in ("/", "pathSeparator"):
        return os.sep
    if kind.startswith(("workspace", "relativeFile", "file")) and kind != "file":
        raise LeftOut(f"names {as_code(found[0])}, which the gateway cannot know: write the directory there")
    if kind in ("input", "file", "keyring", "command", "config"):
        what = "the client asks a person for it" if kind == "input" else "only the client can look it up"
        raise LeftOut(f"names {as_code(found[0])}, and {what}: {_BY_HAND}")
    return f"$${found[0][1:]}"


def _tool_names(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise LeftOut("has a list of tools that is no list of texts")
    return value


def _list_in(key: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise LeftOut(f"its `{key}` is no list")
    return value


def _mapping_in(key: str, value: object) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise LeftOut(f"its `{key}` is no mapping")
    return value


def _inherited_name(value: object) -> str:
    if isinstance(value, Mapping):
        if value.get("source", "local") != "local":
            raise LeftOut("gets variables of another machine")
        value = value.get("name")
    if not isinstance(value, str):
        raise LeftOut("names a variable that cannot be one")
    return value


def _check_entry(name: str, entry: Entry) -> Entry:
    """Return an entry if our config may have it."""
    root = document.parse(json.dumps({"mcpServers": {name: entry}}).encode(), "server.json")
    for finding in findings(root)[1]:
        if finding.severity is Severity.ERROR:
            advice = joined_hints(finding.hint)
            raise LeftOut(f"cannot be in the config: {finding.sentence}" + (f" ({advice})" if advice else ""))
    return entry
