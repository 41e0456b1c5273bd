"""The page and what it asks, as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callability import document
from callability.editing.rewriting import ChangedMeanwhile
from callability.policy.questions.questions import QUESTIONS
from callability.policy.reporting.plain_data import Plain
from callability.studio.error_response import trouble_response
from callability.studio.errors import NotSaved, Trouble
from callability.studio.page_data import saved_told
from callability.studio.pages import page_files
from callability.studio.policy_files import NotEditable, SavedFile, read_saved, save, texts_of
from callability.studio.requests import Check, Decide, Difference, Leave, Save, Table, read_request
from callability.studio.session import Desk, Desks


class Studio:
    """What the page can ask of a policy in a directory; `writable`: whether files may be saved."""

    def __init__(self, directory: Path, *, writable: bool) -> None:
        self._directory = directory
        self._writable = writable
        self._desks = Desks(directory)
        self._saving_desk = Desk(directory)
        self._saving = asyncio.Lock()

    async def policy(self, _: Request) -> Response:
        """Answer what the page begins with."""
        saved = await asyncio.to_thread(read_saved, self._directory)
        return JSONResponse(
            {
                "directory": str(self._directory),
                "writable": self._writable,
                "files": [saved_told(file) for file in saved.values()],
                "questions": tuple(QUESTIONS),
                "max_bytes": document.MAX_BYTES,
            }
        )

    async def check(self, request: Request) -> Response:
        """Answer what is wrong with a draft, and whether the files on disk are still those that were read."""
        asked = await read_request(request, Check)
        task, digests = await asyncio.to_thread(self._task, asked.texts)
        told = await self._desks.check(asked.page, task)
        return JSONResponse(told | {"digests": digests})

    async def table(self, request: Request) -> Response:
        """Answer the decision table of a question."""
        asked = await read_request(request, Table)
        return await self._ask(asked.page, {"do": "table", "question": asked.question})

    async def decide(self, request: Request) -> Response:
        """Answer the verdict for facts, and how it came about."""
        asked = await read_request(request, Decide)
        task = {"do": "decide", "question": asked.question, "facts": asked.facts, "changed": asked.changed}
        return await self._ask(asked.page, task)

    async def difference(self, request: Request) -> Response:
        """Answer what the draft changes."""
        asked = await read_request(request, Difference)
        return await self._ask(asked.page, {"do": "difference"})

    async def save(self, request: Request) -> Response:
        """Write one file, and answer its state; one that would make the policy refused only where that is said."""
        asked = await read_request(request, Save)
        if not self._writable:
            raise NotSaved("read-only", "the policy that comes with the program is not edited in its place")
        async with self._saving:
            if not asked.even_refused:
                await self._check_sound(asked)
            return JSONResponse(saved_told(await asyncio.to_thread(self._saved, asked)))

    async def leave(self, request: Request) -> Response:
        """Forget the draft of a page that was closed."""
        asked = await read_request(request, Leave)
        await self._desks.leave(asked.page)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def close(self) -> None:
        """End what runs for pages."""
        await asyncio.gather(self._desks.close(), self._saving_desk.close())

    async def _ask(self, page: str, task: Plain) -> Response:
        return JSONResponse(await self._desks.ask(page, task))

    async def _check_sound(self, asked: Save) -> None:
        """Check what would be on disk, which may be another policy than the draft: only one file of it is saved."""
        task, _ = await asyncio.to_thread(self._task, {asked.name: asked.text})
        told = await self._saving_desk.check(task)
        if not told["sound"]:
            errors = told["counts"]["error"]
            count = f"{errors} error{'s' if errors > 1 else ''}"
            raise NotSaved("refused", f"with this file the policy on disk would be refused: {count}")

    def _saved(self, asked: Save) -> SavedFile:
        try:
            return save(self._directory, asked.name, asked.text, asked.digest)
        except ChangedMeanwhile:
            raise NotSaved("changed-meanwhile", f"`{asked.name}` has changed on disk since it was read") from None
        except NotEditable as error:
            raise NotSaved("not-editable", f"`{asked.name}` {error}") from None
        except document.Refused as error:
            raise NotSaved("not-written", f"`{asked.name}` {error.findings[0].sentence}") from None
        except OSError as error:
            reason = (error.strerror or "error").lower()
            raise NotSaved("not-written", f"`{asked.name}` cannot be written: {reason}") from None

    def _task(self, edits: dict[str, str]) -> tuple[Plain, dict[str, str]]:
        """Return the task to check a draft, and the digests of the files on disk."""
        saved = read_saved(self._directory)
        texts = texts_of(saved)
        edited = {name: saved[name].written(text) for name, text in edits.items() if not saved[name].problem}
        task = {"do": "check", "saved": texts, "texts": texts | edited}
        return task, {name: file.digest for name, file in saved.items()}


def application(studio: Studio, token: str) -> Starlette:
    """Return the application; a request that is posted has to have the token."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await studio.close()

    asked: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "check": studio.check,
        "table": studio.table,
        "decide": studio.decide,
        "difference": studio.difference,
        "save": studio.save,
        "leave": studio.leave,
    }
    return Starlette(
        routes=[
            *page_files(token),
            Route("/policy", studio.policy),
            *(Route(f"/{name}", endpoint, methods=["POST"]) for name, endpoint in asked.items()),
        ],
        exception_handlers={Trouble: _told},
        lifespan=lifespan,
    )


async def _told(_: Request, error: Exception) -> Response:
    assert isinstance(error, Trouble)
    return trouble_response(error)
