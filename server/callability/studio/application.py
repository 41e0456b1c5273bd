"""The studio as an ASGI application: the page, the endpoints that it calls and their requests, and its shutdown."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callability.compiler.questions import QUESTIONS
from callability.compiler.table import Plain
from callability.files import document
from callability.files.document import MAX_BYTES
from callability.files.editing import ChangedMeanwhile
from callability.process import web_server
from callability.process.address import check_loopback, listening
from callability.studio.drafts import saved_data
from callability.studio.policy_files import (
    NAMES,
    BadRequest,
    NotEditable,
    NotSaved,
    RequestTooLarge,
    SavedFile,
    read_saved,
    save,
    texts_of,
)
from callability.studio.session import DraftSession, DraftSessions

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


class PageRequest(BaseModel):
    """A request of a page about its draft."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    page: PageId


class CheckRequest(PageRequest):
    """A draft: the texts of the files that are edited."""

    texts: dict[FileName, FileText]


class TableRequest(PageRequest):
    """The decision table of a question, and its row for facts if there are any."""

    question: QuestionName
    facts: dict[str, str] = {}


class DecideRequest(PageRequest):
    """The answer for facts, one of which may just have been changed; those that the draft has not are left out."""

    question: QuestionName
    facts: dict[str, str]
    changed: str = ""
    row: bool = True


class SaveRequest(PageRequest):
    """Write one file, if it has still the digest; `even_refused`: also where the policy would be refused then."""

    name: FileName
    text: FileText
    digest: str
    even_refused: bool = False


_Wanted = TypeVar("_Wanted", bound=PageRequest)


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


_FILES = [path for path in sorted((Path(__file__).parent / "page").iterdir()) if path.suffix in web_server.PAGE_TYPES]


class Studio:
    """The endpoints of the page for a policy in a directory; `writable`: whether files may be saved."""

    def __init__(self, directory: Path, *, writable: bool) -> None:
        self._directory = directory
        self._writable = writable
        self._sessions = DraftSessions(directory)
        self._saving_session = DraftSession(directory)
        self._saving = asyncio.Lock()

    async def policy(self, _: Request) -> Response:
        """Return the saved policy, with which the page starts."""
        saved = await asyncio.to_thread(read_saved, self._directory)
        return JSONResponse(
            {
                "directory": str(self._directory),
                "writable": self._writable,
                "files": [saved_data(file) for file in saved.values()],
                "questions": tuple(QUESTIONS),
                "max_bytes": document.MAX_BYTES,
            }
        )

    async def check(self, request: Request) -> Response:
        """Return the findings of a draft, and the digests of the files on disk."""
        body = await read_request(request, CheckRequest)
        task, digests = await asyncio.to_thread(self._task, body.texts)
        result = await self._sessions.check(body.page, task)
        return JSONResponse(result | {"digests": digests})

    async def confirm(self, request: Request) -> Response:
        """Return the findings of the draft that was checked last, after the rules engine has decided witnesses."""
        body = await read_request(request, PageRequest)
        return await self._ask(body.page, {"do": "confirm"})

    async def progress(self, request: Request) -> Response:
        """Return how many of how many witnesses the rules engine has decided, while it confirms a draft."""
        body = await read_request(request, PageRequest)
        decided, of = self._sessions.progress(body.page)
        return JSONResponse({"decided": decided, "of": of})

    async def table(self, request: Request) -> Response:
        """Return the decision table of a question."""
        body = await read_request(request, TableRequest)
        return await self._ask(body.page, {"do": "table", "question": body.question, "facts": body.facts})

    async def decide(self, request: Request) -> Response:
        """Return the verdict for facts, and its explanation."""
        body = await read_request(request, DecideRequest)
        task = {"do": "decide", **body.model_dump(exclude={"page"})}
        return await self._ask(body.page, task)

    async def difference(self, request: Request) -> Response:
        """Return what the draft changes."""
        body = await read_request(request, PageRequest)
        return await self._ask(body.page, {"do": "difference"})

    async def save(self, request: Request) -> Response:
        """Write one file and return its state; one that gets the policy refused needs `even_refused`."""
        body = await read_request(request, SaveRequest)
        if not self._writable:
            raise NotSaved("read-only", "the policy that comes with the program is not edited in its place")
        async with self._saving:
            if not body.even_refused:
                await self._check_sound(body)
            return JSONResponse(saved_data(await asyncio.to_thread(self._save, body)))

    async def leave(self, request: Request) -> Response:
        """Forget the draft of a page that was closed."""
        body = await read_request(request, PageRequest)
        await self._sessions.leave(body.page)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def close(self) -> None:
        """Close the sessions of all pages."""
        await asyncio.gather(self._sessions.close(), self._saving_session.close())

    async def _ask(self, page: str, task: Plain) -> Response:
        return JSONResponse(await self._sessions.ask(page, task))

    async def _check_sound(self, body: SaveRequest) -> None:
        """Check the policy that would be on disk, which may differ from the draft: only one file is saved."""
        task, _ = await asyncio.to_thread(self._task, {body.name: body.text})
        result = await self._saving_session.check(task)
        if result["sound"]:
            result = await self._saving_session.ask({"do": "confirm"})
        if not result["sound"]:
            errors = result["counts"]["error"]
            count = f"{errors} error{'s' if errors > 1 else ''}"
            raise NotSaved("refused", f"with this file the policy on disk would be refused: {count}")

    def _save(self, body: SaveRequest) -> SavedFile:
        try:
            return save(self._directory, body.name, body.text, body.digest)
        except ChangedMeanwhile:
            raise NotSaved("changed-meanwhile", f"`{body.name}` has changed on disk since it was read") from None
        except NotEditable as error:
            raise NotSaved("not-editable", f"`{body.name}` {error}") from None
        except document.Refused as error:
            raise NotSaved("not-written", f"`{body.name}` {error.findings[0].sentence}") from None
        except OSError as error:
            reason = (error.strerror or "error").lower()
            raise NotSaved("not-written", f"`{body.name}` cannot be written: {reason}") from None

    def _task(self, edits: dict[str, str]) -> tuple[Plain, dict[str, str]]:
        """Return the task to check a draft, and the digests of the files on disk."""
        saved = read_saved(self._directory)
        texts = texts_of(saved)
        edited = {name: saved[name].with_line_ends(text) for name, text in edits.items() if not saved[name].problem}
        task = {"do": "check", "saved": texts, "texts": texts | edited}
        return task, {name: file.digest for name, file in saved.items()}


