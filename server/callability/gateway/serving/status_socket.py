"""A Unix socket on which people's commands ask a running gateway what it knows; nothing can be changed by it.

Each line is a JSON object. The gateway begins with one about itself; each question gets one answer:

- `{"ask": "why", "agent": NAME, "server": NAME, "tool": NAME}`: the report about a tool for an agent
- `{"ask": "preflight", "agent": NAME, "tools": [ID, ...]}`: whether tools can be called now

If there is no answer, `error` says why, and `kind` is `question` or `policy`.
Members that a reader does not know are ignored.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from callability import __version__
from callability.client import PolicyUnavailable
from callability.contract.finding import as_code, no_such
from callability.contract.vocabulary import MAX_BYTES, byte_length
from callability.gateway.agents import AgentRouter
from callability.gateway.config.config import socket_directories
from callability.gateway.runtime.runtime import GatewayOptions
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.tools.preflight import MalformedRider, RequiredTools

MAX_PATH_BYTES = 103
"""The longest path of a Unix socket that every system accepts."""
MAX_QUESTION_BYTES = 64 * 1024
MAX_CONNECTIONS = 8
IDLE_SECONDS = 30.0
"""For how long a client may stay silent, or leave an answer unread."""

_CREDENTIALS = struct.Struct("3i")
_logger = logging.getLogger(__name__)


class _NoAnswer(Exception):
    """A question that cannot be answered; the text says why."""


@asynccontextmanager
async def status_socket(options: GatewayOptions, router: AgentRouter) -> AsyncIterator[None]:
    """Answer on `PID.sock` until the context ends; a gateway that cannot have the socket runs without it."""
    opened = _open_socket() if options.has_status_socket else None
    if opened is None:
        yield
        return
    listener, path = opened
    answers = _Answers(options, router)
    identity = _identity(path)
    async with await asyncio.start_unix_server(answers.serve, sock=listener, limit=MAX_QUESTION_BYTES) as server:
        await server.start_serving()
        try:
            yield
        finally:
            answers.end()
            if _identity(path) == identity:
                path.unlink(missing_ok=True)


def _open_socket() -> tuple[socket.socket, Path] | None:
    """Return a socket that listens, and its path; None if there can be none, which the log says."""
    for directory in socket_directories():
        path = directory / f"{os.getpid()}.sock"
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            continue
        try:
            return _listening_at(path), path
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            _logger.info("commands cannot ask this gateway: no socket at %s: %s", as_code(str(path)), why)
            return None
    _logger.info("commands cannot ask this gateway: there is no place for its socket whose path is short enough")
    return None


def _listening_at(path: Path) -> socket.socket:
    """Return a socket that listens at a path and that the user of this process alone can reach.

    It gets its name only when it listens: a socket that refuses is one that a gateway left behind.

    Raises:
        OSError: the directory is not the user's alone, or a gateway in another container listens there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise OSError(f"{as_code(str(path.parent))} must be a directory of this user, and closed to others")
    if is_answered(path):
        raise OSError("another process listens there")
    unnamed = path.with_suffix(".new")
    unnamed.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(unnamed))
        unnamed.chmod(0o600)
        listener.listen(MAX_CONNECTIONS)
        listener.setblocking(False)
        unnamed.rename(path)
    except OSError:
        listener.close()
        unnamed.unlink(missing_ok=True)
        raise
    return listener


def is_answered(path: Path) -> bool:
    """Say whether a process listens on a socket; one that nobody listens on any more is removed."""
    with socket.socket(socket.AF_UNIX) as trying:
        trying.settimeout(IDLE_SECONDS)
        try:
            trying.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return False
        except FileNotFoundError:
            return False
    return True


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.lstat()
        return found.st_dev, found.st_ino
    return None


