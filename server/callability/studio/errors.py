"""What the page is told when something cannot be done.

Trouble
├── Superseded     a newer draft is looked at
├── NotChecked     there is no draft to ask about
├── TooSlow        it took too long
├── Failed         the process of a study ended
├── BadRequest     a request is not what it should be
├── TooLarge       a request is larger than one may be
├── Elsewhere      it comes from another page
└── NotSaved       a file was not written
"""

from __future__ import annotations

from http import HTTPStatus


class Trouble(Exception):
    """It has a code, and an HTTP status; its text is a sentence for the page."""

    code = "trouble"
    status = HTTPStatus.INTERNAL_SERVER_ERROR


class Superseded(Trouble):
    """A newer draft is looked at."""

    code = "superseded"
    status = HTTPStatus.CONFLICT


class NotChecked(Trouble):
    """There is no draft to ask about."""

    code = "not-checked"
    status = HTTPStatus.CONFLICT


class TooSlow(Trouble):
    """It took too long."""

    code = "too-slow"


class Failed(Trouble):
    """The process of a study ended."""

    code = "failed"


class BadRequest(Trouble):
    """A request is not what it should be."""

    code = "bad-request"
    status = HTTPStatus.BAD_REQUEST


class TooLarge(Trouble):
    """A request is larger than one may be."""

    code = "too-large"
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class Elsewhere(Trouble):
    """It comes from another page."""

    code = "elsewhere"
    status = HTTPStatus.FORBIDDEN


class NotSaved(Trouble):
    """A file was not written; `code` says why."""

    status = HTTPStatus.CONFLICT

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
