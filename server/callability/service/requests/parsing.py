"""From the bytes of a request to its message."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from callability.service.requests.errors import InvalidRequest

Request = TypeVar("Request", bound=Message)


def parsed(message: type[Request], data: bytes) -> Request:
    """Return the message that bytes hold.

    Raises:
        InvalidRequest: they hold none.
    """
    try:
        return message.FromString(data)
    except DecodeError:
        raise InvalidRequest("REQUEST_MALFORMED", f"the request is not a `{message.DESCRIPTOR.name}`") from None
