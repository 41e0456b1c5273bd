"""The gateway as an MCP server: one factory for both transports, for every revision that the library supports.

Dialogs and progress go through the agent's session; an upstream's answer is written as it came, because the library
would leave out nulls and what MCP does not define.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any

import mcp_types
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import NoBackChannelError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import HTTPConnection

from callability import __version__
from callability.client import PolicyUnavailable
from callability.gateway.agents import AgentRouter
from callability.gateway.catalog.attempt import ConsentAnswer, ConsentRequest
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.tools.preflight import EXTENSION, SETTINGS, MalformedRider, RequiredTools
from callability.gateway.upstream.tool_call import PassedOn
from callability.process import logs

KEY = "authorization"
"""The key of the request and its answer in MCP 2026-07-28."""
SESSION = "mcp-session-id"
"""The header with the id of a session over HTTP."""
_NOTHING = {"type": "object", "properties": {}}
_logger = logging.getLogger(__name__)


class SessionDialogs:
    """Asks the user of the agent that made the current call."""

    def __init__(self, context: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams) -> None:
        self._context = context
        self._params = params
        capabilities = context.session.client_capabilities
        self._elicitation = capabilities.elicitation if capabilities else None

    @property
    def can_ask(self) -> bool:
        """Whether the session can show a dialog."""
        return self._elicitation is not None and (self.asks_by_returning or self._context.session.can_send_request)

    @property
    def asks_by_returning(self) -> bool:
        """Whether the request is returned as the result of the call, as in MCP 2026-07-28."""
        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def consent_id(self) -> str:
        """The id of the request that the call answers; empty if it answers none."""
        return self._params.request_state or ""

    @property
    def answer(self) -> ConsentAnswer | None:
        """What the user did with that request; None if the call answers none."""
        given = (self._params.input_responses or {}).get(KEY)
        return _consent_of(given) if isinstance(given, mcp_types.ElicitResult) else None

    def request_of(self, question: ConsentRequest) -> mcp_types.InputRequiredResult:
        """Return the result that requests consent."""
        return mcp_types.InputRequiredResult(
            input_requests={KEY: mcp_types.ElicitRequest(params=_params(self._elicitation, question))},
            request_state=question.id,
        )

    async def ask(self, question: ConsentRequest) -> ConsentAnswer | None:
        """Show the dialog, and return what the user did, or None if it could not be shown."""
        session, call = self._context.session, self._context.request_id
        params = _params(self._elicitation, question)
        try:
            if isinstance(params, mcp_types.ElicitRequestURLParams):
                result = await session.elicit_url(params.message, params.url, question.id, related_request_id=call)
            else:
                result = await session.elicit_form(params.message, params.requested_schema, related_request_id=call)
        except (MCPError, NoBackChannelError, ValidationError) as error:
            _logger.warning("an agent that can show dialogs did not show one: %s", type(error).__name__)
            return None
        return _consent_of(result)


def _params(
    capability: mcp_types.ElicitationCapability | None, question: ConsentRequest
) -> mcp_types.ElicitRequestURLParams | mcp_types.ElicitRequestFormParams:
    """Return the dialog: one that opens the page by itself, if the client supports that."""
    message = f"The MCP server `{question.server}` needs your authorization, on a page of its provider."
    if capability is not None and capability.url is not None:
        return mcp_types.ElicitRequestURLParams(message=message, url=question.url, elicitation_id=question.id)
    message = f"{message} Open it in a browser on the machine of the gateway, and accept here: {question.url}"
    return mcp_types.ElicitRequestFormParams(message=message, requested_schema=_NOTHING)


def _consent_of(result: mcp_types.ElicitResult) -> ConsentAnswer:
    """Return the answer; a dialog that was closed without one is a decline, so that nobody is asked twice (E-2)."""
    return ConsentAnswer.ACCEPTED if result.action == "accept" else ConsentAnswer.DECLINED


MAX_WAITING = 32
"""How many reports of a call wait for an agent that does not read; the oldest goes first."""
MAX_WAITING_CHARACTERS = 1_000_000
"""How many characters their messages have together; the latest report waits whatever its length."""
DELIVERY_SECONDS = 5.0
"""How long an answer waits for the reports before it."""

_Report = tuple[float, float | None, str | None]


@asynccontextmanager
async def progress_of(context: ServerRequestContext[Any], *, wanted: bool) -> AsyncIterator[ProgressFnT | None]:
    """Yield what takes the progress of a call, or None if the agent wants none.

    Progress is passed on in order; what comes before the answer is passed on before it, and nothing after it. An agent
    that reads more slowly than the upstream reports gets the latest reports only.
    """
    if not wanted:
        yield None
        return
    turn, waiting, answered = asyncio.Lock(), deque[_Report](), False

    async def report(progress: float, total: float | None, message: str | None) -> None:
        waiting.append((progress, total, message))
        _drop_oldest(waiting)
        # The library runs a task for each report: one of them sends, and the others must not pile up behind it.
        if turn.locked():
            return
        async with turn:
            while waiting and not answered:
                await context.session.report_progress(*waiting.popleft())

    try:
        yield report
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(DELIVERY_SECONDS), turn:
                pass
        answered = True


def _drop_oldest(waiting: deque[_Report]) -> None:
    while len(waiting) > MAX_WAITING or (
        len(waiting) > 1 and sum(len(message or "") for _, _, message in waiting) > MAX_WAITING_CHARACTERS
    ):
        waiting.popleft()


_ANSWER: ContextVar[PassedOn | None] = ContextVar("answer", default=None)


def note_answer(answer: mcp_types.CallToolResult) -> mcp_types.CallToolResult:
    """Note the answer to the current request if it is an upstream's, and return what the library writes around it."""
    if not isinstance(answer, PassedOn):
        return answer
    _ANSWER.set(answer)
    return mcp_types.CallToolResult(content=[], is_error=answer.is_error)


