"""A progress bar for deciding combinations, if standard error is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from callability.policy.deciding.engine_process import OnProgress


@contextmanager
def progress_bar() -> Iterator[OnProgress]:
    """Yield a callback for combinations that are decided; the bar vanishes at the end of the block."""
    if not sys.stderr.isatty():
        yield lambda decided, of: None
        return
    # Where nobody looks at it, it need not be imported.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("deciding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, lock, total = bar.add_task("deciding", total=0), Lock(), 0

        def advance(decided: int, of: int) -> None:
            nonlocal total
            with lock:
                total += of
                bar.update(task, advance=decided, total=total)

        yield advance
