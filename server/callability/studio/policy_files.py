"""The files of a policy for an editor: their texts, with digests that show whether they changed on disk.

Errors that the page shows.

PageError
├── Superseded       a newer draft is being analysed
├── NotChecked       there is no draft to ask about
├── TooSlow          a task took too long
├── Failed           the analysis process ended
├── BadRequest       a request is malformed
├── RequestTooLarge  a request is over the limit
└── NotSaved         a file was not written
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from callability.compiler.questions import QUESTIONS
from callability.files import document
from callability.files.editing import overwrite
from callability.files.policy_source import policy_files
from callability.process.web_server import PageError


class Superseded(PageError):
    """A newer draft is being analysed."""

    code = "superseded"
    status = HTTPStatus.CONFLICT


class NotChecked(PageError):
    """There is no draft to ask about."""

    code = "not-checked"
    status = HTTPStatus.CONFLICT


class TooSlow(PageError):
    """A task took too long."""

    code = "too-slow"


class Failed(PageError):
    """The analysis process ended."""

    code = "failed"


class BadRequest(PageError):
    """A request is malformed."""

    code = "bad-request"
    status = HTTPStatus.BAD_REQUEST


class RequestTooLarge(PageError):
    """A request is over the limit."""

    code = "too-large"
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class NotSaved(PageError):
    """A file was not written; `code` says why."""

    status = HTTPStatus.CONFLICT

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


NAMES = tuple(f"{name}{ending}.yaml" for name in QUESTIONS for ending in ("", "_test"))
"""The files that can be edited: each rule set, and the tests beside it."""


class NotEditable(Exception):
    """A file that cannot be edited in a page. Its text says why."""


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file as it is on disk; its text has line feeds alone, and its digest is empty where there is no file.

    With a `problem` it cannot be edited: its bytes could not be given back as they are.
    """

    name: str
    text: str = ""
    digest: str = ""
    line_end: str = "\n"
    problem: str = ""

    def with_line_ends(self, text: str) -> str:
        """Return an edited text with the line ends of the file."""
        return text.replace("\n", self.line_end)


def read_saved(directory: Path) -> dict[str, SavedFile]:
    """Return the files that can be edited, by name, whether they are there or not."""
    return {name: _read_saved(directory / name) for name in NAMES}


def texts_of(saved: Mapping[str, SavedFile]) -> dict[str, str]:
    """Return the texts of the existing files that can be edited, by name."""
    return {name: file.with_line_ends(file.text) for name, file in saved.items() if file.digest and not file.problem}


def other_files(directory: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files of a policy besides those whose texts are given: misnamed ones, and such as have a problem."""
    return tuple(path for path in policy_files(directory) if path.name not in texts)


def save(directory: Path, name: str, text: str, digest: str) -> SavedFile:
    """Write one file, if it is still the one that was read, and return it as it was written.

    Raises:
        NotEditable: it has a problem, or is not there any more.
        ChangedMeanwhile: it is another file by now.
        OSError: it cannot be written; it is as it was.
    """
    path = directory / name
    saved = _read_saved(path)
    if saved.problem:
        raise NotEditable(saved.problem)
    data = saved.with_line_ends(text).encode()
    overwrite(path, data, only_if=digest)
    # Read again, it could be what somebody else has written since, whose edit the page would take for this one.
    return _read(name, data)


def _read_saved(path: Path) -> SavedFile:
    if path.is_symlink() and not path.resolve().is_relative_to(path.parent.resolve()):
        return SavedFile(path.name, problem="is a symbolic link that leads out of the directory of the policy")
    try:
        data = document.read_bytes(path)
    except document.Refused as error:
        if isinstance(error.__cause__, FileNotFoundError) and not path.is_symlink():
            return SavedFile(path.name)
        return SavedFile(path.name, problem=error.findings[0].sentence)
    return _read(path.name, data)


def _read(name: str, data: bytes) -> SavedFile:
    digest = document.digest(data)
    problem = next(_problems(data), "")
    if problem:
        return SavedFile(name, digest=digest, problem=problem)
    text = data.decode()
    line_end = "\r\n" if "\r" in text else "\n"
    return SavedFile(name, text.replace("\r\n", "\n"), digest, line_end)


def _problems(data: bytes) -> Iterator[str]:
    if len(data) > document.MAX_BYTES:
        yield f"is larger than {document.MAX_BYTES:,} bytes"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        yield "is not UTF-8"
        return
    if "\r" in text and not text.count("\r") == text.count("\r\n") == text.count("\n"):
        yield "has more than one kind of line end"
    if "\0" in text:
        yield "holds a character that no file may hold"
