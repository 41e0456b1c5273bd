"""The Unix socket on which the gateway of a user is joined."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from callability.connect.meeting_place import MeetingPlace, NotJoined
from callability.process.address import AddressRefused


@dataclass(frozen=True, slots=True)
class UserSocket:
    """Where the gateway of a config is joined, and for how long it waits for another agent; 0: for ever."""

    config: Path
    idle_seconds: float = 0

    def listen(self) -> socket.socket:
        """Return the socket that standard input is, or one that listens at the meeting place.

        Raises:
            AddressRefused: a gateway of this config runs already, or the place is not safe.
        """
        if stat.S_ISSOCK(os.fstat(0).st_mode):
            inherited = socket.socket(fileno=os.dup(0))
            if inherited.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return inherited
            inherited.close()
            raise AddressRefused("standard input is a socket that does not listen; `--transport unix` needs one")
        place = MeetingPlace(str(self.config))
        try:
            place.make_folder()
            lock = place.lock()
            try:
                there = place.connect()
                if there is None:
                    return place.listen()
                there.close()
            finally:
                os.close(lock)
        except NotJoined as error:
            raise AddressRefused(str(error)) from error
        raise AddressRefused(f"a gateway of this config runs already: it listens on `{place.socket}`")
