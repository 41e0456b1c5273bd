"""Errors as JSON responses for the page."""

from __future__ import annotations

from starlette.responses import JSONResponse

from callability.studio.errors import StudioError


def error_response(error: StudioError) -> JSONResponse:
    """Return code and sentence as JSON, with the HTTP status of the error."""
    return JSONResponse({"code": error.code, "sentence": str(error)}, error.status)
