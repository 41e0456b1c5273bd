"""What the page is told when something cannot be done.

StudioError
├── Superseded     a newer draft is looked at
├── NotChecked     there is no draft to ask about
├── TooSlow        it took too long
├── Failed         the process of a study ended
├── BadRequest     a request is not what it should be
├── RequestTooLarge a request is larger than one may be
├── Elsewhere      it comes from another page
└── NotSaved       a file was not written
"""

from __future__ import annotations

from http import HTTPStatus


class StudioError(Exception):
    """It has a code, and an HTTP status; its text is a sentence for the page."""

    code = "error"
    status = HTTPStatus.INTERNAL_SERVER_ERROR


class Superseded(StudioError):
    """A newer draft is looked at."""

    code = "superseded"
    status = HTTPStatus.CONFLICT


class NotChecked(StudioError):
    """There is no draft to ask about."""

    code = "not-checked"
    status = HTTPStatus.CONFLICT


class TooSlow(StudioError):
    """It took too long."""

    code = "too-slow"


class Failed(StudioError):
    """The process of a study ended."""

    code = "failed"


class BadRequest(StudioError):
    """A request is not what it should be."""

    code = "bad-request"
    status = HTTPStatus.BAD_REQUEST


class RequestTooLarge(StudioError):
    """A request is larger than one may be."""

    code = "too-large"
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class Elsewhere(StudioError):
    """It comes from another page."""

    code = "elsewhere"
    status = HTTPStatus.FORBIDDEN


class NotSaved(StudioError):
    """A file was not written; `code` says why."""

    status = HTTPStatus.CONFLICT

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
