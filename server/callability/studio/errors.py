"""Errors that the page shows.

StudioError
├── Superseded       a newer draft is being analysed
├── NotChecked       there is no draft to ask about
├── TooSlow          a task took too long
├── Failed           the analysis process ended
├── BadRequest       a request is malformed
├── RequestTooLarge  a request is over the limit
├── Elsewhere        a request comes from another page
└── NotSaved         a file was not written
"""

from __future__ import annotations

from http import HTTPStatus


class StudioError(Exception):
    """An error with a code and an HTTP status; its text is a sentence for the page."""

    code = "error"
    status = HTTPStatus.INTERNAL_SERVER_ERROR


class Superseded(StudioError):
    """A newer draft is being analysed."""

    code = "superseded"
    status = HTTPStatus.CONFLICT


class NotChecked(StudioError):
    """There is no draft to ask about."""

    code = "not-checked"
    status = HTTPStatus.CONFLICT


class TooSlow(StudioError):
    """A task took too long."""

    code = "too-slow"


class Failed(StudioError):
    """The analysis process ended."""

    code = "failed"


class BadRequest(StudioError):
    """A request is malformed."""

    code = "bad-request"
    status = HTTPStatus.BAD_REQUEST


class RequestTooLarge(StudioError):
    """A request is over the limit."""

    code = "too-large"
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class Elsewhere(StudioError):
    """The request comes from another page."""

    code = "elsewhere"
    status = HTTPStatus.FORBIDDEN


class NotSaved(StudioError):
    """A file was not written; `code` says why."""

    status = HTTPStatus.CONFLICT

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
