"""The log of calls: a line about each that has ended, if the operator asks for it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from callability import request_context
from callability.log_output import fields

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndedCall:
    """How a call ended: its path on the wire, the name of its code, its duration, and the reason of a refusal."""

    path: str
    code: str
    seconds: float
    reason: str = ""

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.path.rpartition("/")[2]


def log_call(call: EndedCall) -> None:
    """Log a call without anything that was asked or answered."""
    request = request_context.current()
    number = "-" if request is None else request.request_id
    caller = "-" if request is None else request.fields.get("caller", "-")
    taken = round(1000 * call.seconds, 3)
    _logger.info(
        "%s ended with %s in %.1f ms (caller %s, request %s)",
        *(call.method, call.code, taken, caller, number),
        extra=fields(
            method=call.method,
            code=call.code,
            milliseconds=taken,
            **({"reason": call.reason} if call.reason else {}),
        ),
    )
