"""Variables in the config: `${NAME}`, `${NAME:-default}` and `${secret:NAME}`; `$${` stands for the text `${`.

A secret is found in an environment under `secret:NAME`, which no variable of a process is called. It is read from
`secrets.env` beside the config, as the `env_file` of a server is: a line is `NAME=VALUE`, with the value in quotes or
not; empty lines and those that start with `#` are left out. In `secrets.env`, `NAME=keyring:ACCOUNT` stands for a
secret in the keyring of the system, by the library `keyring`.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from callability.contract.finding import Finding, Place, Severity, as_code
from callability.files import document
from callability.files.document import DocumentMapping, DocumentSequence, Node, refusal
from callability.gateway.config.model import CatalogEntry, OAuthConfig, ServerConfig

SECONDS = 10.0
"""How long the keyring may take: it may wait for a person who unlocks it."""
_SERVICE = "callability"
_Value = TypeVar("_Value")
_read: dict[str, str] = {}
"""What was read: a config is read again at each edit, and the keyring need not be."""


class NoKeyring(Exception):
    """A keyring that cannot be used; the message is the end of a sentence, and has no secret."""


class SilentKeyring(NoKeyring):
    """A keyring that does not answer in time: it is not asked for the next secret."""


def keyring_value(account: str) -> str:
    """Return a secret.

    Raises:
        NoKeyring: there is no keyring, it does not answer, or it has no such secret.
    """
    if account not in _read:
        value = _wait_for_keyring(lambda: _library().get_password(_SERVICE, account))
        if value is None:
            raise NoKeyring("the keyring does not have it")
        _read[account] = value
    return _read[account]


def keep_in_keyring(account: str, value: str) -> None:
    """Store a secret.

    Raises:
        NoKeyring: there is no keyring, or it does not answer.
    """
    _wait_for_keyring(lambda: _library().set_password(_SERVICE, account, value))
    _read[account] = value


def remove_from_keyring(account: str) -> None:
    """Remove a secret, if the keyring has it.

    Raises:
        NoKeyring: there is no keyring, or it does not answer.
    """

    def remove() -> None:
        library = _library()
        if library.get_password(_SERVICE, account) is not None:
            library.delete_password(_SERVICE, account)

    _wait_for_keyring(remove)
    _read.pop(account, None)


def _library() -> Any:
    try:
        import keyring  # noqa: PLC0415
    except ImportError:
        raise NoKeyring("the package `keyring` is not installed") from None
    return keyring


def _wait_for_keyring(work: Callable[[], _Value]) -> _Value:
    """Return what the keyring answers; a thread that it holds up ends with the process."""
    done: Future[_Value] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:  # its backends raise errors of their own
            done.set_exception(error)

    Thread(target=run, name="keyring", daemon=True).start()
    try:
        return done.result(SECONDS)
    except NoKeyring:
        raise
    except TimeoutError:
        raise SilentKeyring(f"the keyring did not answer within {SECONDS:g} s") from None
    except Exception as error:
        raise NoKeyring(f"the keyring cannot be used ({type(error).__name__})") from None


SECRETS_FILE = "secrets.env"
PREFIX = "secret:"
KEYRING = "keyring:"
"""What stands in front of the account of a secret that is in the keyring of the system."""
_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*?)[ \t]*")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"(?:[ \t]*#.*)?')
_SINGLE = re.compile(r"'([^']*)'(?:[ \t]*#.*)?")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=,~-]+")
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def secrets_beside(config: Path) -> Path:
    """Return where the secrets of a config are."""
    return config.parent / SECRETS_FILE


def read_secrets(config: Path, unread: list[Finding] | None = None) -> Mapping[str, str]:
    """Return the secrets of a config by name; none if there is no file.

    With `unread`, a secret that the keyring does not give is empty, and a warning is added there.

    Raises:
        Refused: the file cannot be read, others than its owner can read it too, or the keyring does not give a secret.
    """
    secrets: dict[str, str] = {}
    silent: SilentKeyring | None = None
    for name, value in written_secrets(config).items():
        try:
            if silent is not None and value.startswith(KEYRING):
                raise silent
            secrets[name] = keyring_value(value.removeprefix(KEYRING)) if value.startswith(KEYRING) else value
        except NoKeyring as error:
            silent = error if isinstance(error, SilentKeyring) else None
            place, sentence = Place(str(secrets_beside(config))), f"secret {as_code(name)} cannot be read: {error}"
            if unread is None:
                raise refusal(place, "no-keyring", sentence) from error
            unread.append(Finding(place, "no-keyring", sentence, severity=Severity.WARNING))
            secrets[name] = ""
    return secrets


def written_secrets(config: Path) -> Mapping[str, str]:
    """Return the lines of the file of a config by name; a secret in the keyring as it is written there.

    Raises:
        Refused: the file cannot be read, or others than its owner can read it too.
    """
    path = secrets_beside(config)
    try:
        status = path.stat()
    except FileNotFoundError:
        return {}
    except OSError as error:
        why = f"cannot be read: {(error.strerror or 'error').lower()}"
        raise refusal(Place(str(path)), "unreadable-file", why) from error
    if _is_open(status):
        hint = f"run `chmod 600 {path}`"
        raise refusal(Place(str(path)), "open-secrets", "holds secrets, and others than its owner may read it", hint)
    return read_variables(path)


def digest_of_secrets(config: Path) -> str:
    """Return what differs between two states of the file of a config; empty if there is none, or it cannot be read.

    Raises:
        document.OutOfDescriptors: it cannot be read for want of a descriptor.
    """
    path = secrets_beside(config)
    try:
        return document.digest(document.read_bytes(path)) + ("-open" if _is_open(path.stat()) else "")
    except document.OutOfDescriptors:
        raise
    except (document.Refused, OSError):
        return ""


def _is_open(status: os.stat_result) -> bool:
    return bool(status.st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def with_secrets(secrets: Mapping[str, str], environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return an environment in which secrets are found by their names in a config."""
    return ChainMap({f"{PREFIX}{name}": value for name, value in secrets.items()}, dict(environment))


