"""Trouble as an answer that the page can read."""

from __future__ import annotations

from starlette.responses import JSONResponse

from callability.studio.errors import StudioError


def error_response(error: StudioError) -> JSONResponse:
    """Return code and sentence as JSON, with the status of the trouble."""
    return JSONResponse({"code": error.code, "sentence": str(error)}, error.status)
