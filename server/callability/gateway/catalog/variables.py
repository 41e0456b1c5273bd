"""The variables of catalog entries, filled in from the gateway's environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from callability.gateway.config import CatalogEntry, OAuthConfig
from callability.gateway.upstream import Failure
from callability.vocabulary import LoadFailure, LoadPhase

FILLED = ("args", "env", "url", "headers", "oauth")
"""The keys of an entry in which variables stand."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Unfillable(Exception):
    """What the environment holds does not fit where it is to stand."""

    def __init__(self) -> None:
        words = "cannot be reached: a value of its variables is not allowed where it stands"
        self.failure = Failure(words, kind=LoadFailure.BAD_CONFIG, phase=LoadPhase.CONFIG)
        super().__init__(words)


def unset(entry: CatalogEntry, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of an entry that are not set, or empty, each once, in the order of the entry."""
    return tuple(name for name in dict.fromkeys(_names(entry)) if not environment.get(name))


def values(entry: CatalogEntry, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the variables of an entry stand for: it is masked wherever the server says it."""
    return tuple(environment[name] for name in dict.fromkeys(_names(entry)) if name in environment)


def filled(entry: CatalogEntry, environment: Mapping[str, str]) -> CatalogEntry:
    """Return an entry with its variables filled in.

    Raises:
        Unfillable: a value is not allowed where it stands, such as a line break in a header.
        KeyError: a variable is not set.
    """
    given = {name: getattr(entry, name) for name in entry.model_fields_set}
    for name in FILLED:
        if name in given:
            given[name] = _filled(given[name], environment)
    try:
        return CatalogEntry.model_validate(given)
    except ValidationError:
        raise Unfillable from None


def _names(entry: CatalogEntry) -> Iterator[str]:
    for key in FILLED:
        for text in _texts(getattr(entry, key)):
            yield from _VARIABLE.findall(text)


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case tuple():
            for item in value:
                yield from _texts(item)
        case Mapping():
            for item in value.values():
                yield from _texts(item)
        case OAuthConfig():
            yield from _texts(value.model_dump())


def _filled(value: object, environment: Mapping[str, str]) -> object:
    match value:
        case str():
            return _VARIABLE.sub(lambda match: environment[match[1]], value)
        case tuple():
            return tuple(_filled(item, environment) for item in value)
        case Mapping():
            return {key: _filled(item, environment) for key, item in value.items()}
        case OAuthConfig():
            return _filled(value.model_dump(exclude_unset=True), environment)
    return value
