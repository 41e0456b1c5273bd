"""The `callability` command: it connects policy, service and gateway, which do not import each other."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]

_HELP = {"--help", "-h"}


def main() -> None:
    """Run the command that the arguments name, and exit with its exit code.

    A client starts `connect` once for each of its servers, and the reader of all other commands takes longer to import
    than `connect` takes to run. A service waits for the check of its policy, whose process imports beside it.
    """
    if sys.argv[1:2] == ["connect"]:
        from callability.connect.joining import connect_or_none  # noqa: PLC0415

        code = connect_or_none(sys.argv[2:])
        if code is not None:
            sys.stderr.flush()
            # A thread may still wait for a line of standard input, and would wait for ever.
            os._exit(code)
    if sys.argv[1:2] == ["serve"] and not _HELP & {*sys.argv}:
        from callability.files.policy_check import prepare_check  # noqa: PLC0415

        prepare_check()
    from callability.cli.application import main as run  # noqa: PLC0415

    run()
