"""The page for people as a web application on loopback, and the code by which a browser signs in.

The code is shown on a terminal, so that no process reads it. Guard, style and elements are those of the studio.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callability.client import PolicyUnavailable
from callability.gateway.people.overview import ACTS, Acts, NotDone, Overview, RecentChanges
from callability.gateway.runtime.runtime import GatewayRuntime
from callability.process.address import listening
from callability.process.background import end_tasks
from callability.process.web_server import ERROR_HANDLERS, PageError, PageGuard, UvicornServer, page_endpoints

CODE_SECONDS = 300
"""For how long a code is valid."""
WRONG_CODES = 5
"""How many wrong codes void the one that is valid."""
SESSION_SECONDS = 8 * 3600
"""For how long a browser stays signed in."""
MAX_SESSIONS = 8
_ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
_LENGTH = 8
_STATUS = Path("/proc/self/stat")
_TERMINAL_FIELD = 4
"""The place of the controlling terminal in `/proc/PID/stat`, counted behind the name of the program."""
_PSEUDO_TERMINALS, _CONSOLES = range(136, 144), 4
"""The major numbers of the devices."""


class NoTerminal(Exception):
    """There is no terminal on which a code can be shown; the text says why."""


class SignIn:
    """The code that is valid, and the browsers that are signed in; use it in one event loop.

    `clock` returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._code = ""
        self._code_ends = 0.0
        self._wrong = 0
        self._sessions: dict[str, float] = {}

    def new_code(self) -> str:
        """Return a code that signs one browser in; the one before is void."""
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
        self._code, self._code_ends, self._wrong = code, self._clock() + CODE_SECONDS, 0
        return f"{code[:4]}-{code[4:]}"

    def session(self, code: str) -> str:
        """Return a new session for a code, which is then void; empty if the code is not valid."""
        given = "".join(character for character in code.upper() if character.isalnum())
        valid = bool(self._code) and self._clock() < self._code_ends
        if not valid or not hmac.compare_digest(given.encode(), self._code.encode()):
            self._wrong += 1
            if self._wrong >= WRONG_CODES:
                self._code = ""
            return ""
        self._code = ""
        token = secrets.token_urlsafe(32)
        self._sessions[token] = self._clock() + SESSION_SECONDS
        while len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return token

    def is_signed_in(self, token: str) -> bool:
        """Say whether a session is valid."""
        now = self._clock()
        self._sessions = {each: ends for each, ends in self._sessions.items() if now < ends}
        return any(hmac.compare_digest(token.encode(), each.encode()) for each in self._sessions)

    def sign_out(self, token: str) -> None:
        """End a session."""
        self._sessions.pop(token, None)


