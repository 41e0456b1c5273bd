"""The requests of the page, validated.

Errors as JSON responses for the page.

The request guard: only this server's own page may call it, even if another site's name resolves to it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator, Sequence
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callability.compiler.questions import QUESTIONS
from callability.files.document import MAX_BYTES
from callability.studio.policy_files import NAMES, BadRequest, Elsewhere, RequestTooLarge, StudioError


def error_response(error: StudioError) -> JSONResponse:
    """Return code and sentence as JSON, with the HTTP status of the error."""
    return JSONResponse({"code": error.code, "sentence": str(error)}, error.status)


TOKEN_HEADER = "callability-token"
NONCE = "callability.nonce"
"""The key in the scope of a request under which the page finds the nonce of its style sheets."""
_OWN = frozenset({"same-origin", "none"})
"""What a browser says of a request of the page itself, or of the person at the browser."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{}'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types 'none'"
)
"""What the page may do. The editor adds style sheets of its own, which have the nonce."""
_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """An ASGI application round another: it refuses what comes from elsewhere, and says what the page may do.

    A request names this server by one of the `hosts`, so that another name that leads here (DNS rebinding) opens
    nothing. What is posted comes from this origin, and has the token that is in the page.
    """

    def __init__(self, application: ASGIApp, hosts: Sequence[str], token: str) -> None:
        self._application = application
        self._hosts = frozenset(hosts)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        nonce = scope[NONCE] = secrets.token_urlsafe(16)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update({"content-security-policy": _POLICY.format(nonce), **_HEADERS})
            await send(message)

        refused = next(self._refusals(scope["method"], scope["path"], Headers(scope=scope)), None)
        application = error_response(refused) if refused else self._application
        await application(scope, receive, send_with_headers)

    def _refusals(self, method: str, path: str, headers: Headers) -> Iterator[StudioError]:
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            yield Elsewhere("this server has another name")
        if path != "/" and headers.get("sec-fetch-site", "none") not in _OWN:
            yield Elsewhere("this request comes from another site")
        if method in {"GET", "HEAD"}:
            return
        if origin is not None and origin != f"http://{host}":
            yield Elsewhere("this request comes from another site")
        if not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self._token.encode()):
            yield Elsewhere("this page is of another start of the server: reload it")


MAX_BODY = 16 * 1024**2
"""Bytes of a request: more than all files of a policy can have, escaped."""


def _one_of(*names: str) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError("no such name")
        return name

    return AfterValidator(check)


def _writable(text: str) -> str:
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"is larger than {MAX_BYTES:,} bytes")
    if "\r" in text or "\0" in text:
        raise ValueError("has a character that no file may hold")
    return text


PageId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
FileName = Annotated[str, _one_of(*NAMES)]
QuestionName = Annotated[str, _one_of(*QUESTIONS)]
FileText = Annotated[str, AfterValidator(_writable)]


class _PageRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CheckRequest(_PageRequest):
    """A draft: the texts of the files that are edited."""

    page: PageId
    texts: dict[FileName, FileText]


class ConfirmRequest(_PageRequest):
    """Whether the rules engine decides the draft as its decision diagrams do."""

    page: PageId


class ProgressRequest(_PageRequest):
    """How far the rules engine is."""

    page: PageId


class TableRequest(_PageRequest):
    """The decision table of a question, and its row for facts if there are any."""

    page: PageId
    question: QuestionName
    facts: dict[str, str] = {}


class DecideRequest(_PageRequest):
    """The answer for facts, one of which may just have been changed; those that the draft has not are left out."""

    page: PageId
    question: QuestionName
    facts: dict[str, str]
    changed: str = ""
    row: bool = True


class DifferenceRequest(_PageRequest):
    """What the draft changes."""

    page: PageId


class LeaveRequest(_PageRequest):
    """The page was closed."""

    page: PageId


class SaveRequest(_PageRequest):
    """Write one file, if it has still the digest; `even_refused`: also where the policy would be refused then."""

    page: PageId
    name: FileName
    text: FileText
    digest: str
    even_refused: bool = False


_Wanted = TypeVar("_Wanted", bound=_PageRequest)


async def read_request(request: Request, wanted: type[_Wanted]) -> _Wanted:
    """Return what a request asks.

    Raises:
        BadRequest: it is not what it should be.
        TooLarge: it is larger than a request may be.
    """
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise BadRequest("a request is JSON")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise RequestTooLarge(f"the request is larger than {MAX_BODY:,} bytes")
    try:
        request_body = wanted.model_validate_json(bytes(body))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        sentence = first["msg"].removeprefix("Value error, ")
        raise BadRequest(f"{place}: {sentence}" if place else sentence) from None
    return request_body
