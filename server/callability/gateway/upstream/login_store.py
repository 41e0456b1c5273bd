"""The logins of servers that a person authorized: one record a server, kept across restarts and shared by processes."""

from __future__ import annotations

import asyncio
import fcntl
import importlib
import logging
import os
import secrets
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from callability.process.logs import fields

DIRECTORY = "tokens"
"""Beside the config: the records, and the locks of their servers."""
KEYRING = "callability"
"""The service under which the records are in the system's keyring."""
KEYRING_SECONDS = 10.0
"""How long the keyring has for an answer: it may show a dialog that nobody sees."""
LOOK_SECONDS = 0.05
_T = TypeVar("_T")
Waits = Callable[[], Callable[[], None]]
"""Is called when a wait for another process starts, and returns what is called when it ends."""
_logger = logging.getLogger("callability.gateway.upstream")


class StoreUnavailable(Exception):
    """A record cannot be read, written or locked; the text says why, and names no secret."""


class LockHeld(Exception):
    """Another process holds the lock of a server for too long."""


class Login(BaseModel):
    """What a person's authorization of one server gave: `metadata` and `resource` are what issuer and server said.

    `id` is another one after each authorization, and stays the same when tokens are renewed. `expires_at` is absolute,
    in seconds since 1970, since the tokens say only how long they last. `registered` says that the client is one that
    the gateway registered itself.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    version: Literal[1] = 1
    id: str = Field(default_factory=lambda: secrets.token_urlsafe(12))
    url: str
    issuer: str
    metadata: OAuthMetadata | None
    resource: ProtectedResourceMetadata | None
    redirect_uri: str
    client: OAuthClientInformationFull = Field(repr=False)
    registered: bool
    tokens: OAuthToken | None = Field(repr=False)
    expires_at: float | None


class _Marker(BaseModel):
    """What is in the file if the record is in the keyring."""

    id: str
    kept_in: Literal["keyring"]


class StoredLogin:
    """The record of one server, in a directory beside the config that no other user may read.

    It is written under the lock, whole or not at all. With `in_keyring`, only the id of the login is in its file, and
    the rest in the system's keyring.
    """

    def __init__(self, config: Path, server: str, *, in_keyring: bool = False) -> None:
        self.server = server
        self._directory = config.absolute().parent / DIRECTORY
        self._path = self._directory / f"{server}.json"
        self._entry = str(self._path)
        self._in_keyring = in_keyring

    def login_id(self) -> str:
        """Return the id of the login, empty if there is none."""
        with suppress(OSError, ValidationError):
            text = self._path.read_text()
            with suppress(ValidationError):
                return Login.model_validate_json(text).id
            return _Marker.model_validate_json(text).id
        return ""

    async def read(self) -> Login | None:
        """Return the record; None if there is none, or none that can be read.

        Raises:
            StoreUnavailable: it cannot be read for now.
        """
        try:
            text = await run_in_thread(self._path.read_text)
            with suppress(ValidationError):
                _Marker.model_validate_json(text)
                text = await self._in_ring(lambda ring: ring.get_password(KEYRING, self._entry)) or ""
            return Login.model_validate_json(text)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unavailable(self._path, error) from None
        except ValueError:
            words = "the stored login of `%s` cannot be read, and is ignored: `%s`"
            _logger.warning(words, self.server, self._path, extra=fields(server=self.server))
            return None

    async def write(self, login: Login) -> None:
        """Put a record in the place of the earlier one.

        Raises:
            StoreUnavailable: it cannot be written; the earlier one is as it was.
        """
        text = login.model_dump_json(exclude_none=True)
        if self._in_keyring:
            await self._in_ring(lambda ring: ring.set_password(KEYRING, self._entry, text))
            text = _Marker(id=login.id, kept_in="keyring").model_dump_json()
        try:
            await run_in_thread(lambda: self._put(text))
        except OSError as error:
            raise _unavailable(self._path, error) from None

    async def remove(self) -> bool:
        """Remove the record, and return whether there was one.

        Raises:
            StoreUnavailable: it cannot be removed.
        """
        if not self._path.exists():
            return False
        with suppress(OSError, ValidationError):
            _Marker.model_validate_json(self._path.read_text())
            await self._in_ring(self._forget)
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise _unavailable(self._path, error) from None
        return True

    @asynccontextmanager
    async def lock(self, seconds: float, waits: Waits | None = None) -> AsyncGenerator[None]:
        """Hold the lock of the server, which one process has at a time. `waits` is called if another one has it now.

        Raises:
            LockHeld: another process has it for so many seconds.
            StoreUnavailable: nothing can be locked here.
        """
        until = time.monotonic() + seconds
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            place = self._directory / f"{self.server}.lock"
            descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise _unavailable(self._directory, error) from None
        try:
            # The operating system ends the lock with its process, however that ends.
            is_locked = _is_locked(descriptor)
            waited = None if is_locked or waits is None else waits()
            while not is_locked:
                if time.monotonic() > until:
                    raise LockHeld
                await asyncio.sleep(LOOK_SECONDS)
                is_locked = _is_locked(descriptor)
            if waited is not None:
                waited()
            yield
        finally:
            os.close(descriptor)

    def _forget(self, ring: Any) -> None:
        if ring.get_password(KEYRING, self._entry) is not None:
            ring.delete_password(KEYRING, self._entry)

    def _put(self, text: str) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        # One name for every write: what a process that was killed left behind is overwritten.
        fresh = self._path.with_name(f".{self.server}.json.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(fresh, flags, 0o600), "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self._path)
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    async def _in_ring(self, work: Callable[[Any], _T]) -> _T:
        """Ask the keyring, off the event loop and with a deadline."""
        try:
            ring = importlib.import_module("keyring")
        except ImportError:
            raise StoreUnavailable(
                "`tokens: keyring` needs the package `keyring`: install `callability[keyring]`"
            ) from None
        try:
            async with asyncio.timeout(KEYRING_SECONDS):
                return await run_in_thread(lambda: work(ring))
        except TimeoutError:
            raise StoreUnavailable(f"the keyring did not answer within {KEYRING_SECONDS:g} s") from None
        except Exception as error:
            # Its text may hold what was to be stored.
            raise StoreUnavailable(f"the keyring refused ({type(error).__name__})") from None


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unavailable(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"`{path}`: {(error.strerror or 'error').lower()}")


async def run_in_thread(work: Callable[[], _T]) -> _T:
    """Run in a thread that is not waited for at the end of the process: a keyring may hang in it for ever."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(set_it: Callable[[Any], None], value: object) -> None:
        if not done.done():
            set_it(value)

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            outcome: tuple[Callable[[Any], None], object] = (done.set_exception, error)
        else:
            outcome = (done.set_result, result)
        # The loop may have ended since.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="stored login", daemon=True).start()
    return await done