class _Answers:
    """Serves the connections of one gateway."""

    def __init__(self, options: GatewayOptions, router: AgentRouter) -> None:
        self._options = options
        self._router = router
        self._policy = options.policy_directory.absolute() if options.policy_directory else None
        self._started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._serving: set[asyncio.Task[Any]] = set()

    def end(self) -> None:
        """End every connection."""
        for task in self._serving:
            task.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of one connection, one after the other."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if len(self._serving) <= MAX_CONNECTIONS and _is_own_user(writer.get_extra_info("socket")):
                await _write_answer(writer, self._about())
                await self._converse(reader, writer)
        except (OSError, TimeoutError, ValueError):
            _logger.debug("a connection on the status socket was ended: it was silent, or its question too long")
        finally:
            self._serving.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                line = await reader.readline()
            if not line.endswith(b"\n"):
                return
            try:
                answer = await self._answer(_question(line))
            except _NoAnswer as error:
                answer = {"error": str(error), "kind": "question"}
            except PolicyUnavailable as error:
                answer = {"error": f"no verdict was computed: {error}", "kind": "policy"}
            await _write_answer(writer, answer)

    def _about(self) -> dict[str, Any]:
        """Return what a client reads first: which gateway this is."""
        files, options = self._router.files(), self._options
        return {
            "v": 1,
            "version": __version__,
            "pid": os.getpid(),
            "agent": options.only_agent,
            "transport": "http" if self._router.is_over_http else "stdio",
            "config": str(files.config.path) if files.config else "",
            "awaits_config": files.config is not None and files.config.is_awaited,
            "approvals": str(files.approvals) if files.approvals else None,
            "policy": {
                "directory": str(self._policy) if self._policy else None,
                "address": options.policy_address or None,
            },
            "started": self._started,
        }

    async def _answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        gateway = self._gateway(question.get("agent"))
        match question.get("ask"):
            case "why":
                return await self._why(gateway, question.get("server"), question.get("tool"))
            case "preflight":
                ids = question.get("tools")
                if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
                    raise _NoAnswer("`tools` must be a list of ids")
                try:
                    return await gateway.preflight.check(RequiredTools.of_ids(ids))
                except MalformedRider as error:
                    raise _NoAnswer(str(error)) from error
        raise _NoAnswer("`ask` must be `why` or `preflight`")

    async def _why(self, gateway: Gateway, server: object, tool: object) -> dict[str, Any]:
        if not isinstance(server, str) or not isinstance(tool, str) or not server or not tool:
            raise _NoAnswer("`server` and `tool` must be names")
        if max(byte_length(server), byte_length(tool)) > MAX_BYTES:
            raise _NoAnswer(f"a name has at most {MAX_BYTES} bytes")
        files = self._router.files()
        assert files.config is not None
        report = await gateway.lock_reports.report(files.config, server, tool)
        digests = {"config": files.config.digest, "approvals": files.approvals_digest}
        return report | {"in_effect": digests, "refused_edits": dict(files.refused)}

    def _gateway(self, agent: object) -> Gateway:
        """Return the gateway that answers an agent; one over stdio that has an agent answers about no other."""
        only = self._options.only_agent
        name = only if agent is None else agent
        if only and name != only:
            raise _NoAnswer(f"this gateway is run for agent {as_code(only)} alone")
        found = self._router.gateway_named(name) if isinstance(name, str) else None
        if found is None:
            files = self._router.files()
            agents = files.config.agents if files.config else ()
            raise _NoAnswer(no_such("the config has no agent", str(name), agents))
        return found


def _question(line: bytes) -> Mapping[str, Any]:
    try:
        question = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _NoAnswer("a question must be a JSON object in one line") from error
    if not isinstance(question, dict):
        raise _NoAnswer("a question must be a JSON object in one line")
    return question


async def _write_answer(writer: asyncio.StreamWriter, answer: Mapping[str, Any]) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")
    async with asyncio.timeout(IDLE_SECONDS):
        await writer.drain()


def _is_own_user(connection: socket.socket) -> bool:
    """Say whether the process at the other end is of the same user, or of root."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return user in (0, os.geteuid())
