"""Which values facts have together: what a request says of one decides what it can say of another."""

from __future__ import annotations

from collections.abc import Mapping

from callability.vocabulary import UNKNOWN, EnableAuthorization, EnableEnd, LoadFailure, LoadPhase, LoadStatus

HTTP_STATUSES = tuple(
    "400 401 403 404 405 408 409 410 413 415 421 425 426 429 500 501 502 503 504".split()  # noqa: SIM905  # a table
)
"""The HTTP status numbers that rules can distinguish; any other is `other`, of its class."""
HTTP_CLASSES = ("3xx", "4xx", "5xx", "other")

HINT_DEFAULTS = {"annotations.read_only": "false", "annotations.destructive": "true", "annotations.idempotent": "false"}
"""The hints that depend on each other, with the defaults that MCP defines."""
READS_ONLY = ("true", "false", "true")
"""What they are for a tool that only reads."""

_CONNECTED = (LoadPhase.REQUEST, LoadPhase.RESPONSE, LoadPhase.LIST)
_PHASES = {
    LoadFailure.NONE: (LoadPhase.LIST,),
    LoadFailure.TIMEOUT: tuple(LoadPhase)[1:],
    LoadFailure.REFUSED: (LoadPhase.CONNECT,),
    LoadFailure.RESET: (LoadPhase.CONNECT, LoadPhase.TLS, *_CONNECTED),
    LoadFailure.CLOSED: (LoadPhase.CONNECT, LoadPhase.TLS, *_CONNECTED),
    LoadFailure.NAME_NOT_FOUND: (LoadPhase.RESOLVE, LoadPhase.CONNECT),
    LoadFailure.TLS: (LoadPhase.CONNECT, LoadPhase.TLS),
    LoadFailure.BAD_CONFIG: (LoadPhase.CONFIG,),
    LoadFailure.MISSING_COMMAND: (LoadPhase.CONFIG, LoadPhase.CONNECT),
    LoadFailure.EXITED: (LoadPhase.CONNECT, *_CONNECTED),
    LoadFailure.NOT_MCP: _CONNECTED,
    LoadFailure.HTTP_STATUS: (LoadPhase.CONNECT, *_CONNECTED),
    LoadFailure.OTHER: tuple(LoadPhase),
}

MAY_HAVE_FAILED = (EnableEnd.FAILED, UNKNOWN)
"""Ends of an attempt with which its load may have a status."""
MAY_BE_UNANSWERED = (EnableAuthorization.UNANSWERED, UNKNOWN)
"""Ends of a dialog with which it may have expired."""
FAILED_LOADS = (LoadStatus.TRANSIENT, LoadStatus.DENIED, LoadStatus.PERMANENT)
"""Statuses of a load that failed."""


def normalized_hints(given: Mapping[str, str]) -> dict[str, str]:
    """Return the three hints that depend on each other, for those that an upstream, or somebody in its words, gives.

    `destructiveHint` and `idempotentHint` mean something only if `readOnlyHint` is false (MCP): a tool that is known to
    be read-only destroys nothing and is idempotent, whatever else it says. A hint that is left out has MCP's default,
    or is unknown if one that is given is.
    """
    if given.get("annotations.read_only") == "true":
        return dict(zip(HINT_DEFAULTS, READS_ONLY, strict=True))
    rest = UNKNOWN if UNKNOWN in given.values() else None
    return {name: given.get(name, rest or default) for name, default in HINT_DEFAULTS.items()}


def http_facts(number: int) -> tuple[str, str]:
    """Return class and number of an HTTP status as the facts have them."""
    http_class = f"{number // 100}xx"
    text = str(number)
    return http_class if http_class in HTTP_CLASSES else "other", text if text in HTTP_STATUSES else "other"


def can_fail(failure: str, phase: str) -> bool:
    """Say whether a phase can end in a failure; an unknown failure may be any."""
    return failure == UNKNOWN or phase in _PHASES[LoadFailure(failure)]


def attempt_facts(authorization: str, ended: str, load_status: str, dialog_expired: str) -> dict[str, str]:
    """Return the facts of an attempt that depend on each other, for what a caller sends of them.

    Only a load that failed has a status, and only a dialog that nobody answered can have expired. What does not go
    with how the attempt ended is not looked at, and what is not known of a failure is unknown.
    """
    failed = ended == EnableEnd.FAILED
    load = "none"
    if ended in MAY_HAVE_FAILED:
        load = load_status if failed and load_status in FAILED_LOADS else UNKNOWN
    expired = "false"
    if ended in MAY_HAVE_FAILED and authorization in MAY_BE_UNANSWERED:
        expired = dialog_expired if failed or dialog_expired == "false" else UNKNOWN
    return {
        "enable.authorization": authorization,
        "enable.ended": ended,
        "enable.load_status": load,
        "enable.dialog_expired": expired,
    }
