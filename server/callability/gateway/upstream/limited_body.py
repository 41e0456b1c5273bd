"""Limits the body of a response that a library reads whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2

from callability.gateway.upstream.failure import MESSAGE_BYTES

_ENCODING = "content-encoding"


class TooLong(httpx2.RequestError):
    """A body exceeds `MESSAGE_BYTES`."""

    def __init__(self) -> None:
        super().__init__(f"the body has more than {MESSAGE_BYTES:,} bytes")


def limit_body(response: httpx2.Response) -> None:
    """Let a body be read without its content encoding, and up to `MESSAGE_BYTES`: reading more raises `TooLong`."""
    headers = {name: value for name, value in response.headers.items() if name == _ENCODING}
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _LimitedStream(httpx2.Response(response.status_code, headers=headers, stream=response.stream))
    # A few kilobytes can decode to gigabytes, so the decoded body is what is counted.
    response.headers.pop(_ENCODING, None)


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, encoded: httpx2.Response) -> None:
        self._encoded = encoded

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        size = 0
        async for piece in self._encoded.aiter_bytes():
            size += len(piece)
            if size > MESSAGE_BYTES:
                raise TooLong
            yield piece

    async def aclose(self) -> None:
        await self._encoded.aclose()
