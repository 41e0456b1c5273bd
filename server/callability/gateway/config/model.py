"""The shape of the gateway's config file, key by key (A.2, A.7), each value with its check and its JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    StrictStr,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

MAX_LABELS = 64
MAX_LABEL_KEY_BYTES = 128
MAX_LABEL_VALUE_BYTES = 512
MAX_FACTS = 64
MAX_FACT_BYTES = 128
MAX_SECONDS = 86_400
MAX_PORT = 65_535
MAX_RECORDS_MIB = 1024 * 1024
MAX_RECORDS_DAYS = 36_500
MAX_SESSIONS = 10_000
MAX_REQUESTS = 10_000
MAX_REQUEST_BYTES = 64 * 1024 * 1024

_UNSENDABLE = re.compile(r"[\s\0-\x1f]")
HTTP_SPELLINGS = ("http", "streamable-http", "streamableHttp")
"""How clients spell the transport of a server on HTTP."""
_REFERENCE = re.compile(r"\$\{[A-Za-z_]")
# What a pattern can say of an address; which hosts and ports there can be, it cannot. One that names a variable is
# looked at when that is filled in.
_ADDRESS = (
    r"^([Hh][Tt][Tt][Pp][Ss]?://[^\s\x00-\x1f/?#]+([/?#][^\s\x00-\x1f]*)?"
    r"|[^\s\x00-\x1f]*\$\{[A-Za-z_][^\s\x00-\x1f]*)$"
)


# Compared by identity: what is in an annotation must have a hash.
@dataclass(frozen=True, slots=True, eq=False)
class _Checked:
    """A check of a value, and the keywords by which a JSON Schema says the same, as far as it can."""

    check: Callable[[Any], object]
    keywords: dict[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), **self.keywords}


def _given_value(value: object) -> object:
    # A list whose entries are all commented out must not count as no list: that would open every tool.
    if value is None:
        raise PydanticCustomError("no-value", "has no value", {"hint": "give it one, or leave the key out"})
    return value


def transport(value: object) -> object:
    """Return a transport in its one spelling."""
    return "http" if value in HTTP_SPELLINGS else value


def _address(value: str) -> str:
    if _REFERENCE.search(value) and not _UNSENDABLE.search(value):
        return value
    try:
        parts = urlsplit(value)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or _UNSENDABLE.search(value):
        hint = {"hint": "for example `https://example.com/mcp`"}
        raise PydanticCustomError("bad-url", "is not an http or https address with a host", hint)
    return value


def _seconds(value: object) -> object:
    if isinstance(value, int | float) and not 0 < value <= MAX_SECONDS:
        raise PydanticCustomError("out-of-range", f"is not more than 0 and at most {MAX_SECONDS:,} seconds")
    return value


def _seconds_or_none(value: object) -> object:
    if isinstance(value, int | float) and not 0 <= value <= MAX_SECONDS:
        raise PydanticCustomError("out-of-range", f"is not from 0 to {MAX_SECONDS:,} seconds")
    return value


def _port(value: int) -> int:
    if not 1 <= value <= MAX_PORT:
        raise PydanticCustomError("out-of-range", f"is not a port from 1 to {MAX_PORT:,}")
    return value


def _moment(value: str) -> str:
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        raise PydanticCustomError("bad-time", "is not a time with a time zone, such as `2027-01-31T00:00:00Z`")
    return value


def _from_one_to(most: int) -> _Checked:
    def check(value: int) -> int:
        if not 1 <= value <= most:
            raise PydanticCustomError("out-of-range", f"is not a whole number from 1 to {most:,}")
        return value

    return _Checked(check, {"minimum": 1, "maximum": most})


def _few(value: Mapping[str, str]) -> Mapping[str, str]:
    if len(value) > MAX_LABELS:
        raise PydanticCustomError("too-many-labels", f"has more than {MAX_LABELS} entries")
    return value


def _few_facts(value: Mapping[str, str]) -> Mapping[str, str]:
    if len(value) > MAX_FACTS:
        raise PydanticCustomError("too-many-facts", f"has more than {MAX_FACTS} entries")
    return value


def _fact_value(value: object) -> object:
    """Return a truth value as rule files write it."""
    return str(value).lower() if isinstance(value, bool) else value


def _matching(pattern: str, code: str, sentence: str, **keywords: Any) -> _Checked:
    """Return a check by a pattern in a form that JSON Schema has too, or else has these keywords for."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise PydanticCustomError(code, sentence)
        return value

    return _Checked(check, keywords or {"pattern": f"^{pattern}$"})


