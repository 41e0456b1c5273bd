"""Where the processes of a user meet the user's gateway: a socket for each config, in a folder of the user's own.

A client starts a process for each of its servers, and waits for it: nothing is imported here that takes long.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import stat
import struct
import sys

PROTOCOL = "callability 1"
"""The first line of what a process says that joins a gateway."""
MAX_PATH = 103
"""Bytes in the path of a Unix socket: macOS has the lower limit."""
_FOLDER = os.path.join(".local", "state", "callability", "run")
_MACOS_LOCAL, _MACOS_PEER, _MACOS_PEER_PROCESS = 0, 1, 2
"""`SOL_LOCAL`, `LOCAL_PEERCRED` and `LOCAL_PEERPID`, which Python does not name."""


class NotJoined(Exception):
    """There is no gateway to join; the text says why, and what to do."""


class MeetingPlace:
    """The place of the gateway of one config; the folder depends on the home directory alone.

    A client passes few variables of its environment on, and all clients of a user have to meet.
    """

    def __init__(self, config: str) -> None:
        self.config = os.path.realpath(config)
        name = hashlib.sha256(os.fsencode(self.config)).hexdigest()[:12]
        self.folder = os.path.join(os.path.expanduser("~"), _FOLDER)
        self.socket = os.path.join(self.folder, f"{name}.sock")
        self.log = os.path.join(self.folder, f"{name}.log")
        self._lock = os.path.join(self.folder, f"{name}.lock")

    def make_folder(self) -> None:
        """Create the folder if it is missing, and check that nobody else can reach into it.

        Raises:
            NotJoined: it is not the user's own, or cannot be created.
        """
        try:
            os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            if not os.path.lexists(self.folder):
                os.mkdir(self.folder, 0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise NotJoined(f"`{self.folder}` cannot be created: {(error.strerror or 'error').lower()}") from error
        status = os.lstat(self.folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            why = "it must be a folder of this user that nobody else can enter"
            raise NotJoined(f"`{self.folder}` is not used: {why}; set its mode to 0700")
        if len(os.fsencode(self.socket)) > MAX_PATH:
            raise NotJoined(f"the path of a socket has at most {MAX_PATH} bytes: `{self.socket}` is longer")

    def lock(self) -> int:
        """Wait until no other process starts the gateway, and return what holds the lock until it is closed."""
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def connect(self) -> socket.socket | None:
        """Return a connection to what listens at the socket; None if nothing does.

        Raises:
            NotJoined: another user listens there.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(self.socket)
        except (ConnectionRefusedError, FileNotFoundError):
            connection.close()
            return None
        except OSError as error:
            connection.close()
            raise NotJoined(f"`{self.socket}` cannot be joined: {(error.strerror or 'error').lower()}") from error
        if peer_user(connection) != os.getuid():
            connection.close()
            raise NotJoined(f"`{self.socket}` is not joined: another user listens there")
        return connection

    def listen(self) -> socket.socket:
        """Return a socket that listens here, in the place of one that nobody listens on; the lock has to be held."""
        if os.path.lexists(self.socket):
            os.unlink(self.socket)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            listener.bind(self.socket)
        finally:
            os.umask(mask)
        listener.listen(socket.SOMAXCONN)
        return listener


def peer_user(connection: socket.socket) -> int:
    """Return the id of the user at the other end of a connection: of the process that called `connect` or `listen`."""
    if hasattr(socket, "SO_PEERCRED"):
        return int(struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])
    return int(struct.unpack("2I", connection.getsockopt(_MACOS_LOCAL, _MACOS_PEER, 8))[1])


def peer_process(connection: socket.socket) -> int:
    """Return the id of the process at the other end of a connection."""
    if hasattr(socket, "SO_PEERCRED"):
        return int(struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
    return int(struct.unpack("i", connection.getsockopt(_MACOS_LOCAL, _MACOS_PEER_PROCESS, 4))[0])


def default_config() -> str | None:
    """Return the config that is used if none is named; None if there is none, or more than one."""
    named = os.environ.get("CALLABILITY_CONFIG", "")
    if named:
        return named if os.path.isabs(named) else None
    support = os.path.join(os.path.expanduser("~"), "Library", "Application Support")
    moved = os.environ.get("XDG_CONFIG_HOME", "")
    usual = os.path.join(os.path.expanduser("~"), ".config")
    folder = support if sys.platform == "darwin" else moved if os.path.isabs(moved) else usual
    there = [os.path.join(folder, "callability", name) for name in ("gateway.yaml", "gateway.json")]
    there = [path for path in there if os.path.lexists(path)]
    return there[0] if len(there) == 1 else None
