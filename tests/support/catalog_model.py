"""The outcomes of enables, as a model: each step is taken completely, one after the other (spec C)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["mute", "waiting", "returning"]
"""A caller without dialogs, one that waits for its dialog, and one whose call returns the consent request."""
Step = tuple[Any, ...]
"""A verb, and its object."""
CONNECT_SECONDS, DIALOG_SECONDS, HELD_SECONDS = 23, 603, 60
INSTANT = 30
"""Time passes in steps of this many seconds; no deadline falls on the end of a step, and no two into the same step."""
Result = tuple[str, int]
"""A status, and the number of the connection that it reports."""


@dataclass(slots=True)
class Attempt:
    """An attempt to connect, and the callers that wait for it, in the order of their arrival."""

    deadline: float
    waiting: list[int] = field(default_factory=list)
    unable: set[int] = field(default_factory=set)
    challenged: bool = False
    question: int | None = None
    """The consent request of the attempt; `open`: its answer still counts."""
    open: bool = False
    shown: object = None
    """Who shows the request: the number of a caller, another value if the dialog is done, or None."""
    held: bool = False
    returned: bool = False
    released: float | None = None


@dataclass(slots=True)
class Server:
    """One server of the catalog."""

    oauth: bool
    variable: bool
    dials: int = 0
    kept: bool = False
    up: bool = False
    joined: int | None = None
    attempt: Attempt | None = None
    last: tuple[int, Result] | None = None

    @property
    def state(self) -> str:
        """The state of the server."""
        if self.attempt is not None:
            return "connecting"
        return "connected" if self.up else "failed" if self.kept else "absent"


@dataclass(slots=True)
class Caller:
    """One call of `enable_server`; `result` is set when it is answered, and `question` if that is a consent request."""

    kind: Kind
    server: str
    result: Result | None = None
    question: int | None = None
    dialog: bool = False

    @property
    def reported(self) -> str:
        """The visible state of the server."""
        return self.result[0] if self.result else "asked" if self.dialog else "waiting"


class Model:
    """The servers and the callers at one moment."""

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self.servers = dict(servers)
        self.callers: dict[int, Caller] = {}
        self.is_set = True
        self._now = 0.0
        self._questions = 0
        self._fresh: set[int] = set()

    @property
    def seen(self) -> dict[str, Any]:
        """The visible state of all servers."""
        return {
            "states": {name: server.state for name, server in self.servers.items()},
            "joined": {name for name, server in self.servers.items() if server.joined is not None},
            "callers": {number: caller.reported for number, caller in self.callers.items()},
        }

    @property
    def dials(self) -> dict[str, int]:
        """How often each server was dialled."""
        return {name: server.dials for name, server in self.servers.items()}

    @property
    def key(self) -> str:
        """What distinguishes it from others."""
        return f"{self.servers} {sorted(self.callers.items(), key=lambda item: item[0])} {self.is_set}"

    def after(self, steps: tuple[Step, ...]) -> Iterator[Model]:
        """Yield the possible states after steps in this order."""
        copy = deepcopy(self)
        copy._fresh.clear()
        models = [copy]
        for verb, *what in steps:
            models = [after for model in models for after in getattr(model, verb)(*what) or (model,)]
        yield from models

    def enable(self, number: int, kind: Kind, name: str) -> None:
        """A caller comes."""
        self._come(number, Caller(kind, name), None, None)

    def again(self, number: int, earlier: int, answer: str | None) -> None:
        """A caller comes again, with its user's answer to its consent request."""
        before = self.callers[earlier]
        self._come(number, Caller("returning", before.server), before.question, answer)

    def cancel(self, number: int) -> tuple[Model, ...] | None:
        """A caller leaves; one that leaves while it is answered may or may not have the answer."""
        caller = self.callers.get(number)
        if caller is None:
            self.callers[number] = Caller("mute", "", ("gone", 0))
            return None
        if number in self._fresh and caller.question is None:
            other = deepcopy(self)
            other.callers[number].result = ("gone", 0)
            return self, other
        if caller.result is None:
            self._leave(number, caller)
        return None

    def dialog(self, number: int, answer: str | None) -> None:
        """The user does something with a dialog, or it cannot be shown (None)."""
        caller = self.callers.get(number)
        if caller is None or not caller.dialog:
            return
        caller.dialog = False
        server, attempt = self._attempt(caller.server)
        if answer == "declined":
            self._refuse(server, "declined", kept=False)
        elif answer == "accepted":
            attempt.shown = "accepted"
        else:
            attempt.unable.add(number)
            attempt.shown = None
            self._offer(server)

    def page(self, name: str, sent: str) -> None:
        """The provider sends the person back, with a code or with an error."""
        server = self.servers[name]
        attempt = server.attempt
        if attempt is None or not attempt.open:
            return
        if sent != "code":
            self._refuse(server, "declined" if sent == "access_denied" else "connect_failed", kept=False)
            return
        attempt.open = False
        attempt.deadline = self._now + CONNECT_SECONDS

    def challenge(self, name: str) -> None:
        """The server requires an authorization."""
        server = self.servers[name]
        attempt = server.attempt
        if attempt is None or attempt.challenged or not server.oauth:
            return
        self._questions += 1
        attempt.challenged, attempt.question, attempt.open = True, self._questions, True
        attempt.deadline = self._now + DIALOG_SECONDS
        self._offer(server)

    def accept(self, name: str) -> None:
        """The server opens."""
        server = self.servers[name]
        if server.attempt is not None and not server.attempt.open:
            self._finish(server, "enabled", kept=True)

    def refuse(self, name: str) -> None:
        """The server cannot be opened."""
        server = self.servers[name]
        if server.attempt is not None and not server.attempt.open:
            self._finish(server, "connect_failed", kept=False)

    def crash(self, name: str) -> tuple[Model, ...] | None:
        """The connection is lost; a caller that is being answered at that moment may read about the loss."""
        server = self.servers[name]
        if not server.up:
            return None
        server.up = False
        return (*self._or_reported(name, ("enabled", "already_enabled"), "connect_failed"), *self._never_opened(name))

    def disable(self, name: str) -> tuple[Model, ...] | None:
        """The server is disabled; a caller that is being answered that it was connected may read about that."""
        server = self.servers[name]
        if server.attempt is not None:
            self._finish(server, "cancelled", kept=False)
        reported = self._or_reported(name, ("already_enabled",), "cancelled")
        for model in reported:
            gone = model.servers[name]
            gone.kept, gone.up, gone.joined = False, False, None
        return reported

    def look(self, *_: object) -> None:
        """A look, which changes nothing (E-4)."""

    def variable(self, is_set: bool) -> None:
        """The variable that a server needs is set or unset."""
        self.is_set = is_set

    def wait(self, seconds: int) -> None:
        """Time passes."""
        for _ in range(0, seconds, INSTANT):
            self._now += INSTANT
            for server in self.servers.values():
                attempt = server.attempt
                if attempt is None:
                    continue
                if attempt.released is not None and attempt.released <= min(self._now, attempt.deadline):
                    attempt.released = attempt.shown = None
                    self._offer(server)
                if server.attempt is attempt and attempt.deadline <= self._now:
                    self._finish(server, "connect_failed", kept=False)

    def _come(self, number: int, caller: Caller, question: int | None, answer: str | None) -> None:
        if number in self.callers:
            return
        self.callers[number] = caller
        server = self.servers[caller.server]
        if question is not None and server.last is not None and server.last[0] == question:
            self._report(number, self._true(server, server.last[1]))
            return
        attempt = server.attempt
        if attempt is not None and question is not None and attempt.question == question and answer is not None:
            self._answered(server, attempt, number, answer)
            return
        if attempt is None and server.up:
            self._report(number, ("already_enabled", server.joined or 0))
        elif answer == "declined":
            self._report(number, ("declined", 0))
        elif attempt is None and server.variable and not self.is_set:
            self._report(number, ("missing_credentials", 0))
        else:
            if attempt is None:
                attempt = server.attempt = Attempt(self._now + CONNECT_SECONDS)
                server.dials += 1
            attempt.waiting.append(number)
            self._offer(server)

    def _answered(self, server: Server, attempt: Attempt, number: int, answer: str) -> None:
        attempt.held, attempt.released = False, None
        attempt.waiting.append(number)
        if answer == "declined":
            self._refuse(server, "declined", kept=False)
        elif attempt.open:
            attempt.shown = "accepted"

    def _true(self, server: Server, result: Result) -> Result:
        """A late answer reports no connection that no longer exists (E-9)."""
        status, connection = result
        if status != "enabled" or (server.up and server.joined == connection):
            return result
        return ("connect_failed" if server.joined == connection else "cancelled"), 0

    def _or_reported(self, name: str, statuses: tuple[str, ...], instead: str) -> tuple[Model, ...]:
        """Return this state, and the states that are possible if some callers are just being answered."""
        results = [(status, self.servers[name].joined) for status in statuses]
        reported = [n for n in self._fresh if self.callers[n].server == name and self.callers[n].result in results]
        other = deepcopy(self)
        for number in reported:
            other.callers[number].result = (instead, 0)
        return (self, other) if reported else (self,)

    def _never_opened(self, name: str) -> tuple[Model, ...]:
        """Return the state that is possible if an attempt is just ending: its connection was lost, and it failed."""
        opened = ("enabled", self.servers[name].joined)
        numbers = [n for n in self._fresh if self.callers[n].server == name and self.callers[n].result == opened]
        if not numbers:
            return ()
        other = deepcopy(self)
        server, failed = other.servers[name], ("connect_failed", 0)
        server.kept, server.joined = False, None
        if server.last is not None and server.last[1] == opened:
            server.last = server.last[0], failed
        for number in numbers:
            other.callers[number].result = failed
        return (other,)

    def _report(self, number: int, result: Result) -> None:
        caller = self.callers[number]
        caller.result, caller.dialog = result, False
        self._fresh.add(number)

    def _attempt(self, name: str) -> tuple[Server, Attempt]:
        attempt = self.servers[name].attempt
        assert attempt is not None
        return self.servers[name], attempt

    def _leave(self, number: int, caller: Caller) -> None:
        caller.result, caller.dialog = ("gone", 0), False
        server, attempt = self._attempt(caller.server)
        attempt.waiting.remove(number)
        if attempt.shown == number:
            attempt.shown = None
        if attempt.waiting or attempt.held:
            self._offer(server)
        else:
            self._finish(server, "cancelled", kept=False)

    def _offer(self, server: Server) -> None:
        attempt = server.attempt
        if attempt is None or not attempt.open or attempt.shown is not None:
            return
        for number in attempt.waiting:
            caller = self.callers[number]
            if caller.kind == "mute" or number in attempt.unable or caller.dialog:
                continue
            if caller.kind == "waiting":
                attempt.shown, caller.dialog = number, True
            else:
                attempt.waiting.remove(number)
                attempt.shown, attempt.held, attempt.released = "held", True, self._now + HELD_SECONDS
                attempt.returned = True
                caller.question = attempt.question
                self._report(number, ("returned", 0))
            return
        if not attempt.held:
            self._refuse(server, "authorization_required", kept=True)

    def _refuse(self, server: Server, status: str, *, kept: bool) -> None:
        if server.attempt is not None and server.attempt.open:
            self._finish(server, status, kept=kept)

    def _finish(self, server: Server, status: str, *, kept: bool) -> None:
        attempt, server.attempt = server.attempt, None
        assert attempt is not None
        result = (status, server.dials if status == "enabled" else 0)
        for number in attempt.waiting:
            self._report(number, result)
        if attempt.question is not None and attempt.returned:
            server.last = attempt.question, result
        server.kept = kept
        if status == "enabled":
            server.up, server.joined = True, server.dials
        elif not kept:
            server.joined = None
