"""`call_tool`: calls a tool of an upstream that the policy lets through, or says why it cannot be called (A.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult

from callability.adapter import InvalidArgument, Phrases, error_result, rejection, unknown_tool
from callability.contract.vocabulary import EDIT_LABELS, MAX_BYTES, byte_length
from callability.gateway.call_records import note_unknown, record_call
from callability.gateway.inventory import KnownServer
from callability.gateway.observability import Metrics, log_call
from callability.gateway.tools.decisions import AgentView, Result, refuse_undeclared, text_of
from callability.gateway.upstream.connection import Connection
from callability.gateway.upstream.failure import NOT_SENT, Failure, UpstreamError, UpstreamRefusal
from callability.gateway.upstream.upstream import Upstream
from callability.records.recorder import Recorder
from callability.v1.callability_service_pb2 import CheckToolResponse

if TYPE_CHECKING:
    from callability.records.shadow import Shadow

LOOKS = 3
"""How often a tool is judged again because its server lists other tools meanwhile, or because an edit was applied."""
KEEPS_CHANGING = "Not done: the gateway's config or approvals were edited again and again meanwhile. Try again."
_CONSENT_AGAIN = (
    "Access denied. The user can authorize it again, with an account that has access: call `disable_server`, then"
    " `enable_server`."
)
READ_SECONDS = 10.0
"""How long a call waits for an announced change of its server's tools to be read."""
_UNREAD = Failure("announced a change of its tools and does not list them")


