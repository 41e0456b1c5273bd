"""`callability connect`: passes what a client and the user's gateway say to each other, and starts the gateway.

It is the process that a client starts and waits for, once for each client: it imports the standard library alone, and
of that as little as it needs.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

from callability.connect.meeting_place import PROTOCOL, MeetingPlace, NotJoined, default_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

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
        command += ["--transport", "unix", "--idle-seconds", str(IDLE_SECONDS)]
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
