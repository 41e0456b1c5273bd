"""Has the system's manager of services start a user's gateway: units of systemd, or an agent of launchd."""

from __future__ import annotations

import os
import plistlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from callability.connect.joining import IDLE_SECONDS, MeetingPlace, NotJoined

_SOCKET = """\
[Unit]
Description=Socket of the callability gateway for {config}

[Socket]
ListenStream={socket}
SocketMode=0600
DirectoryMode=0700

[Install]
WantedBy=sockets.target
"""
_SERVICE = """\
[Unit]
Description=callability gateway for {config}
Requires={name}.socket

[Service]
ExecStart={command}
Environment={path}
StandardInput=socket
StandardOutput=journal
StandardError=journal
"""


class NotInstalled(Exception):
    """The system has no manager of services for users, or it refused; the text says which."""


class Installation:
    """The service of the gateway of a config; the default config has the plain name."""

    def __init__(self, config: Path, *, is_default: bool) -> None:
        self._place = MeetingPlace(str(config))
        digest = Path(self._place.socket).stem
        self.name = "callability" if is_default else f"callability-{digest}"
        self._command = [sys.executable, "-P", "-m", "callability", "gateway", "--config", self._place.config]
        self._command += ["--transport", "unix", "--wait-for-config"]

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that describe the service to its manager."""
        if sys.platform == "darwin":
            return (Path.home() / "Library" / "LaunchAgents" / f"dev.{self.name}.plist",)
        units = Path.home() / ".config" / "systemd" / "user"
        return units / f"{self.name}.socket", units / f"{self.name}.service"

    def install(self) -> None:
        """Write the files of the service, and have it started when an agent joins, or at once by launchd.

        Raises:
            NotInstalled: there is no manager of services for users, it refused, or a gateway runs already.
            OSError: a file cannot be written.
        """
        _check_manager()
        self._check_free()
        for path, content in zip(self.files, self._contents(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if sys.platform == "darwin":
            _manage("launchctl", "bootstrap", f"gui/{os.getuid()}", str(self.files[0]))
            return
        _manage("systemctl", "--user", "daemon-reload")
        _manage("systemctl", "--user", "enable", "--now", f"{self.name}.socket")

    def uninstall(self) -> bool:
        """Stop the service and remove its files; return whether there were any.

        Raises:
            NotInstalled: there is no manager of services for users, or it refused.
            OSError: a file cannot be removed.
        """
        there = [path for path in self.files if path.exists()]
        if not there:
            return False
        _check_manager()
        if sys.platform == "darwin":
            _manage("launchctl", "bootout", f"gui/{os.getuid()}", str(self.files[0]))
        else:
            _manage("systemctl", "--user", "disable", "--now", f"{self.name}.socket", f"{self.name}.service")
        for path in there:
            path.unlink()
        if sys.platform != "darwin":
            _manage("systemctl", "--user", "daemon-reload")
        return True

    def _check_free(self) -> None:
        """Check that no gateway runs that was started on demand: each server would run twice.

        Raises:
            NotInstalled: one does.
        """
        if any(path.exists() for path in self.files):
            return
        try:
            self._place.make_folder()
            connection = self._place.connect()
        except NotJoined as error:
            raise NotInstalled(str(error)) from error
        if connection is not None:
            connection.close()
            raise NotInstalled("a gateway of this config runs already; end the clients that joined it, and then itself")

    def _contents(self) -> tuple[bytes, ...]:
        if sys.platform == "darwin":
            agent = {
                "Label": f"dev.{self.name}",
                "ProgramArguments": self._command,
                "EnvironmentVariables": {"PATH": os.environ.get("PATH", os.defpath)},
                "RunAtLoad": True,
                "KeepAlive": {"SuccessfulExit": False},
                "StandardErrorPath": self._place.log,
            }
            return (plistlib.dumps(agent),)
        config = _unit_text(self._place.config)
        command = " ".join(map(_unit_word, (*self._command, "--idle-seconds", str(IDLE_SECONDS))))
        path = _unit_word(f"PATH={os.environ.get('PATH', os.defpath)}")
        units = (
            _SOCKET.format(config=config, socket=_unit_text(self._place.socket)),
            _SERVICE.format(config=config, name=self.name, command=command, path=path),
        )
        return tuple(unit.encode("utf-8", "surrogateescape") for unit in units)


def _unit_text(text: str) -> str:
    """Return a text as a unit of systemd has it, in which `%` begins a specifier."""
    return text.replace("%", "%%")


def _unit_word(text: str) -> str:
    """Return a word of a command in a unit: `$` begins a variable there."""
    quoted = _unit_text(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{quoted}"'


def _check_manager() -> None:
    """Check that a manager of services for users runs.

    Raises:
        NotInstalled: none does.
    """
    command = ("launchctl", "version") if sys.platform == "darwin" else ("systemctl", "--user", "show-environment")
    try:
        _manage(*command)
    except NotInstalled as error:
        why = "this system has no manager of services for users that answers"
        raise NotInstalled(f"{why} ({error}); the gateway is started on demand, which needs no installation") from error


def _manage(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotInstalled(f"`{command[0]}` cannot be run: {(error.strerror or 'error').lower()}") from error
    if done.returncode:
        said: Sequence[str] = done.stderr.strip().splitlines() or ("it said nothing",)
        raise NotInstalled(f"`{' '.join(command)}` failed: {said[-1]}")
