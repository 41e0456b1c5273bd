"""Places for calls in progress: a call takes one when its request has arrived, and gives it back when it ends."""

from __future__ import annotations

from collections import Counter

from callability.service.requests.errors import TooManyAtOnce

SHARED_PEER = "unix:"
"""What gRPC calls every client of a Unix socket."""
TOO_MANY = "TOO_MANY_CALLS"
"""The reason of a refusal for want of a place."""


class Places:
    """A stated number of places. A connection may have as many as it leaves free, so that the next one finds some.

    Alone, it has half of them; beside another that wants as many as it can get, a third. A call that was opened and has
    sent no request holds none: nothing would end it but its caller.
    """

    def __init__(self, limit: int, does: str = "answers", what: str = "calls") -> None:
        self._limit = limit
        self._does = f"the service {does} {limit:,} {what} at a time"
        self._free = limit
        self._of: Counter[str] = Counter()

    @property
    def error(self) -> TooManyAtOnce:
        """What a call is refused with if all are taken."""
        return TooManyAtOnce(TOO_MANY, f"{self._does}, and has as many: try again")

    @property
    def taken(self) -> bool:
        """Whether all are taken."""
        return self._free <= 0

    @property
    def in_progress(self) -> int:
        """How many are taken."""
        return self._limit - self._free

    @property
    def only_one(self) -> bool:
        """Whether a single call is in progress."""
        return self._limit - self._free == 1

    def take(self, connection: str) -> None:
        """Take a place for a call of a connection.

        Raises:
            TooManyAtOnce: all are taken, or the connection has its share.
        """
        if self._free <= 0:
            raise self.error
        # The clients of a Unix socket cannot be distinguished: they share all places.
        if (mine := self._of[connection]) >= self._free and connection != SHARED_PEER:
            raise TooManyAtOnce(TOO_MANY, f"{self._does}, and this connection has its share of {mine:,}: try again")
        self._free -= 1
        self._of[connection] = mine + 1

    def give_back(self, connection: str) -> None:
        """Give back the place of a call that has ended."""
        self._free += 1
        self._of[connection] -= 1
        if not self._of[connection]:
            del self._of[connection]
