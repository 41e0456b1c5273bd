"""h2load of Debian's `nghttp2-client`: a load generator in C, which leaves the server most of two cores."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

NAME = "h2load"
_PROGRAM = shutil.which(NAME)
_TIME_LIMIT = 60.0
_FRAME = struct.Struct(">BI")
_SUMMARY = re.compile(
    r"finished in .*?, (?P<rate>[\d.]+) req/s.*?, (?P<succeeded>\d+) succeeded.*\((?P<bytes>\d+)\) data", re.DOTALL
)


def installed() -> bool:
    """Whether the program is there."""
    return _PROGRAM is not None


def calls_per_second(
    address: str, path: str, request: bytes, reply: bytes, *, calls: int, connections: int, streams: int
) -> float:
    """Send a request so often, in as many streams of as many connections, and return how many were answered a second.

    Raises:
        RuntimeError: a reply had another size than is expected, an error for example.
        subprocess.SubprocessError: the program failed, or did not end in time.
    """
    return _run(address, path, request, reply, calls, ("-c", str(connections), "-m", str(streams)))


def round_trips(address: str, path: str, request: bytes, reply: bytes, *, calls: int) -> list[float]:
    """Send a request so often, one at a time, and return the round trips in seconds.

    Raises:
        RuntimeError: a reply had another size than is expected, an error for example.
        subprocess.SubprocessError: the program failed, or did not end in time.
    """
    with tempfile.NamedTemporaryFile() as log:
        _run(address, path, request, reply, calls, ("--log-file", log.name))
        return [int(line.split("\t")[2]) / 1e6 for line in Path(log.name).read_text().splitlines()]


def _run(address: str, path: str, request: bytes, reply: bytes, calls: int, options: tuple[str, ...]) -> float:
    if _PROGRAM is None:
        raise RuntimeError(f"`{NAME}` is not installed")
    headers = ("-H", "content-type: application/grpc", "-H", "te: trailers")
    with tempfile.NamedTemporaryFile() as body:
        body.write(_FRAME.pack(0, len(request)) + request)
        body.flush()
        command = (_PROGRAM, "-n", str(calls), "-d", body.name, *headers, *options, f"http://{address}{path}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIME_LIMIT, check=True)
    summary = _SUMMARY.search(done.stdout)
    # An error of gRPC has HTTP status 200 too: only its size distinguishes it from an answer.
    if not summary or int(summary["succeeded"]) != calls or int(summary["bytes"]) != calls * (_FRAME.size + len(reply)):
        raise RuntimeError(f"not every call was answered as expected:\n{done.stdout}")
    return float(summary["rate"])
