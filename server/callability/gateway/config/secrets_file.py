"""The files of secrets: `secrets.env` beside the config, which `${secret:NAME}` reads, and the `env_file` of a server.

A line is `NAME=VALUE`, with the value in quotes or not; empty lines and those that start with `#` are left out. In
`secrets.env`, `NAME=keyring:ACCOUNT` stands for a secret in the keyring of the system.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

from callability.contract.finding import Place, as_code
from callability.files import document
from callability.files.document import refusal
from callability.gateway.config.keyring_secrets import NoKeyring, keyring_value

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


def read_secrets(config: Path) -> Mapping[str, str]:
    """Return the secrets of a config by name; none if there is no file.

    Raises:
        Refused: the file cannot be read, others than its owner can read it too, or the keyring does not have a secret.
    """
    return {name: _look_up(config, name, value) for name, value in written_secrets(config).items()}


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


def _look_up(config: Path, name: str, value: str) -> str:
    if not value.startswith(KEYRING):
        return value
    try:
        return keyring_value(value.removeprefix(KEYRING))
    except NoKeyring as error:
        sentence = f"secret {as_code(name)} cannot be read: {error}"
        raise refusal(Place(str(secrets_beside(config))), "no-keyring", sentence) from error


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
