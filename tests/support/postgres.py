"""A PostgreSQL server of its own, on a Unix socket in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)


def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs; None if they, or a user to run them, are missing."""
    found = next((path for path in _PLACES if (path / "initdb").exists()), None)
    return found if found and shutil.which("psql") and _user() is not None else None


def _user() -> str | None:
    """Return the user to run the server as, since it refuses to run as root; None if there is none."""
    if os.geteuid():
        return pwd.getpwuid(os.geteuid()).pw_name
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server."""

    socket: Path
    user: str

    def run(self, script: str) -> list[list[str]]:
        """Run a script of SQL, and return the rows that its queries print; NULL is printed as `NULL`."""
        options = ("-X", "-q", "-t", "-A", "-F", "\t", "-P", "null=NULL", "-v", "ON_ERROR_STOP=1")
        command = ["psql", *options, "-h", str(self.socket), "-U", self.user, "-d", "postgres"]
        found = subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=300)
        assert found.returncode == 0, found.stderr
        return [line.split("\t") for line in found.stdout.splitlines()]


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Start a server, and stop it at the end."""
    bin_directory, user = programs(), _user()
    assert bin_directory is not None
    assert user is not None
    # Not in the folder of a test: the path of a socket has at most 107 bytes.
    with TemporaryDirectory(prefix="pg-") as name:
        root = Path(name)
        data, log = root / "data", root / "log"
        if os.geteuid() == 0:
            shutil.chown(root, user)
        _run(user, root, [bin_directory / "initdb", "-D", data, "-U", user, "-A", "trust", "-E", "UTF8", "--no-sync"])
        control: list[str | Path] = [bin_directory / "pg_ctl", "-D", data, "-w", "-t", "300", "-l", log]
        options = f"-c listen_addresses='' -c unix_socket_directories='{root}' -c fsync=off"
        try:
            _run(user, root, [*control, "-o", options, "start"])
            yield Postgres(root, user)
        finally:
            _run(user, root, [*control, "-m", "immediate", "stop"])


def _run(user: str, directory: Path, command: list[str | Path]) -> None:
    """Run a program as a user; its output goes to a file, since a server that it starts keeps it open."""
    other = user if os.geteuid() == 0 else None
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    with (directory / "output").open("a+") as output:
        ended = subprocess.run(
            command,
            stdout=output,
            stderr=output,
            check=False,
            cwd=directory,
            env=environment,
            timeout=300,
            user=other,
            group=other,
            extra_groups=[] if other else None,
        )
        output.seek(0)
        assert ended.returncode == 0, output.read()