async def as_it_came(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
    """Write the answer that was noted, with what the protocol adds to it."""
    if ctx.method != "tools/call":
        return await call_next(ctx)
    outer = _ANSWER.set(None)
    try:
        envelope = await call_next(ctx)
        answer = _ANSWER.get()
    finally:
        _ANSWER.reset(outer)
    if answer is None or not isinstance(envelope, dict):
        return envelope
    wire = answer.wire if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else _for_earlier(answer.wire)
    meta = {**wire.get("_meta", {}), **envelope.get("_meta", {})}
    return {**envelope, **wire, **({"_meta": meta} if meta else {})}


def _for_earlier(wire: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as a client of an earlier revision reads it, in which only an object is structured content."""
    structured = wire.get("structuredContent", {})
    if isinstance(structured, dict):
        return wire
    kept = {name: value for name, value in wire.items() if name != "structuredContent"}
    text = {"type": "text", "text": json.dumps(structured, ensure_ascii=False)}
    return {**kept, "content": kept["content"] or [text]}


INSTRUCTIONS = (
    "Find tools with `retrieve_tools` and call them with `call_tool`. Before you tell a user that something is not"
    " possible, ask `retrieve_tools` with `include_disabled: true`: the tool may exist and be switched off."
)
# The metadata of the connection between agent and gateway, and of no other.
_OWN_META = "io.modelcontextprotocol/"
# Of W3C, for whatever takes part in a trace: it would reach servers that the agent does not know.
_BAGGAGE = "baggage"


class _Server(Server[Any]):
    """Announces to clients of MCP 2025-11-25 that the list of tools may change; for those of 2026-07-28 the library
    does.
    """

    def create_initialization_options(self, *_: object, **__: object) -> InitializationOptions:
        return super().create_initialization_options(NotificationOptions(tools_changed=True), {EXTENSION: SETTINGS})


def mcp_server(router: AgentRouter, agent: str = "", session: str = "") -> Server[Any]:
    """Return the MCP server in front of a router; a request without a token is of `agent`.

    A `session` names the only one that it serves.
    """
    list_changed = router.list_changed

    async def on_list_tools(
        context: ServerRequestContext[Any], params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        gateway = router.gateway_for_request(agent)
        facet = await _required_tools(gateway, context, dict((params and params.meta) or {}))
        return mcp_types.ListToolsResult(tools=list(gateway.tools), _meta=facet)

    async def on_call_tool(
        context: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        return await _answer_call(router.gateway_for_request(agent), context, params)

    async def on_subscriptions_listen(
        context: ServerRequestContext[Any], params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        return await list_changed.listen(router.agent_of_request(agent), context, params)

    async def remember_capabilities(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "notifications/initialized":
            list_changed.add_session(router.agent_of_request(agent), ctx.session, _headers(ctx).get(SESSION, session))
        return await call_next(ctx)

    server = _Server(
        "callability",
        version=__version__,
        title="callability gateway",
        instructions=INSTRUCTIONS,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
        on_subscriptions_listen=on_subscriptions_listen,
    )
    server.extensions = {EXTENSION: SETTINGS}
    # First of all, so that what the library reports of a request has its id.
    server.middleware.insert(0, _identify)
    server.middleware += [remember_capabilities, as_it_came]
    return server


async def _identify(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
    """Answer a request under the id that its HTTP header gives, or a new one; no answer has it (FR-002)."""
    with logs.request_id(_headers(ctx).get(logs.REQUEST_ID)):
        return await call_next(ctx)


def _headers(ctx: ServerRequestContext[Any]) -> Mapping[str, str]:
    """Return the headers of a request over HTTP."""
    return ctx.request.headers if isinstance(ctx.request, HTTPConnection) else {}


async def _required_tools(
    gateway: Gateway, context: ServerRequestContext[Any], meta: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the metadata about the tools that a client says it needs; None if it says nothing.

    What is malformed is ignored if the client does not declare the extension, as MCP has it of any unknown metadata.

    Raises:
        MCPError: what a client that declares the extension sends is malformed, or the policy gave no verdict.
    """
    if EXTENSION not in meta:
        return None
    declared = context.session.client_capabilities
    negotiated = declared and EXTENSION in {**(declared.extensions or {}), **(declared.experimental or {})}
    try:
        return {EXTENSION: await gateway.preflight.check(RequiredTools.of(meta[EXTENSION]))}
    except MalformedRider as error:
        if not negotiated:
            return None
        raise MCPError(mcp_types.INVALID_PARAMS, f"`{EXTENSION}` is malformed: {error}") from error
    except PolicyUnavailable as error:
        raise MCPError(mcp_types.INTERNAL_ERROR, f"no verdict was computed: {error}") from error


async def _answer_call(
    gateway: Gateway, context: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams
) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
    meta = dict(params.meta or {})
    async with progress_of(context, wanted=meta.pop("progress_token", None) is not None) as progress:
        passed_on = {key: value for key, value in meta.items() if not key.startswith(_OWN_META) and key != _BAGGAGE}
        answer = await gateway.answer(
            params.name,
            params.arguments or {},
            meta=passed_on,
            progress=progress,
            dialogs=SessionDialogs(context, params),
        )
    return note_answer(answer) if isinstance(answer, mcp_types.CallToolResult) else answer
