"""Standard streams that are closed or full: what a command could not say is one line, and exit code 1.

A stream that is closed when the process starts has no descriptor. The first file that is opened would get its number,
and what is written to the stream, here or in a child process, would go into that file.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, TextIO

_INPUT, _OUTPUT, _ERRORS = range(3)


class _Written(io.FileIO):
    """A standard stream that keeps the first error of writing to it, whatever becomes of the exception."""

    fault: OSError | None = None

    def write(self, data: object, /) -> int | None:  # type: ignore[override]  # what a buffer hands over
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            # A reader that has what it wanted, such as `head`, has closed the pipe.
            if error.errno != errno.EPIPE:
                self.fault = self.fault or error
            raise


_written: dict[int, _Written] = {}
"""Standard output and standard error, once they are guarded."""


def run_guarded(command: Callable[[], object]) -> NoReturn:
    """Run a command, and exit with its exit code, or with 1 if a standard stream could not be written."""
    if sys.stdin is None:
        sys.stdin = open(_open_null(_INPUT, os.O_RDONLY), encoding="utf-8", closefd=False)  # noqa: SIM115  # until the end
    # Nothing can be written to a descriptor for reading, as nothing could be to the stream that is closed.
    sys.stdout = _guard_stream(_OUTPUT, sys.stdout, os.O_RDONLY)
    # Nobody wants to see what is written here.
    sys.stderr = _guard_stream(_ERRORS, sys.stderr, os.O_WRONLY)
    try:
        command()
        code: object = 0
    except SystemExit as left:
        code = left.code
    except BaseException:
        if not final_exit_code(0):
            raise
        code = 1
    if not isinstance(code, int | None):
        raise SystemExit(code)
    raise SystemExit(final_exit_code(code or 0))


def final_exit_code(code: int) -> int:
    """Write what is left in the standard streams, and return an exit code: 1 if that or something before failed.

    What standard output could not take is said on standard error, once.
    """
    for stream in (sys.stdout, sys.stderr) if _written else ():
        with suppress(OSError):
            stream.flush()
    faults = {number: written.fault for number, written in _written.items() if written.fault}
    for number in faults:
        # What is still in the buffer is lost: Python would try again at its end, and complain.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, _written[number].fileno())
        os.close(null)
        _written[number].fault = None
    if (fault := faults.get(_OUTPUT)) and _ERRORS not in faults:
        with suppress(OSError):
            print(f"callability: {_fault_text(fault)}", file=sys.stderr, flush=True)
    return 1 if faults else code


def _fault_text(fault: OSError) -> str:
    if fault.errno == errno.EBADF:
        return "standard output is closed, and what was to be printed is lost"
    return f"standard output cannot be written: {(fault.strerror or 'error').lower()}"


def _guard_stream(number: int, stream: TextIO | None, flags: int) -> TextIO:
    descriptor = _open_null(number, flags) if stream is None else stream.fileno()
    written = _written[number] = _Written(descriptor, "w", closefd=False)
    buffered = io.BufferedWriter(written)
    if stream is None:
        return io.TextIOWrapper(buffered, encoding="utf-8", errors="backslashreplace", line_buffering=True)
    stream.flush()
    assert isinstance(stream, io.TextIOWrapper)
    return io.TextIOWrapper(
        buffered,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )


def _open_null(number: int, flags: int) -> int:
    """Open the null device, which has the number of the stream that is closed, and child processes have it too."""
    descriptor = os.open(os.devnull, flags)
    if descriptor <= _ERRORS:
        os.set_inheritable(descriptor, True)
    return descriptor
