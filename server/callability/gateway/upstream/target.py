"""Where an upstream is reached: plain data, from an entry of the config with its variables filled in.

Its secrets are found, and masked in what its server says.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote, unquote_plus

import httpx2

from callability.contract.finding import list_names
from callability.contract.vocabulary import LoadFailure, LoadPhase
from callability.files import document
from callability.gateway.config.model import CatalogEntry, ServerConfig
from callability.gateway.config.variables import Unfillable, fill, read_variables, unset, values
from callability.gateway.upstream.authorization import NOWHERE, Authorization
from callability.gateway.upstream.failure import Failure
from callability.gateway.upstream.login_store import StoredLogin
from callability.gateway.upstream.process_group import usual_environment


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
    """An MCP endpoint on HTTP, the headers of every request to it, and how it is authorized.

    `secrets` are masked in every text of the server, in addition to those that are found in headers and URL.
    `transport` is streamable HTTP (`http`) or HTTP+SSE (`sse`); without it, the second is tried after the first.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    authorization: Authorization | None = field(default=None, repr=False, compare=False)
    transport: Literal["http", "sse"] | None = None


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
        return _unreachable(f"needs what is not set: {list_names(missing)}")
    try:
        full = fill(entry, environment)
    except Unfillable as error:
        return _unreachable(str(error))
    secrets = values(entry, environment)
    if full.command is not None:
        inherited = {name: environment[name] for name in full.inherit if name in environment}
        try:
            from_file = read_variables(Path(full.env_file)) if full.env_file else {}
        except document.Refused as refused:
            return _unreachable(f"cannot use its `env_file`: {refused.findings[0]}")
        return StdioTarget(full.command, full.args, {**inherited, **from_file, **full.env}, full.cwd, secrets)
    transport = None if full.type == "stdio" else full.type
    return HttpTarget(full.url or "", full.headers, secrets, authorization, transport)


def logged_in_target(
    entry: ServerConfig | CatalogEntry,
    stored: StoredLogin,
    remedy: str,
    environment: Mapping[str, str] = os.environ,
) -> Target:
    """Return the target of an entry, with its stored login if it has one; nobody is asked to authorize it.

    `remedy` ends the sentence that says that a person has to.
    """
    target = target_of(entry, environment)
    if not isinstance(target, HttpTarget) or not may_log_in(entry):
        return target
    client = fill(entry, environment).oauth
    authorization = Authorization(
        target.url,
        NOWHERE,
        None,
        client_id=client.client_id if client else None,
        client_secret=client.client_secret if client else None,
        stored=stored,
        remedy=remedy,
        only_if_offered=client is None,
    )
    return replace(target, authorization=authorization)


def may_log_in(entry: ServerConfig | CatalogEntry) -> bool:
    """Say whether a person can authorize the connection: it is over HTTP, and no header of the config does it."""
    return entry.url is not None and not any(name.lower() == "authorization" for name in entry.headers)


def _unreachable(words: str) -> Unreachable:
    return Unreachable(Failure(words, kind=LoadFailure.BAD_CONFIG, phase=LoadPhase.CONFIG))


# A shorter value is no secret, and hiding it ("1", "true") would spoil every line.
SECRET_CHARACTERS = 6
MASK = "***"

_SECRETIVE = "key|token|secret|password|passwd|pwd|auth|credential"
_NAMED = re.compile(rf"[\w.-]*(?:{_SECRETIVE})[\w.-]*[=:]\s*(.+)", re.IGNORECASE | re.DOTALL)
_FLAG = re.compile(rf"-[\w.-]*(?:{_SECRETIVE})[\w.-]*", re.IGNORECASE)
_USER_INFO = re.compile(r"//([^/?#]*)@")
_QUERY = re.compile(r"\?([^#]*)")
# What a client leaves as it is in a URL.
_LEGAL = "%/?:@!$&'()*+,;=~"