class ToolCalls:
    """Calls tools of upstreams for one agent."""

    def __init__(
        self,
        view: AgentView,
        metrics: Metrics,
        latest: Callable[[], ToolCalls] | None = None,
        recorder: Recorder | None = None,
        shadow: Shadow | None = None,
    ) -> None:
        self._latest = latest or (lambda: self)
        """Returns what currently calls tools for the agent: another object after an edit."""
        self._metrics = metrics
        self._view = view
        self._recorder = recorder
        self._shadow = shadow

    async def call_tool(
        self,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        progress: ProgressFnT | None = None,
    ) -> Result | CallToolResult:
        """Call a tool of an upstream, or say why it cannot be called (A.5).

        Raises:
            InvalidArgument: an argument is not as the schema says.
            PolicyUnavailable: the service gave no answer; nothing was called.
        """
        refuse_undeclared(arguments, "name", "arguments")
        name = text_of(arguments, "name")
        given = arguments.get("arguments")
        if given is not None and not isinstance(given, dict):
            raise InvalidArgument("`arguments` must be an object")
        server, colon, tool = name.partition(":")
        if not colon or not tool or server not in self._view.inventory.servers:
            names = (server, tool) if colon else ("", name)
            return await record_call(self._recorder, self._view.agent, *names, self._unknown(name))
        answering = log_call(self._view.agent, server, tool, self._call(server, tool, given, meta, progress))
        return await record_call(self._recorder, self._view.agent, server, tool, answering, self._shadow)

    async def expected_answer(self, server: str, tool: str) -> Result | None:
        """Return what a call would be answered now, without calling or opening anything; None if it would be sent.

        Raises:
            PolicyUnavailable: the service gave no answer.
        """
        if server not in self._view.inventory.servers:
            return await self._unknown(f"{server}:{tool}")
        upstream, known = self._view.inventory.upstream(server), self._view.inventory.known(server)
        is_known = byte_length(tool) <= MAX_BYTES if upstream is None else tool in known.by_name
        if not is_known and known.connected:
            return await self._unknown(f"{server}:{tool}")
        if is_known and (refused := await self._reject(known, tool)):
            return refused
        if upstream is not None and upstream.last_failure is not None:
            error = UpstreamError(server, upstream.last_failure)
            return await self._not_connected(error, server, "is not connected")
        return None

    async def _call(
        self,
        server: str,
        tool: str,
        given: Mapping[str, Any] | None,
        meta: Mapping[str, Any] | None,
        progress: ProgressFnT | None,
    ) -> Result | CallToolResult:
        """Call a tool if the files let it through as they are when it is sent: after an edit, it is decided again."""
        calls = self
        for _ in range(LOOKS):
            allowed = await calls._decide_with_fresh_list(server, tool)
            latest = self._latest()
            if latest is calls:
                return await calls._send_where_allowed(server, tool, allowed, given, meta, progress)
            calls = latest
        edited = error_result(KEEPS_CHANGING) if server in calls._view.inventory.servers else None
        return await calls._send_where_allowed(server, tool, edited, given, meta, progress)

    async def _send_where_allowed(
        self,
        server: str,
        tool: str,
        allowed: tuple[Upstream, Connection] | Result | None,
        given: Mapping[str, Any] | None,
        meta: Mapping[str, Any] | None,
        progress: ProgressFnT | None,
    ) -> Result | CallToolResult:
        """Return the answer to a call for which it is decided where it may go."""
        if allowed is None:
            return await self._unknown(f"{server}:{tool}")
        if isinstance(allowed, dict):
            if status := (allowed.get("structuredContent") or {}).get("status"):
                self._metrics.count_rejection(str(status))
                self._metrics.refused_calls.count(self._view.agent, server, tool, str(status))
            return allowed
        upstream, connection = allowed
        try:
            return await self._passed_on(upstream.call(tool, given, on=connection, meta=meta, progress=progress))
        except UpstreamError as error:
            return self._not_done(server, error)

    async def _decide_with_fresh_list(self, server: str, tool: str) -> tuple[Upstream, Connection] | Result | None:
        """Return what `_allowed` does, or the answer if the server does not list its tools in time.

        Raises:
            PolicyUnavailable: the service gave no answer.
        """
        try:
            return await self._decide(server, tool)
        except UpstreamError as error:
            return self._not_done(server, error)

    def _not_done(self, server: str, error: UpstreamError) -> Result:
        said = f" It said: {error.message}" if isinstance(error, UpstreamRefusal) and error.message else ""
        return error_result(f"Not done: server {error}.{said}{self._who(server, error.failure)}")

    async def _passed_on(self, calling: Awaitable[CallToolResult]) -> CallToolResult:
        """Return the answer of a server, and count it.

        Raises:
            UpstreamError: there is none.
        """
        outcome, started = "cancelled", perf_counter()
        try:
            answer = await calling
            outcome = "tool_error" if answer.is_error else "answered"
            return answer
        except UpstreamError as error:
            outcome = "refused_call" if isinstance(error, UpstreamRefusal) else error.failure.kind.value
            raise
        finally:
            self._metrics.passed_on(outcome, perf_counter() - started)

    def _who(self, server: str, failure: Failure) -> str:
        """Return who can act on a call that failed."""
        again = self._again(server)
        if again or not failure.is_denial:
            return again
        upstream = self._view.inventory.upstream(server) if server in self._view.inventory.servers else None
        if upstream is not None and upstream.has_consent:
            return f" {_CONSENT_AGAIN}"
        return f" Access denied. Only the operator can {self._view.phrases.about(server)['grant_access']}."

    def _again(self, server: str) -> str:
        """Return how to reconnect a server of the catalog that lost its connection: a call connects none (E-4)."""
        upstream = self._view.inventory.upstream(server) if self._view.inventory.is_joined(server) else None
        lost = upstream is not None and upstream.state == "failed"
        return " Connect it again with `enable_server`." if lost else ""

    async def _decide(self, server: str, tool: str) -> tuple[Upstream, Connection] | Result | None:
        """Return where a tool may be called, its rejection, or None for a tool that does not exist.

        If a tool can be judged only after its server has listed it, the opening that is under way is awaited.

        Raises:
            UpstreamError: the server does not list its tools in time.
            PolicyUnavailable: the service gave no answer.
        """
        if server not in self._view.inventory.servers:
            return None
        upstream = self._view.inventory.upstream(server)
        if upstream is not None and await self._needs_list(server, tool):
            try:
                await upstream.wait_until_open()
            except UpstreamError as error:
                return await self._not_connected(error, server, "is not connected, so its tools are not known")
            await self._settle(upstream)
        return await self._judge(server, tool, upstream)

    async def _judge(
        self, server: str, tool: str, upstream: Upstream | None
    ) -> tuple[Upstream, Connection] | Result | None:
        """Return what `_allowed` does.

        The tool that is called is the tool that was judged: what a new connection lists, and what the server announced,
        is read and judged before. After a wait the policy is asked again, because it may have been edited meanwhile.
        Nothing is opened for an unknown tool, nor before the policy lets the call through.

        Raises:
            UpstreamError: the server does not list its tools in time.
            PolicyUnavailable: the service gave no answer.
        """
        for _ in range(LOOKS):
            if server not in self._view.inventory.servers:
                return None
            known = self._view.inventory.known(server)
            exists = byte_length(tool) <= MAX_BYTES if upstream is None else tool in known.by_name
            if not exists:
                return None
            if refused := await self._reject(known, tool):
                return refused
            if upstream is None:
                return error_result(f"Not done: server `{server}` is disabled in the gateway's config.")
            waits = upstream.state != "connected" or not upstream.is_settled
            try:
                connection = await upstream.connect()
            except UpstreamError as error:
                return await self._not_connected(error, server, "is not connected")
            await self._settle(upstream)
            if waits and self._is_current(known) and (refused := await self._reject(known, tool)):
                return refused
            if self._is_current(known):
                return upstream, connection
        return error_result(f"Not done: server `{server}` keeps changing its tools; the call was not sent.")

    def _is_current(self, known: KnownServer) -> bool:
        """Return whether a server is connected, and what is known of it has not changed."""
        inventory, server = self._view.inventory, known.facts.name
        return known.connected and server in inventory.servers and inventory.known(server) is known

    async def _reject(self, known: KnownServer, tool: str) -> Result | None:
        """Return the rejection of a call, or None if the policy lets it through.

        Raises:
            PolicyUnavailable: the service gave no answer.
        """
        response = await self._view.decisions.check(known, tool)
        about = await self._about(known, tool, response)
        refusal = known.facts.refusals.get(tool, "")
        return rejection(response, known.facts.name, tool, phrases=about, refusal=refusal, facts_from_config=True)

    async def _needs_list(self, server: str, tool: str) -> bool:
        """Return whether a tool can be judged only after its server has listed it.

        Either its name is not known, or only its name is known and the policy depends on its annotations.

        Raises:
            PolicyUnavailable: the service gave no answer.
        """
        known = self._view.inventory.known(server)
        if tool not in known.by_name:
            return True
        if known.connected or known.by_name[tool] is not None:
            return False
        response = await self._view.decisions.check(known, tool)
        return any(fact.startswith("annotations.") for fact in response.verdict.unread)

    async def _about(self, known: KnownServer, tool: str, response: CheckToolResponse) -> Phrases:
        """Return the phrases about a tool; if labels lock it, with those that would lift the lock.

        Raises:
            PolicyUnavailable: the service gave no answer.
        """
        server = known.facts.name
        remaining = {change.action for step in response.remaining.steps for change in step.changes}
        if f"{{{EDIT_LABELS.name}}}" not in response.words.rejection and EDIT_LABELS.name not in remaining:
            return self._view.phrases.about(server, tool)
        labels = await self._view.decisions.labels_that_lift(known, tool)
        return self._view.phrases.about(server, tool, labels=labels, agent=self._view.agent)

    async def _settle(self, upstream: Upstream) -> None:
        """Read the changes of the tools that the server announced.

        Raises:
            UpstreamError: it does not list its tools in time.
        """
        if not upstream.is_settled:
            try:
                async with asyncio.timeout(READ_SECONDS):
                    await upstream.tools_current()
            except TimeoutError:
                raise UpstreamError(upstream.name, _UNREAD, NOT_SENT) from None

    async def _not_connected(self, error: UpstreamError, server: str, state: str) -> Result:
        """Return the answer to a call on a server that could not be opened: why, and who can do something (L-7)."""
        await self._view.loads.classified_soon(server)
        messages = self._view.loads.messages([server], self._view.phrases.about(server)).values()
        why = " ".join(messages) or f"It {error.failure.words}.{self._again(server)}"
        return error_result(f"Not done: server `{server}` {state}{NOT_SENT}. {why}")

    async def _unknown(self, name: str) -> Result:
        """Return the answer about a tool that does not exist, or whose server is in the catalog and not enabled.

        Raises:
            PolicyUnavailable: the service gave no answer.
        """
        server = name.partition(":")[0]
        note_unknown(hidden=self._view.inventory.hides(server))
        if server in self._view.phrases.catalog and server not in self._view.inventory.servers:
            return error_result(
                f"Not done: server `{server}` is in the catalog and not enabled, so its tools are not known{NOT_SENT}."
                " `enable_server` connects it."
            )
        judgement = await self._view.decisions.judge(self._view.inventory.known_servers().values())
        return unknown_tool(name, (tool.name for tool in judgement.callable))
