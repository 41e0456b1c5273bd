"""Where an upstream is reached: plain data, from an entry of the config with its variables filled in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from callability.finding import listed
from callability.gateway.config import CatalogEntry, ServerConfig
from callability.gateway.config.variables import Unfillable, filled, unset, values
from callability.gateway.upstream.authorization import Authorization
from callability.gateway.upstream.failure import Failure
from callability.vocabulary import LoadFailure, LoadPhase


@dataclass(frozen=True, slots=True)
class StdioTarget:
    """A command to run as an MCP server; `env` is added to the usual variables that are passed on.

    `secrets` are masked in every text of the server, in addition to those that are found in `env` and `args`.
    """

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """An MCP endpoint of the streamable HTTP transport, the headers of every request to it, and how it is authorized.

    `secrets` are masked in every text of the server, in addition to those that are found in headers and URL.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    authorization: Authorization | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A server whose entry leads nowhere, which is known before it is tried; every opening ends with the failure."""

    failure: Failure


Target = StdioTarget | HttpTarget | Unreachable


def target_of(
    entry: ServerConfig | CatalogEntry,
    environment: Mapping[str, str] = os.environ,
    authorization: Authorization | None = None,
) -> Target:
    """Return the target of an entry; the values of its variables are masked in every text of the server.

    If an entry cannot be filled in, because a variable is not set or does not fit, its target fails to open.
    """
    if missing := unset(entry, environment):
        return _unreachable(f"needs what is not set: {listed(missing)}")
    try:
        full = filled(entry, environment)
    except Unfillable as error:
        return _unreachable(str(error))
    secrets = values(entry, environment)
    if full.command is not None:
        inherited = {name: environment[name] for name in full.inherit if name in environment}
        return StdioTarget(full.command, full.args, {**inherited, **full.env}, full.cwd, secrets)
    return HttpTarget(full.url or "", full.headers, secrets=secrets, authorization=authorization)


def _unreachable(words: str) -> Unreachable:
    return Unreachable(Failure(words, kind=LoadFailure.BAD_CONFIG, phase=LoadPhase.CONFIG))
