"""Variables in the config: `${NAME}`, `${NAME:-default}` and `${secret:NAME}`; `$${` stands for the text `${`.

A secret is found in an environment under `secret:NAME`, which no variable of a process is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from pydantic import ValidationError

from callability.contract.finding import Place
from callability.files.document import DocumentMapping, DocumentSequence, Node
from callability.gateway.config.model import CatalogEntry, OAuthConfig, ServerConfig


def find_node(root: Node, location: Iterable[int | str]) -> tuple[Node, Node]:
    """Return the key and the node at a location, as far as it leads; the key of an item is that of its list."""
    key = node = root
    held: tuple[Node, Node] | None
    for step in location:
        match node:
            case DocumentMapping(entries=entries):
                held = next(((name, value) for name, value in entries if name.value == step), None)
            case DocumentSequence(items=items) if isinstance(step, int) and step < len(items):
                held = (items[step], items[step])
            case _:
                held = None
        if held is None:
            break
        key, node = held
    return key, node


def place(root: Node, location: Iterable[int | str]) -> Place:
    """Return the place of a value, or of the nearest existing node above it."""
    return find_node(root, location)[1].place


def key_place(root: Node, location: Iterable[int | str]) -> Place:
    """Return the place of the key of a value, or of the nearest existing one above it."""
    return find_node(root, location)[0].place


Entry = TypeVar("Entry", bound=ServerConfig | CatalogEntry)

FILLED = ("args", "env", "url", "headers", "oauth")
"""The keys of an entry whose texts may name variables."""
# A default ends at the first brace: a variable within a default is none.
_REFERENCE = re.compile(
    r"(?P<literal>\$\$\{)|\$\{(?P<name>(?:secret:)?[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>(?:[^}$]|\$(?!\{))*))?\}"
)


class Unfillable(Exception):
    """A value of the environment is not allowed in its place; `keys` are the keys of the entry."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__("cannot be reached: a value of its variables is not allowed where it stands")
        self.keys = keys


def unset_in(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of a text that have no default and are not set, or empty, each once."""
    names = (match["name"] for match in _REFERENCE.finditer(text) if match["name"] and match["default"] is None)
    return tuple(name for name in dict.fromkeys(names) if not environment.get(name))


def names_in(text: str) -> tuple[str, ...]:
    """Return the variables of a text, each once."""
    return tuple(dict.fromkeys(match["name"] for match in _REFERENCE.finditer(text) if match["name"]))


def is_odd(text: str) -> bool:
    """Say whether a text has a `${` that starts no variable and is not written `$${`."""
    return "${" in _REFERENCE.sub("\0", text)


def unset(entry: ServerConfig | CatalogEntry, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that an entry needs and that are not set, or empty, each once, in the order of the entry."""
    return tuple(dict.fromkeys(name for text in _texts(entry) for name in unset_in(text, environment)))


def values(entry: ServerConfig | CatalogEntry, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the variables of an entry stand for, defaults too: secrets, masked wherever its server says them."""
    found = (match for text in _texts(entry) for match in _REFERENCE.finditer(text) if match["name"])
    stand_for = (environment.get(match["name"]) or match["default"] for match in found)
    return tuple(dict.fromkeys(value for value in stand_for if value))


def fill(entry: Entry, environment: Mapping[str, str]) -> Entry:
    """Return an entry with its variables filled in.

    Raises:
        Unfillable: a value is not allowed where it stands, such as a line break in a header.
        KeyError: a variable is not set and has no default.
    """
    given = {name: getattr(entry, name) for name in entry.model_fields_set}
    for name in given.keys() & {*FILLED}:
        given[name] = _fill(given[name], environment)
    try:
        return cast(Entry, type(entry).model_validate(given))
    except ValidationError as error:
        raise Unfillable(tuple(dict.fromkeys(str(fault["loc"][0]) for fault in error.errors()))) from None


def _texts(entry: ServerConfig | CatalogEntry) -> Iterator[str]:
    """Yield the texts of an entry that may name variables."""
    for key in FILLED:
        yield from _texts_in(getattr(entry, key, None))


def _texts_in(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case tuple():
            for item in value:
                yield from _texts_in(item)
        case Mapping():
            for item in value.values():
                yield from _texts_in(item)
        case OAuthConfig():
            yield from _texts_in(value.model_dump(exclude_unset=True))


def _fill(value: object, environment: Mapping[str, str]) -> object:
    match value:
        case str():
            return _REFERENCE.sub(lambda match: _value(match, environment), value)
        case tuple():
            return tuple(_fill(item, environment) for item in value)
        case Mapping():
            return {key: _fill(item, environment) for key, item in value.items()}
        case OAuthConfig():
            return _fill(value.model_dump(exclude_unset=True), environment)
    return value


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    if match["literal"]:
        return "${"
    name, default = match["name"], match["default"]
    # As in a shell, a default is for a variable that is empty too.
    return environment[name] if default is None else environment.get(name) or default


_SHORTEST = 6
"""A shorter value is a switch, not a secret."""
_WORDS = (
    "api-?key|access-?key|secret-?key|private-?key|token|secret|password|passwd|pwd|credentials?|authorization|bearer"
)
# The name must end so: `--token-file` and `--max-tokens` are none.
_NAME = re.compile(rf"(?:.*-)?(?:{_WORDS})")
_JOINED = re.compile(r"(-{0,2}[A-Za-z][\w.-]*)(?:=|:\s*)(\S.*)", re.DOTALL)
_PASSWORD_IN_URL = re.compile(r"://[^/?#\s:@]*:[^/?#\s@]+@")


def secret_arguments(arguments: Sequence[str]) -> Iterator[int]:
    """Yield the indexes of the arguments that hold a secret, judged by names; variables are not filled in."""
    for index, argument in enumerate(arguments):
        before = arguments[index - 1] if index else ""
        follows_flag = before.startswith("-") and _is_secretive(before) and not argument.startswith("-")
        joined = _JOINED.fullmatch(argument)
        is_value = (follows_flag and len(argument) >= _SHORTEST) or (
            joined is not None and _is_secretive(joined[1]) and len(joined[2]) >= _SHORTEST
        )
        if is_value or _PASSWORD_IN_URL.search(argument) or any(map(_is_secretive, names_in(argument))):
            yield index


def _is_secretive(name: str) -> bool:
    """Say whether a name of a flag or variable, in any spelling, ends as names of secrets do."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.lstrip("-"))
    return _NAME.fullmatch(re.sub(r"[_.]", "-", words).lower()) is not None
