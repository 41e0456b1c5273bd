"""Secrets that are written in a server's entry: each becomes `${secret:NAME}`, and its value goes to `secrets.env`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, cast

from callability.gateway.config.variables import (
    FILLED,
    PREFIX,
    TOKEN_PREFIX,
    names_in,
    secret_arguments,
    unset_in,
)

Entry = dict[str, Any]

_NAMED = re.compile(
    r"key|token|secret|passw|pwd|auth|credential|cookie|session|bearer|dsn|connection|conn_str|_pat$|^pat$|_url$|^url$",
    re.IGNORECASE,
)
_WITH_PASSWORD = re.compile(r"://[^/?#\s:@]*:([^/?#\s@]+)@")
_QUERY = re.compile(r"([?&])([^=&#]*)=([^&#]+)")
_SCHEME = re.compile(r"((?:Bearer|Basic|Token|token)[ \t]+)(.+)", re.DOTALL)
_TOKEN_SHAPED = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_\-+/=.]{20,}")
_KNOWN_SHAPES = re.compile(TOKEN_PREFIX)
_JOINED = re.compile(r"(-{0,2}[A-Za-z][\w.-]*(?:=|:\s*))(\S.*)", re.DOTALL)
_PLAIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_SWITCHES = frozenset({"true", "false", "yes", "no", "on", "off", "0", "1", "none", "null"})
_REFERENCE = re.compile(r"(?<!\$)\$\{(secret:[A-Za-z_][A-Za-z0-9_]*)\}")
OF_EVERY_SESSION = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "USER"})
"""Variables that a gateway has whatever starts it."""
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9]+")


@dataclass(slots=True)
class SecretStore:
    """Secrets by name: those that there were, and those that are added."""

    known: Mapping[str, str] = field(repr=False)
    added: dict[str, str] = field(default_factory=dict, repr=False)

    def reference(self, name: str, server: str, text: str) -> str:
        """Return what stands for a value in the config; a name that another value has gets that of the server too."""
        value = text.replace("$${", "${")
        wanted = _secret_name(name)
        own = _secret_name(f"{server}_{wanted}")
        names = chain((wanted, own), (f"{own}_{number}" for number in count(2)))
        every = {**self.known, **self.added}
        chosen = next(each for each in names if every.get(each, value) == value)
        if chosen not in every:
            self.added[chosen] = value
        return f"${{{PREFIX}{chosen}}}"


def without_secrets(entry: Entry, server: str, store: SecretStore) -> Entry:
    """Return an entry in which references stand for the secrets that it holds."""
    held = dict(entry)
    if "env" in held:
        held["env"] = {
            name: store.reference(name, server, text)
            if _is_secret(name, text)
            else _replace_in_url(text, name, server, store)
            for name, text in held["env"].items()
        }
    if "headers" in held:
        held["headers"] = {
            name: _replace_in_header(name, text, server, store) for name, text in held["headers"].items()
        }
    if "args" in held:
        held["args"] = _replace_in_arguments(held["args"], server, store)
    if "url" in held:
        held["url"] = _replace_in_url(held["url"], "url", server, store)
    return held


def secrets_in(entry: Entry) -> tuple[str, ...]:
    """Return the secrets that an entry refers to, each once."""
    names = names_in(json.dumps(entry))
    return tuple(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))


def own_secrets(entry: Entry, server: str, secrets: Mapping[str, str]) -> frozenset[str]:
    """Return the secrets of an entry whose names are those that `without_secrets` gives to its values."""
    store = SecretStore({})
    without_secrets(cast(Entry, fill_secrets(entry, secrets)), server, store)
    own = _secret_name(f"{server}_x").removesuffix("X")
    return frozenset(name for name in secrets_in(entry) if name in store.added or name.startswith(own))


def fill_secrets(entry: object, secrets: Mapping[str, str]) -> object:
    """Return an entry, or a part of one, with the values of secrets in place of their references."""
    return _substitute(entry, _REFERENCE, lambda found: _escape_value(secrets, found))


def needed_variables(entry: Entry) -> tuple[str, ...]:
    """Return the variables without which the server of an entry does not load, each once."""
    texts = json.dumps([entry[key] for key in FILLED if key in entry])
    return tuple(name for name in unset_in(texts, {}) if not name.startswith(PREFIX) and name not in OF_EVERY_SESSION)


def with_stored_variables(entry: Entry, server: str, store: SecretStore, environment: Mapping[str, str]) -> Entry:
    """Return an entry in which secrets with the values that variables have now stand for the variables."""

    def reference(found: re.Match[str]) -> str:
        value = environment.get(found[1], "")
        return store.reference(found[1], server, value.replace("${", "$${")) if value else found[0]

    needed = needed_variables(entry)
    pattern = re.compile(rf"(?<!\$)\$\{{({'|'.join(needed)})\}}")
    filled = {key: _substitute(entry[key], pattern, reference) for key in FILLED if key in entry and needed}
    return {**entry, **filled}


def _substitute(entry: object, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str]) -> object:
    match entry:
        case str():
            return pattern.sub(replace, entry)
        case list():
            return [_substitute(each, pattern, replace) for each in entry]
        case Mapping():
            return {key: _substitute(each, pattern, replace) for key, each in entry.items()}
    return entry


def _escape_value(secrets: Mapping[str, str], found: re.Match[str]) -> str:
    value = secrets.get(found[1].removeprefix(PREFIX))
    return found[0] if value is None else value.replace("${", "$${")


def _is_secret(name: str, text: str) -> bool:
    """Say whether the value of a variable is a secret, by its name or by its form."""
    if "${" in text.replace("$${", "") or len(text) < 4 or text.lower() in _SWITCHES:
        return False
    if _KNOWN_SHAPES.match(text) or _WITH_PASSWORD.search(text):
        return True
    if re.search(r"_?url$", name, re.IGNORECASE):
        return False
    return _NAMED.search(name) is not None or (_TOKEN_SHAPED.fullmatch(text) is not None and "/" not in text[:1])


def _replace_in_header(name: str, text: str, server: str, store: SecretStore) -> str:
    if name.lower() in _PLAIN_HEADERS or not text or "${" in text.replace("$${", ""):
        return text
    scheme = _SCHEME.fullmatch(text)
    before, secret = (scheme[1], scheme[2]) if scheme else ("", text)
    return before + store.reference(f"{server}_{name}", server, secret)


def _replace_in_arguments(arguments: list[str], server: str, store: SecretStore) -> list[str]:
    held = [*arguments]
    for index in secret_arguments(arguments):
        text = held[index]
        if "${" in text.replace("$${", ""):
            continue
        joined, flag = _JOINED.fullmatch(text), arguments[index - 1] if index else ""
        if _WITH_PASSWORD.search(text):
            held[index] = store.reference(f"{server}_argument", server, text)
        elif joined:
            scheme = _SCHEME.fullmatch(joined[2])
            before, secret = (joined[1] + scheme[1], scheme[2]) if scheme else (joined[1], joined[2])
            held[index] = before + store.reference(f"{server}_{joined[1]}", server, secret)
        else:
            held[index] = store.reference(f"{server}_{flag}", server, text)
    return [_replace_in_url(text, "argument", server, store) if "://" in text else text for text in held]


def _replace_in_url(text: str, name: str, server: str, store: SecretStore) -> str:
    """Return a text with references in place of a password, and of the secrets in the query, of a URL."""
    if "://" not in text:
        return text

    def password(found: re.Match[str]) -> str:
        secret = found[1]
        if "${" in secret.replace("$${", ""):
            return found[0]
        return found[0].replace(f":{secret}@", f":{store.reference(f'{server}_{name}_password', server, secret)}@")

    def query(found: re.Match[str]) -> str:
        sign, key, value = found[1], found[2], found[3]
        if "${" in value.replace("$${", "") or not (_NAMED.search(key) or _TOKEN_SHAPED.fullmatch(value)):
            return found[0]
        return f"{sign}{key}={store.reference(f'{server}_{key}', server, value)}"

    return _QUERY.sub(query, _WITH_PASSWORD.sub(password, text))


def _secret_name(text: str) -> str:
    name = _NOT_IN_NAME.sub("_", text).strip("_").upper()
    return name if name[:1].isalpha() else f"SECRET_{name}"
