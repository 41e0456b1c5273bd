"""What the soak says to its callers."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from soak.control import drop_connections


def test_dropped_connections_leave_no_descriptor_behind(tmp_path: Path) -> None:
    """However often: what is left would be copied at each drop, until the process has no descriptor."""
    with socket.create_server(("127.0.0.1", 0)) as server, (tmp_path / "file").open("wb"):
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as connection, server.accept()[0] as accepted:
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(3):
                drop_connections([f"127.0.0.1:{port}"])
            assert len(os.listdir("/proc/self/fd")) == before
            assert connection.recv(1) == accepted.recv(1) == b""