def _bytes_long(low: int, high: int, **keywords: Any) -> _Checked:
    def check(value: str) -> str:
        if not low <= len(value.encode()) <= high:
            raise PydanticCustomError("bad-length", f"is not {low} to {high} bytes long")
        return value

    return _Checked(check, {"minLength": low, "maxLength": high, **keywords})


Sealed = AfterValidator(MappingProxyType)
Empty = partial(MappingProxyType, dict[str, str]())
Given = BeforeValidator(_given_value)

_ZeroFree = _matching(r"[^\x00]*", "zero-character", "contains a zero character, which cannot be passed to a program")
Argument = Annotated[StrictStr, _ZeroFree]
Text = Annotated[StrictStr, _matching(r"(?s).+", "empty-text", "is empty", minLength=1), _ZeroFree]
Url = Annotated[StrictStr, _Checked(_address, {"pattern": _ADDRESS})]
Seconds = Annotated[
    float,
    Field(strict=True, json_schema_extra={"exclusiveMinimum": 0, "maximum": MAX_SECONDS}),
    BeforeValidator(_seconds),
]
SecondsOrNever = Annotated[
    float,
    Field(strict=True, json_schema_extra={"minimum": 0, "maximum": MAX_SECONDS}),
    BeforeValidator(_seconds_or_none),
]
Port = Annotated[StrictInt, _Checked(_port, {"minimum": 1, "maximum": MAX_PORT})]
Sessions = Annotated[StrictInt, _from_one_to(MAX_SESSIONS)]
Requests = Annotated[StrictInt, _from_one_to(MAX_REQUESTS)]
RecordsSize = Annotated[StrictInt, _from_one_to(MAX_RECORDS_MIB)]
RecordsDays = Annotated[StrictInt, _from_one_to(MAX_RECORDS_DAYS)]
RequestBytes = Annotated[StrictInt, _from_one_to(MAX_REQUEST_BYTES)]
ServerName = Annotated[
    StrictStr, _matching(r"[A-Za-z0-9_.-]{1,128}", "bad-server-name", "is not named with 1 to 128 of `A-Za-z0-9_.-`")
]
Variable = Annotated[
    StrictStr, _matching(r"[^=\x00]+", "bad-variable", "cannot be the name of an environment variable")
]
Header = Annotated[StrictStr, _matching(r"[A-Za-z0-9_!#$%&'*+.^`|~-]+", "bad-header", "cannot be the name of a header")]
HeaderText = Annotated[
    StrictStr, _matching(r"([!-~]([\t -~]*[!-~])?)?", "bad-header", "is not text that a header can carry")
]
Digest = Annotated[StrictStr, _matching(r"[0-9a-fA-F]{64}", "bad-digest", "is not a SHA-256 of 64 hexadecimal digits")]
Moment = Annotated[StrictStr, _Checked(_moment, {"format": "date-time"})]
AgentName = Annotated[
    StrictStr, _matching(r"[A-Za-z0-9_.-]{1,128}", "bad-agent-name", "is not named with 1 to 128 of `A-Za-z0-9_.-`")
]
Labels = Annotated[
    Mapping[
        Annotated[StrictStr, _bytes_long(1, MAX_LABEL_KEY_BYTES)],
        Annotated[StrictStr, _bytes_long(0, MAX_LABEL_VALUE_BYTES)],
    ],
    _Checked(_few, {"maxProperties": MAX_LABELS}),
    Sealed,
]
FactValues = Annotated[
    Mapping[
        Annotated[StrictStr, _bytes_long(1, MAX_FACT_BYTES)],
        Annotated[
            StrictStr,
            _bytes_long(1, MAX_FACT_BYTES, type=["string", "boolean", "integer"]),
            BeforeValidator(_fact_value),
        ],
    ],
    _Checked(_few_facts, {"maxProperties": MAX_FACTS}),
    Sealed,
]


