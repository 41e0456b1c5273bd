"""Two policies to compare: an older one, which may be a git revision of the newer one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from callability.command_line.options import leave
from callability.files.shipped_policy import shipped_policy
from callability.finding import finding_lines, shown
from callability.policy.loading import Policy, rules_at

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
        return _loaded(before, old), _loaded(directory, str(directory))


def _loaded(directory: Path, name: str) -> Policy:
    """Return the policy at a path without its tests, which a change may well break; or exit with code 1."""
    check = rules_at(directory)
    if check.policy is None:
        for each in finding_lines(check.findings):
            typer.echo(each if directory == Path(name) else each.replace(str(directory), name), err=True)
        leave(f"the policy {shown(name)} is refused", 1)
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
        leave(f"{shown(file)} of {shown(revision)} is a link to what is no file of the repository", 1)
    return data[: int(found_as[2])]


def _git(directory: Path, revision: str, *arguments: str, given: bytes = b"") -> bytes:
    if revision.startswith("-"):
        leave(f"{shown(revision)} is neither a directory nor a revision", 2)
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        leave(f"{shown(revision)} is not a directory, and git cannot be asked for it: {type(error).__name__}", 2)
    if done.returncode:
        leave(f"{shown(revision)} is neither a directory, nor a revision of git that has `{directory}`", 2)
    return done.stdout
