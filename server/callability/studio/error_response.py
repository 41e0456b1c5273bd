"""Trouble as an answer that the page can read."""

from __future__ import annotations

from starlette.responses import JSONResponse

from callability.studio.errors import Trouble


def trouble_response(trouble: Trouble) -> JSONResponse:
    """Return code and sentence as JSON, with the status of the trouble."""
    return JSONResponse({"code": trouble.code, "sentence": str(trouble)}, trouble.status)