class Secrets:
    """Masks the secrets of a target in texts; a text that was cut is masked as far as that is certain."""

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values for form in _forms(value) if len(form) >= SECRET_CHARACTERS}
        longest_first = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None
        self._longest = len(longest_first[0]) if forms else 0

    @classmethod
    def of(cls, target: Target) -> Secrets:
        """Return the secrets that a target is given: in `env` and `args`, or in its headers, its URL and its tokens."""
        if isinstance(target, HttpTarget):
            tokens = target.authorization.secrets if target.authorization else ()
            filled = (form for value in target.secrets for form in (value, *_sent_forms(value)))
            return cls((*filled, *tokens, *_credentials(target.headers.values()), *_in_url(target.url)))
        if isinstance(target, Unreachable):
            return cls(())
        proxies = (part for value in usual_environment().values() for part in _in_url(value) if "://" in value)
        return cls((*target.secrets, *target.env.values(), *_in_arguments(target.args), *proxies))

    def mask(self, text: str, *, cut: bool = False) -> str:
        """Return a text without the secrets; the end of a cut text is left out, because a secret may begin there."""
        if self._pattern is None:
            return text
        masked = self._pattern.sub(MASK, text)
        return masked[: 1 - self._longest] if cut else masked


def _forms(value: str) -> Iterator[str]:
    """Yield a value and each of its lines, as they are, as JSON and Python write them, and in base64.

    Programs disagree about which characters end a line: in a log, only the newline does.
    """
    for part in (value, *value.split("\n"), *value.splitlines()):
        plain = part.strip()
        written = (repr(plain), json.dumps(plain), json.dumps(plain, ensure_ascii=False))
        yield from (plain, *(each[1:-1] for each in written), *_in_base64(plain))


def _in_base64(value: str) -> Iterator[str]:
    """Yield the characters that a secret has in base64, wherever it begins in the text that is encoded.

    The first and the last character may also depend on what surrounds the secret, and are left out then.
    """
    if len(value) < SECRET_CHARACTERS:
        return
    secret = value.encode(errors="replace")
    for before in range(3):
        start, end = -(-before * 8 // 6), (before + len(secret)) * 8 // 6
        for encoded in (base64.b64encode, base64.urlsafe_b64encode):
            yield encoded(bytes(before) + secret).decode()[start:end]


def _credentials(values: Iterable[str]) -> Iterator[str]:
    """Yield header values, and what follows a scheme such as `Bearer`."""
    for value in values:
        yield value
        yield value.strip().partition(" ")[2]


def _in_url(url: str) -> Iterator[str]:
    """Yield user info and query values, as they are written there, as they are meant, and as they are sent."""
    for info in _USER_INFO.findall(url):
        user, _, password = info.partition(":")
        for part in (info, user, password):
            yield from _spellings(part)
        yield base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    for query in _QUERY.findall(url):
        for part in re.split("[&;]", query):
            name, equals, value = part.partition("=")
            yield from _spellings(value if equals else name)


def _spellings(part: str) -> tuple[str, ...]:
    meant = unquote(part)
    return part, meant, unquote_plus(part), quote(part, safe=_LEGAL), quote(meant, safe=""), *_sent_forms(part)


def _sent_forms(part: str) -> Iterator[str]:
    """Yield how the client writes a part of a path or of a query, which it quotes differently."""
    for before in ("/", "/?"):
        with suppress(httpx2.InvalidURL, ValueError):
            yield httpx2.URL(f"http://host{before}{part}").raw_path.decode().removeprefix(before)


def _in_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Yield what follows a flag whose name suggests a secret or is joined to it, and what URLs among the arguments
    hold.
    """
    for flag, value in pairwise(arguments):
        if _FLAG.fullmatch(flag) and not value.startswith("--"):
            yield from _credentials([value])
    for argument in arguments:
        if named := _NAMED.match(argument):
            yield from _credentials([named[1]])
        if "://" in argument:
            yield from _in_url(argument)
