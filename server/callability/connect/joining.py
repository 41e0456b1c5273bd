"""`callability connect`: where the processes of a user meet the user's gateway, and how a client joins or starts it.

A socket for each config is in a folder of the user's own. A client starts a process for each of its servers, and waits
for it: it imports the standard library alone, and of that as little as it needs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import stat
import struct
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

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


IDLE_SECONDS = 600
"""For how long a gateway that was started on demand waits for another agent."""
TRIES = 5
"""How often a gateway is joined that ends meanwhile, because nobody used it."""
_CHUNK = 1 << 16
_LOG_BYTES = 4_000


class JoinRefused(NotJoined):
    """The gateway does not let this agent join."""


class JoinedGateway:
    """A connection to the gateway, which said yes."""

    def __init__(self, connection: socket.socket, words: str) -> None:
        self.connection = connection
        self.words = words
        """What it said beside yes."""


def connect_or_none(arguments: list[str]) -> int | None:
    """Run the command by its arguments, and return its exit code; None if they need the command line's own reader."""
    given = {"--agent": "", "--config": default_config() or ""}
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for name, value in zip(words[::2], words[1::2], strict=False):
        if name not in given or value.startswith("-"):
            return None
        given[name] = value
    if len(words) % 2 or not given["--config"]:
        return None
    return join_for_client(given["--agent"], given["--config"])


def join_for_client(agent: str, config: str) -> int:
    """Join the gateway of a config for the client at the standard streams, and return the exit code at its end."""
    try:
        joined = join(MeetingPlace(config), f"agent {agent}")
    except NotJoined as error:
        print(f"callability: {error}", file=sys.stderr)
        return 2 if isinstance(error, JoinRefused) else 1
    return _pass_on(joined.connection)


def join(place: MeetingPlace, request: str) -> JoinedGateway:
    """Join the gateway at a place with a request, which starts the gateway if there is none.

    Raises:
        NotJoined: there is none and none can be started, or it refuses.
    """
    if "\n" in request or "\n" in place.config:
        raise NotJoined("the name of an agent, and the path of a config, have no line breaks")
    place.make_folder()
    for _ in range(TRIES):
        connection, process = place.connect(), None
        if connection is None:
            connection, process = _start(place)
        answer = _ask(connection, f"{PROTOCOL}\nconfig {place.config}\n{request}\n\n")
        if answer.startswith("yes"):
            return JoinedGateway(connection, answer.removeprefix("yes").strip())
        connection.close()
        if answer.startswith("no "):
            raise JoinRefused(answer.removeprefix("no ").strip())
        if process is not None and process.wait():
            raise NotJoined(f"the gateway did not start; its log, `{place.log}`, ends with:\n{_end_of(place.log)}")
    raise NotJoined(f"the gateway ended {TRIES} times while it was joined; see its log, `{place.log}`")


def _start(place: MeetingPlace) -> tuple[socket.socket, Popen[bytes] | None]:
    """Return a connection to the gateway, and its process if it was started here: one process of several starts it."""
    from subprocess import Popen  # noqa: PLC0415  # the first client alone needs it

    lock = place.lock()
    try:
        connection = place.connect()
        if connection is not None:
            return connection, None
        command = [sys.executable, "-P", "-m", "callability", "gateway", "--config", place.config]
        command += ["--transport", "unix", "--idle-seconds", str(IDLE_SECONDS), "--wait-for-config"]
        log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # The gateway is given the listening socket: what connects from now on waits in it until it is served.
        home = os.path.expanduser("~")
        with place.listen() as listener, open(log, "wb") as errors, open(os.devnull, "wb") as nowhere:
            process = Popen(
                command, stdin=listener.fileno(), stdout=nowhere, stderr=errors, cwd=home, start_new_session=True
            )
            connection = place.connect()
        if connection is None:
            raise NotJoined(f"the gateway did not start; its log, `{place.log}`, ends with:\n{_end_of(place.log)}")
        return connection, process
    finally:
        os.close(lock)


def _ask(connection: socket.socket, request: str) -> str:
    """Return the line that answers a request; empty if the gateway ended before it answered."""
    answer = b""
    try:
        connection.sendall(request.encode("utf-8", "surrogateescape"))
        # Byte by byte: what follows the line is for the client.
        while not answer.endswith(b"\n"):
            byte = connection.recv(1)
            if not byte:
                return ""
            answer += byte
    except ConnectionError:
        return ""
    return answer.decode("utf-8", "replace").rstrip("\n")


def _end_of(log: str) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - _LOG_BYTES))
        return file.read().decode("utf-8", "replace").strip()


def _pass_on(connection: socket.socket) -> int:
    """Pass bytes on in both directions until one end closes, and return the exit code: 0 if it was the client."""
    client_ended = threading.Event()

    def pass_requests() -> None:
        try:
            while data := os.read(0, _CHUNK):
                connection.sendall(data)
        except OSError:
            # The gateway is gone: the other direction reports it.
            return
        client_ended.set()
        try:
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            return

    threading.Thread(target=pass_requests, daemon=True).start()
    try:
        while data := connection.recv(_CHUNK):
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
    except BrokenPipeError:
        return 0
    except ConnectionError:
        pass
    if client_ended.is_set():
        return 0
    print("callability: the gateway ended; start this client's connection again", file=sys.stderr)
    return 1