def show_on_terminal(process: int, named: str, text: str) -> None:
    """Write a text to the terminal that controls a process, and to no other.

    The shell of an agent has none. Where the system does not say which it is, the one that the process `named` is used.

    Raises:
        NoTerminal: the process has none, or it cannot be written.
    """
    terminal = _terminal_of(process) if _STATUS.exists() else named
    if not terminal:
        raise NoTerminal("the code is shown on the terminal of the command, and it has none")
    try:
        descriptor = os.open(terminal, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NoTerminal(f"the terminal cannot be opened: {(error.strerror or 'error').lower()}") from error
    try:
        if not os.isatty(descriptor):
            raise NoTerminal("the code is shown on a terminal, and this is none")
        os.write(descriptor, text.encode())
    except OSError as error:
        raise NoTerminal(f"the terminal cannot be written: {(error.strerror or 'error').lower()}") from error
    finally:
        os.close(descriptor)


def _terminal_of(process: int) -> str:
    """Return the terminal that controls a process, by what Linux says of it; empty if there is none."""
    try:
        status = Path("/proc", str(process), "stat").read_text(encoding="utf-8", errors="replace")
        number = int(status.rpartition(")")[2].split()[_TERMINAL_FIELD])
    except (OSError, ValueError, IndexError):
        return ""
    major, minor = (number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00)
    if major in _PSEUDO_TERMINALS:
        return f"/dev/pts/{(major - _PSEUDO_TERMINALS.start) * 256 + minor}"
    return f"/dev/tty{minor}" if major == _CONSOLES else ""


SESSION_HEADER = "callability-session"
USED_SECONDS = 60.0
"""For how long after its latest request a page counts as open."""
_MAX_BODY = 64 * 1024
_HOST = "127.0.0.1"
_SHARED = Path(__file__).parents[2] / "studio" / "page"
_OWN = Path(__file__).parent / "page"
_FILES = (
    *(_OWN / name for name in ("index.html", "people.css", "main.js", "gateway.js", "parts.js")),
    *(_SHARED / name for name in ("style.css", "dom.js", "icon.svg")),
)
_Body = dict[str, Any]


class ActRefused(PageError):
    """A request that is not carried out; `code` and the text say why."""

    def __init__(self, code: str, sentence: str, status: HTTPStatus = HTTPStatus.CONFLICT) -> None:
        super().__init__(sentence)
        self.code = code
        self.status = status


class PeoplePage:
    """The page of a gateway: nothing listens before a person opens it. Use it in one event loop."""

    def __init__(self, runtime: GatewayRuntime, changes: RecentChanges) -> None:
        self._overview = Overview(runtime, changes)
        self._acts = Acts(runtime)
        self._sign_in = SignIn()
        self._token = secrets.token_urlsafe(32)
        self._serving: asyncio.Task[None] | None = None
        self._url = ""
        self._used = -USED_SECONDS

    @property
    def is_used(self) -> bool:
        """Whether a browser that is signed in shows the page."""
        return time.monotonic() < self._used + USED_SECONDS

    def open(self, process: int, terminal: str) -> str:
        """Show a new code on the terminal of a process, and return the URL of the page.

        Raises:
            NoTerminal: the process has none; no code was made.
            AddressRefused: no port of loopback can be listened on.
        """
        show_on_terminal(process, terminal, "")
        if self._serving is None or self._serving.done():
            self._serve()
        code, minutes = self._sign_in.new_code(), CODE_SECONDS // 60
        text = f"{code} is the code for {self._url}, valid once, for {minutes} minutes. Enter it on that page alone."
        show_on_terminal(process, terminal, f"{text}\r\n")
        return self._url

    async def close(self) -> None:
        """Serve the page no more."""
        if self._serving is not None:
            await end_tasks(self._serving)

    def _serve(self) -> None:
        listener = listening(f"{_HOST}:0")
        host = f"{_HOST}:{listener.getsockname()[1]}"
        self._url = f"http://{host}/"
        guarded = PageGuard(self._application(), (host,), self._token)
        server = UvicornServer(guarded, access_log=False, server_header=False, lifespan="off", ws="none")
        self._serving = asyncio.create_task(server.serve(sockets=[listener]), name="page for people")

    def _application(self) -> Starlette:
        routes = [Route(path, endpoint) for path, endpoint in page_endpoints(_FILES, self._token).items()]
        requests: dict[str, Callable[[_Body], Awaitable[Any]]] = {
            "state": self._state,
            "why": self._why,
            "act": self._act,
        }
        routes += [Route(f"/{name}", self._signed_in(answer), methods=["POST"]) for name, answer in requests.items()]
        routes += [
            Route("/sign-in", self._sign_in_browser, methods=["POST"]),
            Route("/sign-out", self._sign_out_browser, methods=["POST"]),
        ]
        return Starlette(routes=routes, exception_handlers=ERROR_HANDLERS)

    def _signed_in(self, answer: Callable[[_Body], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint for browsers that a person signed in: a URL alone gives nothing."""

        async def endpoint(request: Request) -> Response:
            if not self._sign_in.is_signed_in(request.headers.get(SESSION_HEADER, "")):
                raise ActRefused("signed-out", "this browser is not signed in", HTTPStatus.UNAUTHORIZED)
            self._used = time.monotonic()
            body = await _body(request)
            try:
                return JSONResponse(await answer(body))
            except NotDone as error:
                raise ActRefused(error.code, str(error)) from error
            except PolicyUnavailable as error:
                raise ActRefused("no-policy", str(error), HTTPStatus.SERVICE_UNAVAILABLE) from error

        return endpoint

    async def _sign_in_browser(self, request: Request) -> Response:
        session = self._sign_in.session(_text(await _body(request), "code"))
        if not session:
            sentence = "this code is not valid: run `callability page` in a terminal for another one"
            raise ActRefused("wrong-code", sentence, HTTPStatus.FORBIDDEN)
        return JSONResponse({"session": session})

    async def _sign_out_browser(self, request: Request) -> Response:
        self._sign_in.sign_out(request.headers.get(SESSION_HEADER, ""))
        return JSONResponse({})

    async def _state(self, body: _Body) -> Any:
        """Return what the page shows, unless it is what the page has `seen` already."""
        state = await self._overview.state(_text(body, "agent"))
        digest = str(hash(json.dumps(state)))
        return {"unchanged": True} if _text(body, "seen") == digest else state | {"digest": digest}

    async def _why(self, body: _Body) -> Any:
        try:
            return await self._overview.why(_text(body, "agent"), _text(body, "server"), _text(body, "tool"))
        except KeyError as error:
            raise ActRefused("changed-meanwhile", "there is no such server any more") from error

    async def _act(self, body: _Body) -> Any:
        wanted = _text(body, "act")
        for act in ACTS:
            if act == wanted:
                return {
                    "done": await self._acts.do(act, _text(body, "server"), _text(body, "tool"), _text(body, "seen"))
                }
        raise ActRefused("bad-request", f"`act` is one of {', '.join(ACTS)}", HTTPStatus.BAD_REQUEST)


async def _body(request: Request) -> _Body:
    """Return the object of a request.

    Raises:
        Refused: it is too large, or no object of JSON.
    """
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > _MAX_BODY:
            raise ActRefused(
                "too-large", f"a request has at most {_MAX_BODY:,} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            )
    try:
        body = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise ActRefused("bad-request", "a request is an object of JSON", HTTPStatus.BAD_REQUEST)
    return body


def _text(body: _Body, name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise ActRefused("bad-request", f"`{name}` must be text", HTTPStatus.BAD_REQUEST)
    return value