class _Model(BaseModel):
    """Frozen, closed to unknown keys, and silent about refused values, because some are secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ServerDeadlines(_Model):
    """How long the gateway waits for this server. A key that is left out has its value in `deadlines`."""

    call_seconds: Annotated[Seconds | None, Given] = Field(
        default=None, description="As `deadlines.call_seconds`, for calls of this server."
    )
    call_max_seconds: Annotated[Seconds | None, Given] = Field(
        default=None, description="As `deadlines.call_max_seconds`, for calls of this server."
    )
    refresh_seconds: Annotated[Seconds | None, Given] = Field(
        default=None, description="As `deadlines.refresh_seconds`, for this server."
    )
    reopen_seconds: Annotated[Seconds | None, Given] = Field(
        default=None, description="As `deadlines.reopen_seconds`, for this server."
    )
    recheck_seconds: Annotated[SecondsOrNever | None, Given] = Field(
        default=None, description="As `deadlines.recheck_seconds`, for this server."
    )
    open_seconds: Annotated[Seconds | None, Given] = Field(
        default=None, description="As `deadlines.open_seconds`, for this server."
    )


class OAuthConfig(_Model):
    """How the gateway asks for an authorization; `{}` is enough if the provider lets clients register themselves."""

    client_id: Annotated[HeaderText | None, Given] = Field(
        default=None,
        repr=False,
        description="The client that the provider knows. If left out, the gateway registers itself.",
    )
    client_secret: Annotated[HeaderText | None, Given] = Field(
        default=None, repr=False, description="The secret of that client, if it has one."
    )
    redirect_port: Annotated[Port | None, Given] = Field(
        default=None,
        description="Port of `http://127.0.0.1:PORT/callback`, to which the provider sends the person back. If left"
        " out: a free one.",
    )


class _Entry(_Model):
    """How a server is reached, and which of its tools the operator lets through."""

    command: Annotated[Text | None, Given] = Field(
        default=None, repr=False, description="Program that serves MCP on stdio."
    )
    args: tuple[Argument, ...] = Field(default=(), repr=False, description="Arguments of the program.")
    env: Annotated[Mapping[Variable, Argument], Sealed] = Field(
        default_factory=Empty,
        repr=False,
        description="Environment variables of the program, in addition to the usual ones of the gateway's.",
    )
    env_file: Annotated[Text | None, Given] = Field(
        default=None,
        description="File with further environment variables of the program, a line `NAME=VALUE` each, relative to the"
        " directory of this file. What `env` has counts more. It is read when this file is.",
    )
    inherit: tuple[Variable, ...] = Field(
        default=(),
        description="Names of further environment variables of the gateway's that the program gets too.",
    )
    cwd: Annotated[Text | None, Given] = Field(
        default=None, description="Directory in which the program runs; by default the gateway's own."
    )
    url: Annotated[Url | None, Given] = Field(default=None, repr=False, description="Address of an MCP server on HTTP.")
    headers: Annotated[Mapping[Header, HeaderText], Sealed] = Field(
        default_factory=Empty, repr=False, description="Headers that go with every request."
    )
    type: Annotated[Literal["stdio", "http", "sse"] | None, BeforeValidator(transport), Given] = Field(
        default=None,
        description="How the server is reached; `streamable-http` and `streamableHttp` are `http`, and `sse` is the"
        " older HTTP+SSE. If left out, `command` means stdio, and `url` means `http`, or `sse` if the server answers"
        " that with HTTP status 400, 404 or 405.",
        json_schema_extra={"enum": ["stdio", *HTTP_SPELLINGS, "sse"]},
    )
    oauth: Annotated[OAuthConfig | None, Given] = Field(
        default=None,
        description="The server needs the authorization of a person, by OAuth; `{}` is enough for most providers.",
    )
    trust: Literal["auto", "first_use", "manual"] = Field(
        default="auto",
        description="What a tool without an approval record counts as: approved (`auto`) or pending (`manual`). With"
        " `first_use`, the form in which it is first listed is recorded, and counts as approved.",
    )
    enabled_tools: Annotated[tuple[Text, ...] | None, Given] = Field(
        default=None, description="The only tools that may be called, by exact name. It cannot be empty."
    )
    disabled_tools: tuple[Text, ...] = Field(default=(), description="Tools that may not be called, by exact name.")
    labels: Labels = Field(
        default_factory=Empty,
        description="Labels of the server, which rules of the policy may read as `server.label.KEY`.",
    )
    tool_labels: Annotated[Mapping[Text, Labels], Sealed] = Field(
        default_factory=partial(MappingProxyType, dict[str, Labels]()),
        description="Labels of single tools, by exact name, which rules of the policy may read as `tool.label.KEY`.",
    )
    facts: FactValues = Field(
        default_factory=Empty,
        description="Facts of the server that the rule file declares, by name, such as `proxy.quota`.",
    )
    tool_facts: Annotated[Mapping[Text, FactValues], Sealed] = Field(
        default_factory=partial(MappingProxyType, dict[str, FactValues]()),
        description="Facts of single tools that the rule file declares, by exact name of the tool.",
    )
    tool_fact_defaults: FactValues = Field(
        default_factory=Empty,
        description="Facts of every tool of the server that the rule file declares, unless `tool_facts` has another"
        " value for the tool.",
    )
    deadlines: Annotated[ServerDeadlines | None, Given] = Field(
        default=None, description="How long to wait for this server, if it differs from the other servers."
    )

    @property
    def way(self) -> Literal["stdio", "http", "sse"]:
        """How the server is reached."""
        return "stdio" if self.url is None else self.type or "http"

    def facts_of_tool(self, tool: str) -> Mapping[str, str]:
        """Return the declared facts of a tool: those of its own, and the defaults of the server for the others."""
        return {**self.tool_fact_defaults, **self.tool_facts.get(tool, {})}


class ServerConfig(_Entry):
    """One upstream server: how to reach it, and which of its tools the operator lets through. `${NAME}` stands for an
    environment variable of the gateway, and `${secret:NAME}` for a line of `secrets.env` beside this file, in `args`,
    `env`, `url`, `headers` and `oauth`.
    """

    enabled: StrictBool = Field(
        default=True, description="`false`: the server is not connected, and none of its tools can be called."
    )
    quarantined: StrictBool = Field(
        default=False,
        description="`true`: the server is held for review. It is connected, which runs one on stdio, and its tools are"
        " listed so that they can be named; only their names are kept, and nothing on it is called.",
    )

    @property
    def listed_tools(self) -> tuple[str, ...]:
        """The names in the two tool lists, each once, in the order of the file."""
        return tuple(dict.fromkeys((*(self.enabled_tools or ()), *self.disabled_tools)))

    def config_denies(self, tool: str) -> bool:
        """Say whether the two lists deny a tool: the fact `tool.config_denied` (A.2). Names are exact."""
        if self.enabled_tools is not None:
            return tool not in self._listed_tools
        return tool in self._listed_tools

    @cached_property
    def _listed_tools(self) -> frozenset[str]:
        return frozenset(self.listed_tools)


class CatalogEntry(_Entry):
    """A server that agents may enable by `enable_server`, and disable again. `${NAME}` stands for an environment
    variable of the gateway, and `${secret:NAME}` for a line of `secrets.env` beside this file, in `args`, `env`, `url`,
    `headers` and `oauth`.
    """

    description: Annotated[Text | None, Given] = Field(
        default=None, description="What the server is for, in the operator's words. It is shown and searched."
    )

    @cached_property
    def server(self) -> ServerConfig:
        """The entry as a server that is switched on; where it is reached is not filled in."""
        given = self.model_fields_set & _Entry.model_fields.keys()
        return ServerConfig.model_validate({name: getattr(self, name) for name in given})


class AgentConfig(_Model):
    """An agent that asks over HTTP with a token, or over stdio by its name, and the servers that exist for it."""

    token_sha256: Annotated[Digest | None, Given] = Field(
        default=None, repr=False, description="SHA-256 of the agent's bearer token, in hexadecimal; never the token."
    )
    token_expires: Annotated[Moment | None, Given] = Field(
        default=None,
        description="When the token expires, as `2027-01-31T00:00:00Z`. If left out, it does not.",
    )
    servers: tuple[Text, ...] = Field(description="The servers that the agent may see. For the agent, no others exist.")
    labels: Labels = Field(
        default_factory=Empty,
        description="Labels of the agent, which rules of the policy may read as `agent.label.KEY`.",
    )
    facts: FactValues = Field(
        default_factory=Empty,
        description="Facts of the agent that the rule file declares, by name, such as `proxy.quota`.",
    )

    def has_valid_token(self, now: datetime) -> bool:
        """Say whether the agent has a token that has not expired."""
        if self.token_sha256 is None:
            return False
        return self.token_expires is None or now < datetime.fromisoformat(self.token_expires)


class Deadlines(_Model):
    """How long the gateway waits for an upstream server."""

    call_seconds: Seconds = Field(
        default=60.0,
        description="Time for the answer to a call, in seconds: above 0, at most 86,400. If the agent asked for"
        " progress, each report of the server starts this time again.",
    )
    call_max_seconds: Seconds = Field(
        default=3600.0,
        description="Time for the answer to a call in all, with any progress, in seconds: above 0, at most 86,400. If"
        " this is less than `call_seconds`, `call_seconds` is the maximum.",
    )
    refresh_seconds: Seconds = Field(
        default=300.0,
        description=(
            "Time until the tools of a server on HTTP are listed again, in seconds: above 0, at most 86,400. Changes"
            " that the server announces are read at once. This is for announcements that get lost."
        ),
    )
    reopen_seconds: Seconds = Field(
        default=30.0,
        description=(
            "Time until a server that is still starting up is loaded again, in seconds: above 0, at most 86,400. It"
            " doubles each time, up to ten minutes, or to the value itself if that is longer. A lost connection is"
            " opened again at once, or, if it lasted for less than this time, this long after it was opened."
        ),
    )
    recheck_seconds: SecondsOrNever = Field(
        default=600.0,
        description=(
            "Time until a server that needs attention is looked at again, in seconds: 0 to 86,400, and 0 for never. It"
            " varies by a tenth, so that not all servers are looked at together. A server that denied access is never"
            " looked at again by itself."
        ),
    )
    open_seconds: Seconds = Field(
        default=10.0,
        description="Time for a connection to open, in seconds: above 0, at most 86,400. If this is left out, a process"
        " that has not listed any tool yet, and the commands that connect servers, have 60 seconds, since a first start"
        " may install the server.",
    )
    enable_seconds: Seconds = Field(
        default=30.0,
        description="Time for a server of the catalog to be connected when an agent enables it, in seconds: above 0, at"
        " most 86,400. The time in which a person authorizes it does not count.",
    )
    dialog_seconds: Seconds = Field(
        default=600.0, description="Time for a person to authorize it, in seconds: above 0, at most 86,400."
    )

    def of(self, server: ServerConfig | CatalogEntry) -> Deadlines:
        """Return the deadlines of a server: its own, and these for the keys that it leaves out."""
        own = {} if server.deadlines is None else server.deadlines.model_dump(exclude_none=True)
        return self.model_copy(update=own)


class HttpConfig(_Model):
    """What agents may use of the gateway over HTTP (`--transport http`)."""

    sessions_per_agent: Sessions = Field(
        default=100,
        description="Sessions that one agent may have open, 1 to 10,000. Clients without a token count as one agent, of"
        " which the session that was unused for longest ends at the limit. MCP 2026-07-28 has no sessions.",
    )
    sessions: Sessions = Field(
        default=2_000, description="Sessions that all agents together may have open, 1 to 10,000."
    )
    requests_per_agent: Requests = Field(
        default=200,
        description="Requests and open streams that one agent may have in progress, 1 to 10,000, but never more than"
        " half of the connections. Notifications and responses pass beyond it. Clients without a token have no such"
        " limit.",
    )
    session_idle_seconds: Seconds = Field(
        default=300.0,
        description="Time until a session without a request or an open stream ends, in seconds: above 0, at most"
        " 86,400.",
    )
    request_bytes: RequestBytes = Field(
        default=4 * 1024 * 1024,
        description="Largest body of a request, in bytes, 1 to 67,108,864. A larger request gets HTTP status 413.",
    )


class RecordsConfig(_Model):
    """Where records of decisions and changes go. It is read at start, and by the commands that edit the files."""

    to: Text = Field(
        description="A directory of the gateway's user alone, relative to the directory of this file, or `-` for"
        " standard output.",
    )
    level: Literal["refused", "all"] = Field(
        default="refused",
        description="Which decisions are recorded: those that are not callable (`refused`), or `all`. Changes always"
        " are.",
    )
    mib: RecordsSize = Field(
        default=1_024,
        description="The most that the files of the directory take, in MiB, 1 to 1,048,576. The oldest are removed.",
    )
    days: RecordsDays = Field(default=30, description="Days after which a file is removed, 1 to 36,500.")


class ConfigFile(_Model):
    """The whole file."""

    servers: Annotated[Mapping[ServerName, ServerConfig], Sealed] = Field(
        alias="mcpServers", description="The upstream servers, by name."
    )
    approvals: Annotated[Text | None, Given] = Field(
        default=None,
        description="Path of the approvals file, relative to the directory of this file. If left out, there are no"
        " records.",
    )
    catalog: Annotated[Mapping[ServerName, CatalogEntry], Sealed] = Field(
        default_factory=partial(MappingProxyType, dict[str, CatalogEntry]()),
        description="Servers that agents may enable, by name. None is connected before that.",
    )
    agents: Annotated[Mapping[AgentName, AgentConfig], Sealed] = Field(
        default_factory=partial(MappingProxyType, dict[str, AgentConfig]()),
        description="The agents, by name. If left out, every client sees every server.",
    )
    deadlines: Deadlines = Field(
        default_factory=Deadlines,
        description="How long to wait for upstream servers.",
        json_schema_extra={"default": {}},
    )
    http: HttpConfig = Field(
        default_factory=HttpConfig,
        description="Limits for agents over HTTP.",
        json_schema_extra={"default": {}},
    )
    tokens: Literal["file", "keyring"] = Field(
        default="file",
        description="Where logins by OAuth are kept: in files in the directory `tokens` beside this file, which no"
        " other user may read, or in the keyring of the system, which needs `callability[keyring]`.",
    )
    strict_labels: StrictBool = Field(
        default=False,
        description="`true`: a label or a fact that the policy does not declare refuses the config. `false`: it is a"
        " warning.",
    )
    records: Annotated[RecordsConfig | None, Given] = Field(
        default=None, description="Records of decisions and changes. If left out, there are none."
    )
    editors_schema: Annotated[StrictStr | None, Given] = Field(
        default=None, alias="$schema", description="Where an editor finds the schema of this file; it is ignored."
    )
