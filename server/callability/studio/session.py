"""Sessions of pages: each analyses one draft at a time, in a child process with a time limit."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from callability.compiler.table import Plain
from callability.process.child import command, end_group
from callability.studio import drafts
from callability.studio.policy_files import Failed, NotChecked, Superseded, TooSlow

SECONDS = 60.0
"""The time limit of one task."""
MAX_SESSIONS = 4
"""Pages whose drafts are kept; one more replaces the one that was idle longest."""
_PROGRESS = b'{"progress"'
_MAX_ANSWER = 64 * 1024**2
"""The maximum size of an answer, in bytes."""


class DraftSession:
    """The session of one page, until the page is closed."""

    def __init__(self, directory: Path, seconds: float = SECONDS) -> None:
        self._directory = directory
        self._seconds = seconds
        self._process: Process | None = None
        self._killed = False
        self._closed = False
        self._turn = asyncio.Lock()
        self._drafts = 0
        self.progress: tuple[int, ...] = (0, 0)
        """How many of how many witnesses the rules engine has decided in the task that is done now."""

    async def check(self, task: Plain) -> Plain:
        """Analyse a new draft; requests about an older one are abandoned.

        Raises:
            PageError: there is no answer.
        """
        self._drafts += 1
        if self._turn.locked():
            self._kill()
        return await self.ask(task)

    async def ask(self, task: Plain) -> Plain:
        """Ask about the draft that was checked last.

        Raises:
            PageError: there is no answer.
        """
        draft = self._drafts
        async with self._turn:
            if self._killed:
                await self._end()
            self._check_wanted(draft)
            answer = await self._in_time(task)
            if not answer:
                await self._end()
            self._check_wanted(draft)
        if not answer:
            raise Failed("the policy could not be studied: the log of `callability studio` says more")
        result: Plain = json.loads(answer)
        return result

    async def close(self) -> None:
        """End the process, and the rules engine with it; pending requests fail with `NotChecked`."""
        self._closed = True
        self._kill()
        async with self._turn:
            await self._end()

    async def _in_time(self, task: Plain) -> bytes:
        try:
            return await asyncio.wait_for(self._answer(task), self._seconds)
        except TimeoutError:
            await self._end()
            raise TooSlow(f"this took longer than {self._seconds:g} seconds, and was given up") from None
        except BaseException:
            self._kill()
            raise

    def _kill(self) -> None:
        """Kill the process without waiting for it; the request in progress notices, and waits."""
        self._killed = True
        if self._process and self._process.returncode is None:
            end_group(self._process.pid)

    async def _end(self) -> None:
        """Kill the process, if there is one, and wait until it has ended."""
        self._kill()
        process, self._process, self._killed = self._process, None, False
        if process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            await process.stdout.read()
            with suppress(ConnectionError):
                await process.stdin.wait_closed()
            await process.wait()

    def _check_wanted(self, draft: int) -> None:
        if self._closed:
            raise NotChecked("this draft was discarded")
        if draft != self._drafts:
            raise Superseded("a newer draft is looked at")

    async def _answer(self, task: Plain) -> bytes:
        process = self._process
        if process is None and task["do"] != "check":
            raise NotChecked("there is no draft to ask about")
        if process is None:
            process = self._process = await self._start()
            if self._killed:
                return b""
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):
            process.stdin.write(json.dumps(task).encode() + b"\n")
            await process.stdin.drain()
        self.progress = (0, 0)
        while (line := await process.stdout.readline()).startswith(_PROGRESS):
            self.progress = tuple(json.loads(line)["progress"])
        return line

    async def _start(self) -> Process:
        studying = command(drafts.__name__, str(self._directory))
        return await asyncio.create_subprocess_exec(
            *studying, stdin=PIPE, stdout=PIPE, limit=_MAX_ANSWER, start_new_session=True
        )


class DraftSessions:
    """The sessions of all pages, and a spare one of a closed page, whose process has already loaded the policy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._sessions: OrderedDict[str, DraftSession] = OrderedDict()
        self._spare: DraftSession | None = None

    async def check(self, page: str, task: Plain) -> Plain:
        """Analyse a new draft of a page, which gets a session if it has none.

        Raises:
            PageError: there is no answer.
        """
        if page not in self._sessions:
            self._sessions[page], self._spare = self._spare or DraftSession(self._directory), None
        session = self._sessions[page]
        self._sessions.move_to_end(page)
        if len(self._sessions) > MAX_SESSIONS:
            await self._sessions.popitem(last=False)[1].close()
        return await session.check(task)

    async def ask(self, page: str, task: Plain) -> Plain:
        """Ask about the draft of a page that was checked last.

        Raises:
            PageError: there is no answer.
        """
        if page not in self._sessions:
            raise NotChecked("there is no draft to ask about")
        self._sessions.move_to_end(page)
        return await self._sessions[page].ask(task)

    def progress(self, page: str) -> tuple[int, ...]:
        """Return how many of how many witnesses the rules engine has decided for a page."""
        return self._sessions[page].progress if page in self._sessions else (0, 0)

    async def leave(self, page: str) -> None:
        """Release the session of a page that was closed."""
        session = self._sessions.pop(page, None)
        if session:
            old, self._spare = self._spare, session
            if old:
                await old.close()

    async def close(self) -> None:
        """Close all sessions."""
        sessions = (*self._sessions.values(), *filter(None, (self._spare,)))
        await asyncio.gather(*(session.close() for session in sessions))