def read_variables(path: Path) -> dict[str, str]:
    """Return the variables of a file; of a name that is repeated, the last one counts.

    Raises:
        Refused: it cannot be read, or a line is none of a variable. No finding has a value.
    """
    data = document.read_bytes(path)
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise refusal(Place(str(path)), "not-utf-8", "is not UTF-8") from error
    variables: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        value = _secret_value(found[2]) if found else None
        if found is None or value is None:
            raise refusal(Place(str(path), number, 1), "no-variable", "is no line of the form `NAME=VALUE`")
        variables[found[1]] = value
    return variables


def variable_line(name: str, value: str) -> str:
    """Return the line of a variable, without its end."""
    if _PLAIN.fullmatch(value):
        return f"{name}={value}"
    return f"{name}={json.dumps(value, ensure_ascii=False)}"


def _secret_value(written: str) -> str | None:
    if written.startswith('"'):
        found = _DOUBLE.fullmatch(written)
        return _ESCAPED.sub(lambda each: _ESCAPES.get(each[1], each[1]), found[1]) if found else None
    if written.startswith("'"):
        found = _SINGLE.fullmatch(written)
        return found[1] if found else None
    return written


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
TOKEN_PREFIX = r"(?:gh[pousr]_|github_pat_|glpat-|sk-|xox[abp]-|AKIA|ya29\.|eyJ)"
"""How tokens of providers begin, whatever the name is that they are given to."""
_TOKEN = re.compile(rf"(?:.*[=:\s])?{TOKEN_PREFIX}[\w.-]{{12,}}", re.DOTALL | re.ASCII)
_PASSWORD_IN_URL = re.compile(r"://[^/?#\s:@]*:[^/?#\s@]+@")


def secret_arguments(arguments: Sequence[str]) -> Iterator[int]:
    """Yield the indexes of the arguments that hold a secret, by their names or forms; variables are not filled in."""
    for index, argument in enumerate(arguments):
        before = arguments[index - 1] if index else ""
        follows_flag = before.startswith("-") and _is_secretive(before) and not argument.startswith("-")
        joined = _JOINED.fullmatch(argument)
        is_value = (follows_flag and len(argument) >= _SHORTEST) or (
            joined is not None and _is_secretive(joined[1]) and len(joined[2]) >= _SHORTEST
        )
        is_value = is_value or _TOKEN.fullmatch(argument) is not None
        if is_value or _PASSWORD_IN_URL.search(argument) or any(map(_is_secretive, names_in(argument))):
            yield index


def _is_secretive(name: str) -> bool:
    """Say whether a name of a flag or variable, in any spelling, ends as names of secrets do."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.lstrip("-"))
    return _NAME.fullmatch(re.sub(r"[_.]", "-", words).lower()) is not None