def application(studio: Studio, token: str) -> Starlette:
    """Return the application; POST requests need the token."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await studio.close()

    endpoints: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "check": studio.check,
        "confirm": studio.confirm,
        "progress": studio.progress,
        "table": studio.table,
        "decide": studio.decide,
        "difference": studio.difference,
        "save": studio.save,
        "leave": studio.leave,
    }
    return Starlette(
        routes=[
            *(Route(path, endpoint) for path, endpoint in web_server.page_endpoints(_FILES, token).items()),
            Route("/policy", studio.policy),
            *(Route(f"/{name}", endpoint, methods=["POST"]) for name, endpoint in endpoints.items()),
        ],
        exception_handlers=web_server.ERROR_HANDLERS,
        lifespan=lifespan,
    )


GRACE = 2
"""Seconds that requests in flight have at the end."""


def names_of(host: str) -> tuple[str, ...]:
    """Return what a browser may call a server by its HOST:PORT; it leaves out port 80."""
    port = host.rpartition(":")[2]
    names = (host, f"localhost:{port}")
    return (*names, *(name.removesuffix(":80") for name in names)) if port == "80" else names


async def run(directory: Path, address: str, started: Callable[[str], None], *, writable: bool) -> None:
    """Serve the page until SIGTERM or SIGINT; `started` is given its URL.

    Raises:
        AddressRefused: the address is not loopback, or cannot be listened on.
    """
    check_loopback(address, "anyone who reaches the page can edit the policy")
    signals = web_server.StopSignals(signal.SIGTERM, signal.SIGINT)
    with listening(address) as listener:
        port = listener.getsockname()[1]
        host = f"{address.rpartition(':')[0]}:{port}"
        token = secrets.token_urlsafe(32)
        guarded = web_server.PageGuard(application(Studio(directory, writable=writable), token), names_of(host), token)
        server = web_server.UvicornServer(guarded, access_log=False, server_header=False, lifespan="on")
        started(f"http://{host}/")
        await server.serve_until(listener, signals, GRACE)
