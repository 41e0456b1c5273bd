"""Secrets beside the config: `secrets.env`, which `${secret:NAME}` reads, the `env_file` of a server, and the keyring.

A line is `NAME=VALUE`, with the value in quotes or not; empty lines and those that start with `#` are left out. In
`secrets.env`, `NAME=keyring:ACCOUNT` stands for a secret in the keyring of the system, by the library `keyring`.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import ChainMap
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from callability.contract.finding import Finding, Place, Severity, as_code
from callability.files import document
from callability.files.document import refusal

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
        raise refusal(Place(str(path)), "unreadable-file", _cannot_be_read(error)) from error
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
        value = _value(found[2]) if found else None
        if found is None or value is None:
            raise refusal(Place(str(path), number, 1), "no-variable", "is no line of the form `NAME=VALUE`")
        variables[found[1]] = value
    return variables


def variable_line(name: str, value: str) -> str:
    """Return the line of a variable, without its end."""
    if _PLAIN.fullmatch(value):
        return f"{name}={value}"
    return f"{name}={json.dumps(value, ensure_ascii=False)}"


def _value(written: str) -> str | None:
    if written.startswith('"'):
        found = _DOUBLE.fullmatch(written)
        return _ESCAPED.sub(lambda each: _ESCAPES.get(each[1], each[1]), found[1]) if found else None
    if written.startswith("'"):
        found = _SINGLE.fullmatch(written)
        return found[1] if found else None
    return written


def _cannot_be_read(error: OSError) -> str:
    return f"cannot be read: {(error.strerror or 'error').lower()}"
