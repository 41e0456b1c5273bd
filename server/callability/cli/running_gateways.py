"""The gateways that run on this machine for this user, and the questions that a command asks one of them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import typer

from callability.cli.options import leave
from callability.cli.terminal import escape
from callability.contract.finding import as_code
from callability.gateway.config import ConfigRefused, NoConfig, default_config
from callability.gateway.config.config import socket_directories

ANSWER_SECONDS = 30.0
_MAX_LINE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A connection to a running gateway; `about` is what it says of itself."""

    about: Mapping[str, Any]
    connection: socket.socket
    reader: IO[bytes]

    @property
    def pid(self) -> int:
        """The id of its process."""
        return int(self.about["pid"])

    @property
    def config(self) -> Path:
        """Its config file."""
        return Path(self.about["config"])

    def ask(self, **question: Any) -> dict[str, Any]:
        """Return the answer to the only question of a command, or exit with code 1 or 2 if there is none."""
        try:
            self.connection.sendall(json.dumps(question).encode() + b"\n")
            answer = _object_in(self.reader)
        except (OSError, ValueError, TypeError):
            leave(f"gateway {self.pid} gave no answer: ask again, or read the files alone by `--files`", 1)
        finally:
            self.close()
        if error := answer.get("error"):
            leave(f"gateway {self.pid}: {escape(str(error))}", 1 if answer.get("kind") == "policy" else 2)
        return answer

    def close(self) -> None:
        """Disconnect."""
        self.reader.close()
        self.connection.close()


def chosen_gateway(config: Path | None, agent: str | None, pid: int | None) -> RunningGateway | None:
    """Return the gateway that a call means, or None if none runs; exit with code 2 if several match.

    Without a config, it is one with the default config; if there is no default config, it may be any.
    """
    running = [*_running_gateways()]
    wanted = config or _default_config()
    matching = [
        gateway
        for gateway in running
        if gateway.pid == pid
        or (
            pid is None
            and (wanted is None or _is_same(gateway.config, wanted))
            and (agent is None or gateway.about.get("agent") in ("", agent))
        )
    ]
    for gateway in running:
        if len(matching) != 1 or gateway is not matching[0]:
            gateway.close()
    if pid is not None and not matching:
        leave(f"no gateway of this user runs as process {pid}{_listed(running)}", 2)
    if len(matching) > 1:
        leave(f"several gateways match: name one by `--gateway PID`{_listed(matching)}", 2)
    return matching[0] if matching else None


def _running_gateways() -> Iterator[RunningGateway]:
    """Yield the gateways of this user that answer; sockets that a gateway left behind are removed."""
    for directory in socket_directories():
        for path in sorted(directory.glob("*.sock")):
            gateway = _connected(path)
            if gateway is not None:
                yield gateway


def _connected(path: Path) -> RunningGateway | None:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(ANSWER_SECONDS)
    try:
        if path.lstat().st_uid != os.geteuid():
            raise PermissionError(path)
        connection.connect(str(path))
        reader = connection.makefile("rb")
        about = _object_in(reader)
        about |= {"pid": int(about["pid"]), "config": str(about["config"])}
    except ConnectionRefusedError:
        connection.close()
        with suppress(OSError):
            path.unlink()
        return None
    except (OSError, ValueError, TypeError, KeyError):
        connection.close()
        typer.echo(f"callability: what listens on {as_code(str(path))} does not answer as a gateway", err=True)
        return None
    return RunningGateway(about, connection, reader)


def _object_in(reader: IO[bytes]) -> dict[str, Any]:
    """Return the object in the next line.

    Raises:
        ValueError, TypeError: there is none.
    """
    return dict(json.loads(reader.readline(_MAX_LINE)))


def _default_config() -> Path | None:
    try:
        return default_config()
    except (NoConfig, ConfigRefused):
        return None


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _listed(gateways: Sequence[RunningGateway]) -> str:
    """Return the lines that list gateways; empty if there are none."""
    return "".join(
        f"\n  {each.pid}: config {escape(str(each.config))}, started {escape(str(each.about.get('started')))}, "
        + (f"agent {as_code(str(each.about['agent']))}" if each.about.get("agent") else "every agent")
        for each in gateways
    )
