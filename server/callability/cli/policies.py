"""The policies that a command works on: compiled with a progress bar, compared, and checked at each edit."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Annotated

import typer

from callability.cli.options import leave, print_findings, refuse
from callability.compiler.confirmation import OnProgress
from callability.compiler.policy import Check, Policy, rules_at
from callability.compiler.question import Question
from callability.compiler.questions import CALLABILITY, QUESTIONS
from callability.compiler.schema import schema_of_rules, schema_of_tests
from callability.contract.finding import as_code, did_you_mean, finding_lines
from callability.files.policy_origin import PolicyOrigin
from callability.files.policy_source import PolicySource
from callability.files.shipped_policy import shipped_policy
from callability.process.regular_file import OutputRefused, output_to


def view_policy(path: Path | None) -> Policy:
    """Return the policy in a directory or a bundle to look at its rules, with warnings about them on standard error.

    Its tests are not read, and its diagrams are not confirmed. A policy that is refused exits with code 1.
    """
    policy = accept_policy(rules_at(path or shipped_policy()))
    print_findings(policy.warnings)
    return policy


def accept_policy(check: Check) -> Policy:
    """Return the policy of a check, or print the findings that refuse it and exit with code 1."""
    if check.policy is None:
        refuse(check.findings, "the policy is refused")
    return check.policy


GIT_SECONDS = 30


def policy_pair(old: str, new: Path | None) -> tuple[Policy, Policy]:
    """Return an older and a newer policy, which no engine has confirmed, or leave.

    Args:
        old: the directory of a policy, a bundle with rule files, or a git revision of the newer one.
        new: the directory of a policy, or a bundle with rule files; None: the shipped one.

    Raises:
        SystemExit: 1 if a policy is refused; 2 if `old` is neither a directory nor a revision.
    """
    directory = new or shipped_policy()
    with _directory(old, directory) as before:
        return _load_without_tests(before, old), _load_without_tests(directory, str(directory))


def _load_without_tests(directory: Path, name: str) -> Policy:
    """Return the policy at a path without its tests, which a change may well break; or exit with code 1."""
    check = rules_at(directory)
    if check.policy is None:
        for each in finding_lines(check.findings):
            typer.echo(each if directory == Path(name) else each.replace(str(directory), name), err=True)
        leave(f"the policy {as_code(name)} is refused", 1)
    return check.policy


@contextmanager
def _directory(old: str, new: Path) -> Iterator[Path]:
    """Yield a directory or a bundle as it is, or what a revision of git has in the place of the new one."""
    if Path(old).exists() or Path(old).suffix == ".bundle":
        yield Path(old)
        return
    with TemporaryDirectory(prefix="callability-diff-") as temporary:
        for name in _git(new, old, "ls-tree", "--name-only", "-z", old, "./").split(b"\0"):
            if name.endswith((b".yaml", b".yml")):
                file = name.decode()
                (Path(temporary) / Path(file).name).write_bytes(_blob(new, old, file))
        yield Path(temporary)


def _blob(directory: Path, revision: str, file: str) -> bytes:
    """Return what a file of a revision holds, or the file that it is a link to."""
    found = _git(
        *(directory, revision, "cat-file", "--batch", "--follow-symlinks"), given=f"{revision}:./{file}\n".encode()
    )
    head, _, data = found.partition(b"\n")
    found_as = head.split()
    if len(found_as) != 3 or found_as[1] != b"blob":
        leave(f"{as_code(file)} of {as_code(revision)} is a link to what is no file of the repository", 1)
    return data[: int(found_as[2])]


def _git(directory: Path, revision: str, *arguments: str, given: bytes = b"") -> bytes:
    if revision.startswith("-"):
        leave(f"{as_code(revision)} is neither a directory nor a revision", 2)
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        leave(f"{as_code(revision)} is not a directory, and git cannot be asked for it: {type(error).__name__}", 2)
    if done.returncode:
        leave(f"{as_code(revision)} is neither a directory, nor a revision of git that has `{directory}`", 2)
    return done.stdout


WatchOption = Annotated[
    bool,
    typer.Option("--watch", help="Repeat after each edit, until SIGINT or SIGTERM. The last run gives the exit code."),
]


def watch_policy(origin: PolicyOrigin, act: Callable[[PolicySource], bool]) -> bool:
    """Act on a policy now and after each edit until SIGINT or SIGTERM, and return the last result."""
    # Most calls watch nothing, and need not wait for these imports.

    from callability.files.watching import looks  # noqa: PLC0415

    came_of_it = False

    async def follow() -> None:
        nonlocal came_of_it
        seen = None
        async for _ in looks(origin.watched_paths):
            written = origin.source()
            if written.digest != seen:
                seen = written.digest
                came_of_it = act(written)

    async def until_stopped() -> None:
        following = asyncio.create_task(follow())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, following.cancel)
        await asyncio.wait({following})
        if not following.cancelled():
            following.result()

    asyncio.run(until_stopped())
    return came_of_it


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


QuestionArgument = Annotated[str, typer.Argument(metavar="QUESTION", help=f"The question: {', '.join(QUESTIONS)}.")]


def rules(question: QuestionArgument = CALLABILITY.name) -> None:
    """Print the JSON Schema of a rule file, with the facts, statuses and placeholders of this version.

    Exit code 0: printed. 2: there is no such question.
    """
    typer.echo(json.dumps(schema_of_rules(known_question(question)), indent=2))


def cases(question: QuestionArgument = CALLABILITY.name) -> None:
    """Print the JSON Schema of the tests beside a rule file.

    Exit code 0: printed. 2: there is no such question.
    """
    typer.echo(json.dumps(schema_of_tests(known_question(question)), indent=2))


def every(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory to write to; it is created if needed.")
    ],
) -> None:
    """Write the JSON Schemas of all rule files and their tests to a directory, under the names of the shipped ones.

    Existing files are overwritten. Exit code 0: written. 1: they cannot be written.
    """
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, question in QUESTIONS.items():
            for file, schema in ((name, schema_of_rules(question)), (f"{name}_test", schema_of_tests(question))):
                path = directory / f"{file}.schema.json"
                with output_to(path) as stream:
                    stream.write(f"{json.dumps(schema, indent=2)}\n".encode())
                written.append(path)
    except OutputRefused as error:
        leave(str(error), 1)
    except OSError as error:
        leave(f"`{error.filename}` cannot be written: {(error.strerror or 'error').lower()}", 1)
    for path in written:
        typer.echo(str(path))


def known_question(name: str) -> Question:
    """Return the question of a name, or exit with code 2."""
    if name not in QUESTIONS:
        leave(f"unknown question {as_code(name)} ({did_you_mean(name, QUESTIONS)})", 2)
    return QUESTIONS[name]
