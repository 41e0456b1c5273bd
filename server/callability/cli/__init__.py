"""The `callability` command: it connects policy, service and gateway, which do not import each other."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]

_HELP = {"--help", "-h"}
CHECK_MODULE = "callability.compiler.check_worker"
"""What checks a policy, as `files.policy_check` names it, which needs more than the base installation has."""


INTERRUPTED = 130
"""The exit code after SIGINT, as shells number it."""


def main() -> None:
    """Run the command that the arguments name, and exit with its exit code: also if it is interrupted at its start."""
    try:
        _run_command()
    except KeyboardInterrupt:
        # It came while modules were imported: a command that runs exits by itself.
        sys.exit(INTERRUPTED)


def _run_command() -> None:
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
        prepare_check()
    from callability.cli.application import main as run  # noqa: PLC0415

    run()


def prepare_check() -> None:
    """Start the process of the next check, which imports what it needs while this one does."""
    from callability.process.child import start_early  # noqa: PLC0415  # other commands need it later or never

    start_early(CHECK_MODULE)
