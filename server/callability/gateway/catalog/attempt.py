"""One attempt to connect a server of the catalog, shared by its callers; one of them asks its user for consent."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from callability.contract.enum_words import ENABLE_AUTHORIZATION, ENABLE_CREDENTIALS, ENABLE_END
from callability.contract.vocabulary import EnableAuthorization, EnableEnd, LoadFailure
from callability.gateway.config.model import ServerConfig
from callability.gateway.upstream.authorization import AuthorizationFailed, ProviderRefused, Redirect
from callability.gateway.upstream.failure import Failure, UpstreamError
from callability.gateway.upstream.upstream import Upstream
from callability.v1.callability_service_pb2 import ClassifyLoadResponse
from callability.v1.outcome_pb2 import EnableFacts


@dataclass(frozen=True, slots=True)
class Joined:
    """A server of the catalog that an agent enabled; its connection may have been lost since."""

    config: ServerConfig
    upstream: Upstream


@dataclass(frozen=True, slots=True)
class EnableOutcome:
    """The facts of an enable, except whether a tool can be called, and what its answer is made of.

    `variables` are not set; `failure` says why the connection failed, and `load` is the policy's classification of it;
    `dialog_expired`: the dialog was not answered in time; `upstream` is what is connected.
    """

    known: bool = True
    was_connected: bool = False
    variables: tuple[str, ...] = ()
    authorization: EnableAuthorization = EnableAuthorization.NOT_NEEDED
    end: EnableEnd = EnableEnd.FAILED
    failure: Failure | None = None
    dialog_expired: bool = False
    load: ClassifyLoadResponse | None = field(default=None, repr=False)
    upstream: Upstream | None = None

    def facts(self, *, callable_tools: bool) -> EnableFacts:
        """Return the facts to send to the policy."""
        credentials = "missing" if self.variables else "complete"
        return EnableFacts(
            known=self.known,
            was_connected=self.was_connected,
            credentials=ENABLE_CREDENTIALS.numbers[credentials],
            authorization=ENABLE_AUTHORIZATION.numbers[self.authorization],
            ended=ENABLE_END.numbers[self.end],
            callable_tools=callable_tools,
            load_status=self.load.verdict.status if self.load is not None else None,
            dialog_expired=self.dialog_expired,
        )


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """Asks a person to authorize the connection to a server, at a URL of its provider.

    `id` cannot be guessed, so a caller that presents it has received this request.
    """

    id: str = field(repr=False)
    server: str
    url: str = field(repr=False)


class ConsentAnswer(StrEnum):
    """What a person did with the request: `accepted` means that they went to the URL, not that they authorized."""

    ACCEPTED = "accepted"
    DECLINED = "declined"


class Asker(Protocol):
    """How the caller of an enable can ask its user."""

    @property
    def can_ask(self) -> bool:
        """Whether it can show a dialog."""

    @property
    def asks_by_returning(self) -> bool:
        """Whether the request is returned as the result of the call, and the user's answer comes with another call."""

    async def ask(self, question: ConsentRequest) -> ConsentAnswer | None:
        """Show the dialog and return what the user did, or None if it could not be shown."""


_T = TypeVar("_T")
HELD_SECONDS = 60.0
"""How long a request that was returned to one caller is not given to another, in seconds."""

