"""Places for calls in progress: a call takes one when its request has arrived, and gives it back when it ends."""

from __future__ import annotations

from callability.service.requests.errors import TooManyAtOnce


class Places:
    """A stated number of places. A call is in progress within `with places`.

    A call that was opened and has sent no request holds none: nothing would end it but its caller.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        message = f"the service answers {limit:,} calls at a time, and has as many: try again"
        self._refused = "TOO_MANY_CALLS", message

    @property
    def error(self) -> TooManyAtOnce:
        """What a call is refused with if all are taken."""
        return TooManyAtOnce(*self._refused)

    @property
    def taken(self) -> bool:
        """Whether all are taken."""
        return self._free <= 0

    def __enter__(self) -> None:
        if self._free <= 0:
            raise self.error
        self._free -= 1

    def __exit__(self, *_error: object) -> None:
        self._free += 1
