"""The requests of the page, validated."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.requests import Request

from callability.compiler.questions import QUESTIONS
from callability.files.document import MAX_BYTES
from callability.studio.policy_files import NAMES, BadRequest, RequestTooLarge

MAX_BODY = 16 * 1024**2
"""Bytes of a request: more than all files of a policy can have, escaped."""


def _one_of(*names: str) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError("no such name")
        return name

    return AfterValidator(check)


def _writable(text: str) -> str:
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"is larger than {MAX_BYTES:,} bytes")
    if "\r" in text or "\0" in text:
        raise ValueError("has a character that no file may hold")
    return text


PageId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
FileName = Annotated[str, _one_of(*NAMES)]
QuestionName = Annotated[str, _one_of(*QUESTIONS)]
FileText = Annotated[str, AfterValidator(_writable)]


class _PageRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CheckRequest(_PageRequest):
    """A draft: the texts of the files that are edited."""

    page: PageId
    texts: dict[FileName, FileText]


class ConfirmRequest(_PageRequest):
    """Whether the rules engine decides the draft as its decision diagrams do."""

    page: PageId


class ProgressRequest(_PageRequest):
    """How far the rules engine is."""

    page: PageId


class TableRequest(_PageRequest):
    """The decision table of a question, and its row for facts if there are any."""

    page: PageId
    question: QuestionName
    facts: dict[str, str] = {}


class DecideRequest(_PageRequest):
    """The answer for facts, one of which may just have been changed; those that the draft has not are left out."""

    page: PageId
    question: QuestionName
    facts: dict[str, str]
    changed: str = ""
    row: bool = True


class DifferenceRequest(_PageRequest):
    """What the draft changes."""

    page: PageId


class LeaveRequest(_PageRequest):
    """The page was closed."""

    page: PageId


class SaveRequest(_PageRequest):
    """Write one file, if it has still the digest; `even_refused`: also where the policy would be refused then."""

    page: PageId
    name: FileName
    text: FileText
    digest: str
    even_refused: bool = False


_Wanted = TypeVar("_Wanted", bound=_PageRequest)


async def read_request(request: Request, wanted: type[_Wanted]) -> _Wanted:
    """Return what a request asks.

    Raises:
        BadRequest: it is not what it should be.
        TooLarge: it is larger than a request may be.
    """
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise BadRequest("a request is JSON")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise RequestTooLarge(f"the request is larger than {MAX_BODY:,} bytes")
    try:
        request_body = wanted.model_validate_json(bytes(body))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        sentence = first["msg"].removeprefix("Value error, ")
        raise BadRequest(f"{place}: {sentence}" if place else sentence) from None
    return request_body