_DECLINED = "was not authorized: the user declined"


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for the connection, without the time in which a person is asked, and seconds for the person."""

    connect: float
    dialog: float


@dataclass(eq=False, slots=True)
class _Waiting:
    """A caller that waits for the outcome; `turn` gets the request when this caller is to ask its user."""

    asker: Asker
    able: bool
    turn: asyncio.Future[ConsentRequest] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Attempt:
    """Ends with the connection, with the person's answer, by `stop`, at its deadline, or when its last caller goes.

    Its owner sets `ended` once it has decided what to keep of what was opened.
    """

    def __init__(self, server: str, limits: Limits) -> None:
        self.server = server
        self.ended: asyncio.Future[EnableOutcome] = asyncio.get_running_loop().create_future()
        self.consent_id = ""
        """The id of the latest consent request."""
        self.was_returned = False
        """Whether a caller was returned the request, so that it may come again with its id."""
        self._upstream: Upstream | None = None
        self._question: ConsentRequest | None = None
        self._limits = limits
        self._authorization = EnableAuthorization.NOT_NEEDED
        self._code: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._over: asyncio.Future[EnableOutcome] = asyncio.get_running_loop().create_future()
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._clock: asyncio.TimerHandle | None = None
        self._waiting: list[_Waiting] = []
        self._shown_by: object = None
        self._held = False
        self._release: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def awaits_consent(self) -> bool:
        """Whether a person is being asked now."""
        return self._question is not None

    @property
    def stopped(self) -> bool:
        """Whether it was stopped: then its outcome must not be a connection."""
        return self._over.done() and self._over.result().end is EnableEnd.CANCELLED

    def is_open_to(self, asker: Asker) -> bool:
        """Return whether a new caller may join: not if the attempt was stopped, or no session could show its dialog."""
        unasked = self._authorization is EnableAuthorization.NO_DIALOG and asker.can_ask
        return not self.stopped and not unasked

    async def connect(self, upstream: Upstream) -> EnableOutcome:
        """Open an upstream and return the outcome; call it once, from the attempt's own task."""
        self._upstream = upstream
        self._restart_clock(self._limits.connect, f"was not connected within {self._limits.connect:g} s")
        upstream.start()
        opening = self._task(_open(upstream), "opening")
        try:
            await _first(opening, self._over)
            if self._over.done():
                return self._over.result()
            failure = opening.result()
            if failure is None:
                return EnableOutcome(authorization=self._authorization, end=EnableEnd.CONNECTED, upstream=upstream)
            return self.failed_outcome(failure)
        finally:
            opening.cancel()
            self._stop_clocks()
            self._closed.set_result(None)

    def failed_outcome(self, failure: Failure, *, dialog_expired: bool = False) -> EnableOutcome:
        """Return the outcome of an attempt that fails now."""
        return EnableOutcome(
            authorization=self._authorization, end=EnableEnd.FAILED, failure=failure, dialog_expired=dialog_expired
        )

    def cancelled_outcome(self) -> EnableOutcome:
        """Return the outcome of an attempt that is stopped now."""
        return EnableOutcome(authorization=self._authorization, end=EnableEnd.CANCELLED)

    def stop(self) -> None:
        """End it in any state; all waiting callers get the outcome `cancelled`."""
        self._end(self.cancelled_outcome())

    async def authorize(self, url: str, redirect: Redirect) -> AuthorizationCodeResult:
        """Send a person to a URL of the provider, and return what the provider sends back with them.

        Raises:
            AuthorizationFailed: no session can show the dialog, or it was shown before; the person declines, in the
                dialog or at the provider; or the attempt ends first.
        """
        if self._closed.done():
            raise AuthorizationFailed("needs an authorization again")
        # If the first authorization did not help, a second one will not.
        if self.consent_id:
            raise AuthorizationFailed("answered with HTTP status 401", status=401)
        self._authorization = EnableAuthorization.UNANSWERED
        self.consent_id = secrets.token_urlsafe(16)
        self._question = ConsentRequest(self.consent_id, self.server, url)
        self._restart_clock(
            self._limits.dialog, f"was not authorized within {self._limits.dialog:g} s", dialog_expires=True
        )
        coming = self._task(
            redirect.wait_for_person(parse_qs(urlsplit(url).query)["state"][0]), "awaiting the person for"
        )
        try:
            self._offer()
            await _first(coming, self._code, self._closed)
            if self._closed.done():
                raise AuthorizationFailed("was not authorized before the attempt ended")
            result = self._code.result() if self._code.done() else coming.result()
        except ProviderRefused as refused:
            if refused.declined:
                self._authorization = EnableAuthorization.DECLINED
            raise AuthorizationFailed("was not authorized: its provider refused") from None
        finally:
            self._question = None
            coming.cancel()
        self._authorization = EnableAuthorization.GRANTED
        self._restart_clock(self._limits.connect, f"was not connected within {self._limits.connect:g} s")
        return result

    def wait_for_other(self) -> Callable[[], None]:
        """Give time to the person whom another process asks, and return what is called when that has ended."""
        if not self._closed.done():
            words = f"was not authorized within {self._limits.dialog:g} s, while another process asked"
            self._restart_clock(self._limits.dialog, words, dialog_expires=True)
        return self._continue

    def _continue(self) -> None:
        if not self._closed.done():
            self._restart_clock(self._limits.connect, f"was not connected within {self._limits.connect:g} s")

    async def outcome(self, asker: Asker) -> EnableOutcome | ConsentRequest:
        """Wait with a caller for the outcome; a caller that asks by returning gets the request to return."""
        waiting = _Waiting(asker, asker.can_ask)
        self._waiting.append(waiting)
        try:
            self._offer()
            while True:
                await _first(self.ended, waiting.turn)
                if self.ended.done():
                    return self.ended.result()
                question = waiting.turn.result()
                if asker.asks_by_returning:
                    self._hold(question)
                    return question
                waiting.turn = asyncio.get_running_loop().create_future()
                await self._ask(waiting, question)
        finally:
            self._leave(waiting)

    def take_answer(self, answer: ConsentAnswer) -> None:
        """Take a user's answer to a request that was returned."""
        self._held = False
        if self._release is not None:
            self._release.cancel()
        if answer is ConsentAnswer.DECLINED:
            self._refuse(EnableAuthorization.DECLINED, _DECLINED)
        else:
            self._shown_by = self._question

    async def _ask(self, waiting: _Waiting, question: ConsentRequest) -> None:
        """Ask through a caller; the end of the attempt ends the dialog."""
        dialog = self._task(waiting.asker.ask(question), "dialog about")
        try:
            await _first(dialog, self._closed)
        finally:
            _cancel(dialog)
        if dialog.cancelled() or not dialog.done():
            return
        answer = dialog.result()
        if answer is ConsentAnswer.DECLINED:
            self._refuse(EnableAuthorization.DECLINED, _DECLINED)
        elif answer is ConsentAnswer.ACCEPTED:
            self._shown_by = question
        else:
            waiting.able, self._shown_by = False, None
            self._offer()

    async def close(self) -> None:
        """End the attempt, including an unanswered dialog, and wait until it is cleaned up."""
        self._stop_clocks()
        for task in self._tasks:
            _cancel(task)
        # An error after the last caller has gone is not worth a log line.
        _ = self._code.done() and self._code.exception()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def _offer(self) -> None:
        """Hand the request to the first caller that can ask; if none can, the attempt fails."""
        if self._question is None or self._code.done() or self._over.done() or self._shown_by is not None:
            return
        for waiting in self._waiting:
            if waiting.able and not waiting.turn.done():
                self._shown_by = waiting
                waiting.turn.set_result(self._question)
                return
        if not self._held:
            self._refuse(EnableAuthorization.NO_DIALOG, "was not authorized: this session can show no dialog")

    def _refuse(self, authorization: EnableAuthorization, words: str) -> None:
        if self._question is not None and not self._code.done():
            self._authorization = authorization
            self._code.set_exception(AuthorizationFailed(words))

    def _hold(self, question: ConsentRequest) -> None:
        self._held, self._shown_by, self.was_returned = True, question, True
        self._release = asyncio.get_running_loop().call_later(HELD_SECONDS, self._release_callers)

    def _release_callers(self) -> None:
        self._shown_by = None
        self._offer()

    def _leave(self, waiting: _Waiting) -> None:
        """Remove a caller; another caller gets its request; without callers, the attempt ends."""
        self._waiting.remove(waiting)
        if self._shown_by is waiting:
            self._shown_by = None
        if self._waiting or self._held:
            self._offer()
        else:
            self.stop()

    def _restart_clock(self, seconds: float, words: str, *, dialog_expires: bool = False) -> None:
        if self._clock is not None:
            self._clock.cancel()
        failure = Failure(words, exception="TimeoutError", kind=LoadFailure.TIMEOUT)
        self._clock = asyncio.get_running_loop().call_later(seconds, self._expire, failure, dialog_expires)

    def _expire(self, failure: Failure, dialog_expired: bool) -> None:
        late = failure if self._upstream is None else self._upstream.late_failure(failure)
        self._end(self.failed_outcome(late, dialog_expired=dialog_expired))

    def _stop_clocks(self) -> None:
        for clock in (self._clock, self._release):
            if clock is not None:
                clock.cancel()

    def _task(self, work: Coroutine[Any, Any, _T], what: str) -> asyncio.Task[_T]:
        task = asyncio.create_task(work, name=f"{what} {self.server}")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # Nobody waits for this task any more; what its error says was reported before.
        _ = task.cancelled() or task.exception()

    def _end(self, outcome: EnableOutcome) -> None:
        if not self._over.done():
            self._over.set_result(outcome)


def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task once: a second cancellation would keep it from withdrawing the client's dialog."""
    if not task.cancelling():
        task.cancel()


async def _first(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def _open(upstream: Upstream) -> Failure | None:
    try:
        await upstream.wait_until_open()
    except UpstreamError as error:
        return error.failure
    return None
