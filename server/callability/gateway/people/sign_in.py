"""Signing in to the page: by a code that is shown on a terminal, and that no process reads from it."""

from __future__ import annotations

import hmac
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

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
