"""Commands run in this process, for a twentieth of what a process of their own costs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager, nullcontext
from pathlib import Path
from subprocess import CompletedProcess

from typer.testing import CliRunner

from callability.cli.application import application
from support.running import callability_process

_SERVING = {"gateway", "serve", "studio"}
"""Commands that serve until a signal ends their process."""


def callability(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: int | None = None
) -> CompletedProcess[str]:
    """Run a command to its end, and return what it printed and its exit code.

    A command that would serve runs as a process.
    """
    if _serves(arguments):
        return callability_process(*arguments, cwd=cwd, env=env, stdin=stdin)
    with chdir(cwd) if cwd else nullcontext(), _environment(env), _logging_restored():
        return _outside_of_event_loops(lambda: _invoked(arguments))


def _serves(arguments: tuple[str, ...]) -> bool:
    return bool(_SERVING & {*arguments[:1]}) and not {"--check", "--help", "-h"} & {*arguments}


def _invoked(arguments: tuple[str, ...]) -> CompletedProcess[str]:
    result = CliRunner().invoke(
        application(arguments), [*arguments], catch_exceptions=False, prog_name="python -m callability"
    )
    return CompletedProcess([*arguments], result.exit_code, result.stdout, result.stderr)


def _outside_of_event_loops(work: Callable[[], CompletedProcess[str]]) -> CompletedProcess[str]:
    """Do the work in a thread if this one runs an event loop, since a command starts one of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(work).result()


@contextmanager
def _environment(env: Mapping[str, str] | None) -> Iterator[None]:
    """Let a command see these variables and no others."""
    before = dict(os.environ)
    try:
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        yield
    finally:
        if dict(os.environ) != before:
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def _logging_restored() -> Iterator[None]:
    """Give the root logger back its handlers and level, which a command replaces."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        for handler in {*root.handlers} - {*handlers}:
            root.removeHandler(handler)
        for handler in handlers:
            if handler not in root.handlers:
                root.addHandler(handler)
        root.setLevel(level)
        sys.stdout.flush()
