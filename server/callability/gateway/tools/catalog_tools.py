"""The gateway's tools about the catalog: `search_servers`, `enable_server` and `disable_server` (spec C)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Protocol

from mcp.shared.dispatcher import ProgressFnT
from mcp_types import InputRequiredResult

from callability.adapter import InvalidArgument, checked_limit, enable_result, error_result, tool_result
from callability.contract.finding import as_code
from callability.contract.vocabulary import EnableEnd
from callability.gateway.catalog.attempt import Asker, ConsentAnswer, ConsentRequest, EnableOutcome
from callability.gateway.catalog.catalog import Catalog, Switch, SwitchState
from callability.gateway.meaning import Indexes
from callability.gateway.tool_index import SearchDocument
from callability.gateway.tools.decisions import AgentView, Result, refuse_undeclared, text_of
from callability.gateway.upstream.failure import UpstreamError


class Dialogs(Asker, Protocol):
    """How the caller of a tool can ask its user, and what it was answered."""

    @property
    def consent_id(self) -> str:
        """The id of the request that the call answers; empty if it answers none."""

    @property
    def answer(self) -> ConsentAnswer | None:
        """What the user did with that request."""

    def request_of(self, question: ConsentRequest) -> InputRequiredResult:
        """Return the result that requests consent."""


class NoDialogs:
    """A caller without a user who could be asked."""

    can_ask = False
    asks_by_returning = False
    consent_id = ""
    answer: ConsentAnswer | None = None

    def request_of(self, question: ConsentRequest) -> InputRequiredResult:
        """Never called: a caller that cannot ask gets no request."""
        raise NotImplementedError(question.server)

    async def ask(self, question: ConsentRequest) -> ConsentAnswer | None:
        """Ask nobody."""
        return None


PROGRESS_SECONDS = 5.0
"""How often an agent that waits for an enable gets a progress report."""
_AWAITING_CONSENT, _CONNECTING = "waiting for the user's authorization", "connecting"


class CatalogTools:
    """Answers for one agent: to it, the catalog has the servers that it may see, and no others (FR-007)."""

    def __init__(
        self,
        catalog: Catalog,
        view: AgentView,
        latest: Callable[[], CatalogTools | None],
    ) -> None:
        self._latest = latest
        """Returns what currently answers the agent: another object after an edit."""
        self._catalog = catalog
        self._view = view
        self._indexes = Indexes()

    @property
    def switches(self) -> dict[str, Switch]:
        """The switches of the servers that the agent may see, by name."""
        return {name: switch for name, switch in self._catalog.switches.items() if self._view.inventory.sees(name)}

    async def enable_server(
        self, arguments: Mapping[str, Any], dialogs: Dialogs, progress: ProgressFnT | None = None
    ) -> Result | InputRequiredResult:
        """Connect a server of the catalog, and return the outcome (E-1).

        Raises:
            InvalidArgument: an argument is not as the schema says.
            PolicyUnavailable: the service gave no answer.
        """
        refuse_undeclared(arguments, "id")
        name = text_of(arguments, "id")
        switch = self.switches.get(name)
        if switch is None and name in self._view.inventory.servers:
            return await self._owned_by_operator(name)
        if switch is None:
            return await self._result(name, EnableOutcome(known=False))
        async with _reporting(switch, progress):
            outcome = await switch.enable(dialogs, dialogs.consent_id, dialogs.answer)
        if isinstance(outcome, ConsentRequest):
            return dialogs.request_of(outcome)
        latest = self._latest()
        return await (latest if latest is not None and name in latest.switches else self)._result(name, outcome)

    async def disable_server(self, arguments: Mapping[str, Any]) -> Result:
        """Disconnect a server of the catalog, or end the attempt to connect it (E-6).

        Raises:
            InvalidArgument: an argument is not as the schema says.
        """
        refuse_undeclared(arguments, "id")
        name = text_of(arguments, "id")
        switch = self.switches.get(name)
        if switch is None:
            return error_result(
                f"Not done: the catalog has no server {as_code(name)}. List its servers with `search_servers`."
            )
        outcome = {
            SwitchState.ABSENT: "was not enabled; nothing was done",
            SwitchState.CONNECTING: "is not enabled: the attempt to connect it was cancelled",
            SwitchState.CONNECTED: "is disabled now; its tools are gone",
            SwitchState.FAILED: "is disabled now; it was not connected",
        }[await switch.disable()]
        return tool_result({"server": name, "state": str(switch.state)}, text=f"Server {as_code(name)} {outcome}.")

    async def search_servers(self, arguments: Mapping[str, Any]) -> Result:
        """Find servers of the catalog by a query, or list them all; this connects none (E-4).

        Raises:
            InvalidArgument: an argument is not as the schema says.
        """
        refuse_undeclared(arguments, "query", "limit")
        # A client may send null for what it leaves out.
        given = {"query": "", "limit": 15} | {name: value for name, value in arguments.items() if value is not None}
        query, limit = given["query"], checked_limit(given["limit"])
        if not isinstance(query, str):
            raise InvalidArgument("`query` must be text")
        switches = self.switches
        names = await self._find(switches, query) if query.strip() else tuple(switches)
        entries = [_entry(switches[name]) for name in names[:limit]]
        return tool_result({"servers": entries, "total": len(names)})

    async def _find(self, switches: Mapping[str, Switch], query: str) -> tuple[str, ...]:
        documents = (SearchDocument(name, "", "", switch.entry.description or "") for name, switch in switches.items())
        index = await self._indexes.of(tuple(documents))
        return tuple(hit.document.name for hit in index.search(query))

    async def _owned_by_operator(self, name: str) -> Result:
        """Return the state of a server of `mcpServers`: only its owner enables it, and no agent connects it (E-10)."""
        upstream, phrases = self._view.inventory.upstream(name), self._view.phrases.about(name)
        if upstream is None:
            return error_result(
                f"Not done: server {as_code(name)} is disabled in the gateway's config, and no agent can enable it. Ask"
                f" the user to {phrases['enable_server']}."
            )
        # Wait for an opening that is under way; start none.
        with suppress(UpstreamError):
            await upstream.wait_until_open()
        if upstream.state == "connected":
            facts = EnableOutcome(was_connected=True).facts(callable_tools=True)
            response = await self._view.decisions.enable(name, facts)
            if upstream.state == "connected":
                return enable_result(response, name, phrases=phrases)
        await self._view.loads.classified_soon(name)
        messages = " ".join(self._view.loads.messages([name], phrases).values())
        why = messages or f"It {upstream.last_failure.words if upstream.last_failure else 'is being connected again'}."
        return error_result(
            f"Not done: server {as_code(name)} is not connected. The gateway itself connects it, not `enable_server`."
            f" {why} Do not call its tools."
        )

    async def _result(self, name: str, outcome: EnableOutcome) -> Result:
        """Return what the agent reads; a connection that has ended meanwhile is not called one (E-9)."""
        locks: dict[str, str] | None = None
        callable_tools = True
        phrases = self._view.phrases.about(name)
        outcome = self._current(name, outcome)
        if outcome.end is EnableEnd.CONNECTED:
            judgement = await self._view.decisions.judge([self._view.inventory.known(name)])
            callable_tools = bool(judgement.callable)
            locks = judgement.remediation(judgement.locked, phrases)
        response = await self._view.decisions.enable(name, outcome.facts(callable_tools=callable_tools))
        if self._current(name, outcome) is not outcome:
            return await self._result(name, outcome)
        return enable_result(
            response,
            name,
            phrases=phrases,
            variables=outcome.variables,
            locks=locks,
            load=outcome.load,
            reason=outcome.failure.words if outcome.failure else "",
        )

    def _current(self, name: str, outcome: EnableOutcome) -> EnableOutcome:
        """Return an outcome as it is now: its connection may have been switched off, or lost, since."""
        if not outcome.was_connected and outcome.end is not EnableEnd.CONNECTED:
            return outcome
        joined = self._catalog.joined.get(name)
        if joined is None or joined.upstream is not outcome.upstream:
            return replace(outcome, was_connected=False, end=EnableEnd.CANCELLED)
        lost = joined.upstream.last_failure
        return outcome if lost is None else replace(outcome, was_connected=False, end=EnableEnd.FAILED, failure=lost)


def _entry(switch: Switch) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": switch.name}
    if switch.entry.description is not None:
        entry["description"] = switch.entry.description
    entry |= {"type": switch.entry.way, "state": str(switch.state)}
    if switch.entry.oauth is not None:
        entry["authorization"] = "oauth"
    if switch.unset:
        entry["unset"] = list(switch.unset)
    return entry


@asynccontextmanager
async def _reporting(switch: Switch, progress: ProgressFnT | None) -> AsyncIterator[None]:
    """Report progress to an agent that waits, so that it does not give up the call."""
    if progress is None:
        yield
        return
    reporting = asyncio.create_task(_report(switch, progress))
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.wait({reporting})


async def _report(switch: Switch, progress: ProgressFnT) -> None:
    step = 0
    while True:
        step += 1
        await progress(step, None, _AWAITING_CONSENT if switch.awaits_consent else _CONNECTING)
        await asyncio.sleep(PROGRESS_SECONDS)
