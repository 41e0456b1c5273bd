"""How large a request may be, in bytes and in items: checked before it is parsed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from callability.kernel import wire
from callability.kernel.limits import (
    ERROR_TEXT_BYTES,
    FACTS_BYTES,
    MESSAGE_BYTES,
    POLICY_BYTES,
    POLICY_FILES,
    SERVERS,
    TOOLS,
    InvalidRequest,
    too_many_servers,
    too_many_tools,
)

_NAMES_AND_MORE = 8_192
"""Bytes for names, for what surrounds them, and for fields that a newer client sends."""
_ITEM_BYTES = FACTS_BYTES + _NAMES_AND_MORE
_OTHER_FIELDS = 64
"""Fields beside the items: a newer client may send what this version does not know."""
_SERVERS_FIELD = 2
_TOOLS_FIELD = 3

REQUEST_BYTES: Mapping[str, int] = {
    "callability.v1.CallabilityService/CheckTool": 3 * FACTS_BYTES + _NAMES_AND_MORE,
    "callability.v1.CallabilityService/CheckTools": MESSAGE_BYTES,
    "callability.v1.CallabilityService/ExplainTool": 3 * FACTS_BYTES + _NAMES_AND_MORE,
    "callability.v1.CallabilityService/ClassifyLoad": ERROR_TEXT_BYTES + _NAMES_AND_MORE,
    "callability.v1.CallabilityService/ClassifyEnable": _NAMES_AND_MORE,
    "callability.v1.PolicyService/GetPolicy": _NAMES_AND_MORE,
    "callability.v1.PolicyService/WatchPolicy": _NAMES_AND_MORE,
    "callability.v1.PolicyService/ValidatePolicy": POLICY_BYTES + 2 * _NAMES_AND_MORE,
}
"""Bytes of a request, by method: those of the largest request that exceeds no other limit, and some room."""


def check_servers(request: bytes) -> tuple[slice, ...]:
    """Check how many servers a `CheckToolsRequest` has, and the size of what it has beside them.

    Returns: where the large servers are, which have to be checked by `check_large_servers`.

    Raises:
        InvalidRequest: there are too many, or too much, or it is malformed.
    """
    limit = SERVERS + _OTHER_FIELDS
    found = _fields(request, limit, "CheckToolsRequest", apart=_SERVERS_FIELD)
    if found.count > limit:
        raise too_many_servers(f"more than {limit:,} fields")
    _check_item(found)
    return found.large


def check_large_servers(request: bytes, servers: Iterable[slice]) -> Iterator[None]:
    """Check as `check_tools` does, but where the servers are: every copy of one delays other callers.

    Yields: now and then, so that others get a turn.

    Raises:
        InvalidRequest: there are too many tools, or one is too large, or a server is malformed.
    """
    left = TOOLS
    for part in servers:
        try:
            found = yield from wire.counting(request, left + _OTHER_FIELDS, part=part)
        except wire.Malformed:
            raise _malformed("ServerTools") from None
        left -= _check_tools(found, left)


def check_tools(server: bytes, before: int) -> None:
    """Check how many tools a `ServerTools` has, and the size of each; `before` are in the servers before it.

    A large one is left to `check_large_servers`.

    Raises:
        InvalidRequest: there are too many, or one is too large, or it is malformed.
    """
    limit = TOOLS - before
    if len(server) <= wire.LARGE and not wire.at_most(server, _TOOLS_FIELD, limit):
        _check_tools(_fields(server, limit + _OTHER_FIELDS, "ServerTools"), limit)


def check_files(request: bytes) -> None:
    """Check how many files a `ValidatePolicyRequest` has.

    Raises:
        InvalidRequest: there are too many, or it is malformed.
    """
    limit = POLICY_FILES + _OTHER_FIELDS
    if _fields(request, limit, "ValidatePolicyRequest").count > limit:
        raise InvalidRequest(
            "TOO_MANY_FILES", f"the policy has more than {limit:,} fields, and may have {POLICY_FILES} files"
        )


def _check_tools(found: wire.Fields, tools: int) -> int:
    """Check what is in a `ServerTools` that may have so many tools, and return how many it has at the least."""
    limit = tools + _OTHER_FIELDS
    if found.count > limit:
        raise too_many_tools(f"more than {limit:,} fields in a server")
    _check_item(found)
    return max(0, found.count - _OTHER_FIELDS)


def _fields(data: bytes, limit: int, message: str, apart: int = 0) -> wire.Fields:
    try:
        return wire.fields(data, limit, apart)
    except wire.Malformed:
        raise _malformed(message) from None


def _malformed(message: str) -> InvalidRequest:
    return InvalidRequest("REQUEST_MALFORMED", f"the request is not a `{message}`")


def _check_item(found: wire.Fields) -> None:
    if found.largest > _ITEM_BYTES:
        message = f"an item of the request has {found.largest:,} bytes, and may have {_ITEM_BYTES:,}"
        raise InvalidRequest("ITEM_TOO_LARGE", message)
