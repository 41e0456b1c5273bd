"""The catalog: for each server a state machine in one event loop, without a lock, and the servers that are enabled."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from callability.adapter import enable_status, load_status
from callability.client import PolicyUnavailable
from callability.contract.vocabulary import EnableAuthorization, EnableEnd, LoadFailure, LoadPhase
from callability.gateway.catalog.attempt import (
    Asker,
    Attempt,
    ConsentAnswer,
    ConsentRequest,
    EnableOutcome,
    Joined,
    Limits,
)
from callability.gateway.config.config import Config
from callability.gateway.config.model import CatalogEntry, Deadlines
from callability.gateway.config.variables import Unfillable, fill, unset, with_secrets
from callability.gateway.loading import signals_of
from callability.gateway.policy_client import PolicyClient, most_careful
from callability.gateway.upstream.authorization import Authorization, Redirect
from callability.gateway.upstream.failure import Failure
from callability.gateway.upstream.listing import Witness, witness_nothing
from callability.gateway.upstream.login_store import StoredLogin, StoreUnavailable
from callability.gateway.upstream.target import target_of
from callability.gateway.upstream.upstream import Upstream
from callability.process.background import begin_task
from callability.process.logs import fields
from callability.v1.callability_service_pb2 import (
    ClassifyEnableRequest,
    ClassifyLoadRequest,
    ClassifyLoadResponse,
)
from callability.v1.outcome_pb2 import ENABLE_ENTRY_KEPT

_UNRULED = Failure("was not kept, since the policy gave no answer about it")


class EnableClassifier:
    """Has the policy classify attempts."""

    def __init__(self, policy: PolicyClient) -> None:
        self._policy = policy

    async def classify(self, outcome: EnableOutcome) -> tuple[EnableOutcome, bool]:
        """Return an outcome with the policy's classification of its failure, and whether the entry stays.

        If the policy gives no answer, or does not call it a connection, there is no connection and the entry does not
        stay.
        """
        if outcome.failure is not None:
            outcome = replace(outcome, load=await self._load(outcome.failure))
        connected = outcome.end is EnableEnd.CONNECTED
        try:
            # Whether the entry stays does not depend on which tools a single agent may call.
            request = ClassifyEnableRequest(facts=outcome.facts(callable_tools=True))
            response = await self._policy.classify_enable(request)
        except PolicyUnavailable:
            return replace(outcome, end=EnableEnd.FAILED, failure=_UNRULED) if connected else outcome, False
        kept = response.verdict.entry == ENABLE_ENTRY_KEPT
        if connected and not (kept and enable_status(response).connected):
            return replace(outcome, end=EnableEnd.FAILED, failure=_UNRULED), False
        return outcome, kept

    async def _load(self, failure: Failure) -> ClassifyLoadResponse | None:
        """Return the most careful classification of a failure and of those that came with it (L-1)."""
        requests = [
            ClassifyLoadRequest(signals=signals_of(each, tries_left=0, retry_scheduled=False)) for each in failure.each
        ]
        try:
            answers = await asyncio.gather(*map(self._policy.classify_load, requests))
        except PolicyUnavailable:
            return None
        return most_careful(answers, load_status)


_logger = logging.getLogger(__name__)
_PORT_TAKEN = Failure(
    "cannot be authorized: the address to which its provider sends people back cannot be listened on",
    kind=LoadFailure.BAD_CONFIG,
    phase=LoadPhase.CONFIG,
)
_FAULT = "the gateway failed"


class SwitchState(StrEnum):
    """The state of a server of the catalog; a `failed` one is kept and not connected."""

    ABSENT = "absent"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    FAILED = "failed"


class Switch:
    """Enables and disables one server; callers at the same time share one attempt (E-2).

    `changed` is called when the server has joined, and when it has gone. `stored` is where its login is kept.
    """

    def __init__(
        self,
        name: str,
        entry: CatalogEntry,
        deadlines: Deadlines,
        classifier: EnableClassifier,
        changed: Callable[[], None],
        environment: Mapping[str, str] = os.environ,
        witness: Witness = witness_nothing,
        stored: StoredLogin | None = None,
    ) -> None:
        self.name = name
        self._stored = stored
        self.entry = entry
        self.deadlines = deadlines
        self.joined: Joined | None = None
        self._environment = environment
        self._witness = witness
        self._classifier = classifier
        self._changed = changed
        self._kept = False
        self._opens_older = False
        self._closed = False
        self._attempt: Attempt | None = None
        self._last: tuple[str, EnableOutcome] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> SwitchState:
        """The state of the server."""
        if self._attempt is not None:
            return SwitchState.CONNECTING
        if self.joined is not None and self.joined.upstream.state == "connected":
            return SwitchState.CONNECTED
        return SwitchState.FAILED if self._kept else SwitchState.ABSENT

    @property
    def awaits_consent(self) -> bool:
        """Whether a person is being asked now."""
        return self._attempt is not None and self._attempt.awaits_consent

    @property
    def unset(self) -> tuple[str, ...]:
        """The variables that the server needs and that are not set."""
        return unset(self.entry, self._environment)

    async def enable(
        self, asker: Asker, consent_id: str = "", answer: ConsentAnswer | None = None
    ) -> EnableOutcome | ConsentRequest:
        """Connect the server, or join an attempt that is under way.

        An answer to a consent request carries the id of the request, and gets the outcome of that attempt, even if
        the attempt has ended since. A caller that cannot join an ending attempt starts the next one.
        """
        while self._attempt is not None and not self._attempt.is_open_to(asker):
            await asyncio.wait({self._attempt.ended})
        if self._closed:
            return EnableOutcome(end=EnableEnd.CANCELLED)
        if consent_id and self._last is not None and self._last[0] == consent_id:
            return self._last[1]
        attempt = self._attempt
        if attempt is not None and consent_id == attempt.consent_id and answer is not None:
            attempt.take_answer(answer)
        if attempt is None and self.joined is not None and self.state is SwitchState.CONNECTED:
            return EnableOutcome(was_connected=True, upstream=self.joined.upstream)
        if answer is ConsentAnswer.DECLINED and (attempt is None or consent_id != attempt.consent_id):
            # The request belongs to an attempt that ended long ago: a new one would ask a user again who has declined.
            return EnableOutcome(authorization=EnableAuthorization.DECLINED)
        if attempt is None and (missing := self.unset):
            return EnableOutcome(variables=missing)
        if attempt is None:
            attempt = self._attempt = Attempt(
                self.name, Limits(self.deadlines.enable_seconds, self.deadlines.dialog_seconds)
            )
            self._begin(self._run_attempt(attempt), "attempt")
        return await attempt.outcome(asker)

    async def disable(self) -> SwitchState:
        """Disable the server, end an attempt that is under way, forget its login, and return the state before."""
        before = await self._end()
        if self._stored is not None:
            try:
                await self._stored.remove()
            except StoreUnavailable as error:
                words = "the stored login of `%s` cannot be removed: %s"
                _logger.warning(words, self.name, error, extra=fields(server=self.name))
        return before

    async def _end(self) -> SwitchState:
        """End the connection, or an attempt that is under way, and return the state before."""
        before = self.state
        if self._attempt is not None:
            self._attempt.stop()
            await asyncio.wait({self._attempt.ended})
        elif self._kept:
            self._remove()
        return before

    def take(self, entry: CatalogEntry, deadlines: Deadlines) -> None:
        """Apply an edit of the entry that leaves how the server is reached."""
        self.entry, self.deadlines = entry, deadlines
        if self.joined is not None:
            self.joined = Joined(entry.server, self.joined.upstream)
            self.joined.upstream.set_deadlines(deadlines.of(entry))

    async def close(self) -> None:
        """Disable it for good, and return when nothing is left."""
        self._closed = True
        await self._end()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _run_attempt(self, attempt: Attempt) -> None:
        """Connect, decide whether the entry stays, and release all who wait, whatever happens (E-7)."""
        redirect: Redirect | None = None
        upstream: Upstream | None = None
        outcome, kept = attempt.failed_outcome(Failure(_FAULT)), False
        # It may have been unset since the attempt was made.
        missing = self.unset
        try:
            if missing:
                # As if there had been no attempt: the state stays.
                outcome, kept = EnableOutcome(variables=missing), self._kept
                return
            redirect = Redirect(self.entry.oauth.redirect_port) if self.entry.oauth else None
            upstream = self._upstream(attempt, redirect)
            outcome, kept = await self._classifier.classify(await attempt.connect(upstream))
        except Unfillable as error:
            unfillable = Failure(str(error), kind=LoadFailure.BAD_CONFIG, phase=LoadPhase.CONFIG)
            outcome, kept = await self._classifier.classify(attempt.failed_outcome(unfillable))
        except OSError:
            outcome, kept = await self._classifier.classify(attempt.failed_outcome(_PORT_TAKEN))
        except Exception:
            _logger.exception("the attempt to connect `%s` failed", self.name, extra=fields(server=self.name))
        finally:
            # The next attempt, which may start as soon as this one is settled, may need the port.
            await attempt.close()
            if redirect is not None:
                await redirect.close()
            if attempt.stopped:
                outcome, kept = attempt.cancelled_outcome(), False
            self._settle(attempt, outcome, upstream if kept and outcome.end is EnableEnd.CONNECTED else None, kept=kept)
            if upstream is not None:
                self._opens_older = upstream.opens_older
            if upstream is not None and (self.joined is None or self.joined.upstream is not upstream):
                await upstream.close()

    def _settle(self, attempt: Attempt, outcome: EnableOutcome, upstream: Upstream | None, *, kept: bool) -> None:
        """Move to the state after an attempt in one step, so that no intermediate state is visible."""
        earlier = self.joined
        self._attempt, self._kept = None, kept
        if upstream is not None:
            self.joined = Joined(self.entry.server, upstream)
        elif not kept:
            self.joined = None
        if attempt.was_returned:
            self._last = (attempt.consent_id, outcome)
        attempt.ended.set_result(outcome)
        if earlier is not self.joined:
            if earlier is not None:
                self._begin(earlier.upstream.close(), "closing")
            self._changed()

    def _remove(self) -> None:
        earlier, self.joined, self._kept = self.joined, None, False
        if earlier is not None:
            earlier.upstream.disconnect()
            self._begin(earlier.upstream.close(), "closing")
            self._changed()

    def _upstream(self, attempt: Attempt, redirect: Redirect | None) -> Upstream:
        authorization = self._authorization(attempt, redirect) if redirect is not None else None
        deadlines = self.deadlines.of(self.entry)
        return Upstream(
            self.name,
            target_of(self.entry, self._environment, authorization),
            open_seconds=deadlines.open_seconds,
            call_seconds=deadlines.call_seconds,
            call_max_seconds=deadlines.call_max_seconds,
            refresh_seconds=deadlines.refresh_seconds,
            once_within=self.deadlines.enable_seconds * 2 + self.deadlines.dialog_seconds,
            opens_older=self._opens_older,
            witness=self._witness,
        )

    def _authorization(self, attempt: Attempt, redirect: Redirect) -> Authorization:
        entry = fill(self.entry, self._environment)
        return Authorization(
            entry.url or "",
            redirect.uri,
            lambda url: attempt.authorize(url, redirect),
            client_id=entry.oauth.client_id if entry.oauth else None,
            client_secret=entry.oauth.client_secret if entry.oauth else None,
            stored=self._stored,
            waits=attempt.wait_for_other,
        )

    def _begin(self, work: Coroutine[Any, Any, None], what: str) -> None:
        begin_task(work, self._tasks, f"{what} {self.name}")


_REACHING = ("command", "args", "env", "env_file", "cwd", "url", "headers", "type", "oauth")
"""The keys of an entry that say how its server is reached; with other values it is another server."""


class Catalog:
    """One switch for each entry; use it in one event loop.

    `changed` is called with the name of a server when it has joined, and when it has gone, and `witness` is awaited
    with each list of tools of a server before it counts.
    """

    def __init__(
        self,
        policy: PolicyClient,
        changed: Callable[[str], None],
        environment: Mapping[str, str] = os.environ,
        witness: Witness = witness_nothing,
    ) -> None:
        self._classifier = EnableClassifier(policy)
        self._report_change = changed
        self._environment = environment
        self._witness = witness
        self.switches: dict[str, Switch] = {}
        """The switches by name, in the order of the config."""
        self._closing: set[asyncio.Task[None]] = set()
        self.joined: Mapping[str, Joined] = MappingProxyType({})
        """The enabled servers by name; a new mapping whenever they change."""

    def apply(self, config: Config) -> None:
        """Apply the catalog of a config; enabled servers stay enabled, unless they are reached differently now."""
        earlier, self.switches = self.switches, {}
        for name, entry in config.catalog.items():
            switch = earlier.get(name)
            if switch is None or _address_of(switch.entry) != _address_of(entry):
                switch = self._switch(name, entry, config)
            switch.take(entry, config.deadlines)
            self.switches[name] = switch
        for name, switch in earlier.items():
            if self.switches.get(name) is not switch:
                begin_task(switch.close(), self._closing, f"closing {name}")
        self._gather()

    async def close(self) -> None:
        """Disable every server, and return when nothing is left of any."""
        switches, self.switches = self.switches, {}
        await asyncio.gather(*(switch.close() for switch in switches.values()), *self._closing, return_exceptions=True)

    def _switch(self, name: str, entry: CatalogEntry, config: Config) -> Switch:
        def note_change() -> None:
            self._gather()
            self._report_change(name)

        environment = with_secrets(config.secrets, self._environment) if config.secrets else self._environment
        stored = StoredLogin(config.path, name, in_keyring=config.tokens == "keyring")
        witness = self._witness
        return Switch(name, entry, config.deadlines, self._classifier, note_change, environment, witness, stored)

    def _gather(self) -> None:
        """Replace the mapping of enabled servers if it has changed."""
        joined = {name: switch.joined for name, switch in self.switches.items() if switch.joined is not None}
        if joined != self.joined:
            self.joined = MappingProxyType(joined)


def _address_of(entry: CatalogEntry) -> tuple[object, ...]:
    return tuple(getattr(entry, key) for key in _REACHING)
