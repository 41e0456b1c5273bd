"""Secrets in the keyring of the system, by the library `keyring`, which is installed only where somebody wants it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

SECONDS = 10.0
"""How long the keyring may take: it may wait for a person who unlocks it."""
_SERVICE = "callability"
_Value = TypeVar("_Value")
_read: dict[str, str] = {}
"""What was read: a config is read again at each edit, and the keyring need not be."""


class NoKeyring(Exception):
    """A keyring that cannot be used; the message is the end of a sentence, and has no secret."""


def keyring_value(account: str) -> str:
    """Return a secret.

    Raises:
        NoKeyring: there is no keyring, it does not answer, or it has no such secret.
    """
    if account not in _read:
        value = _wait_for_keyring(lambda: _library().get_password(_SERVICE, account))
        if value is None:
            raise NoKeyring("the keyring does not have it")
        _read[account] = value
    return _read[account]


def keep_in_keyring(account: str, value: str) -> None:
    """Store a secret.

    Raises:
        NoKeyring: there is no keyring, or it does not answer.
    """
    _wait_for_keyring(lambda: _library().set_password(_SERVICE, account, value))
    _read[account] = value


def remove_from_keyring(account: str) -> None:
    """Remove a secret, if the keyring has it.

    Raises:
        NoKeyring: there is no keyring, or it does not answer.
    """

    def remove() -> None:
        library = _library()
        if library.get_password(_SERVICE, account) is not None:
            library.delete_password(_SERVICE, account)

    _wait_for_keyring(remove)
    _read.pop(account, None)


def _library() -> Any:
    try:
        import keyring  # noqa: PLC0415
    except ImportError:
        raise NoKeyring("the package `keyring` is not installed") from None
    return keyring


def _wait_for_keyring(work: Callable[[], _Value]) -> _Value:
    """Return what the keyring answers; a thread that it holds up ends with the process."""
    done: Future[_Value] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:  # its backends raise errors of their own
            done.set_exception(error)

    Thread(target=run, name="keyring", daemon=True).start()
    try:
        return done.result(SECONDS)
    except NoKeyring:
        raise
    except TimeoutError:
        raise NoKeyring(f"the keyring did not answer within {SECONDS:g} s") from None
    except Exception as error:
        raise NoKeyring(f"the keyring cannot be used ({type(error).__name__})") from None
