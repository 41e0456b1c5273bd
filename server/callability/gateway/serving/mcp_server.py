"""The gateway as an MCP server: one factory for both transports, for every revision that the library supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from starlette.requests import HTTPConnection

from callability import __version__, request_context
from callability.gateway.agents.router import AgentRouter
from callability.gateway.serving.as_it_came import as_it_came, noted
from callability.gateway.serving.elicitation import SessionDialogs
from callability.gateway.serving.http_sessions import SESSION
from callability.gateway.serving.progress import progress_of
from callability.gateway.tools.dispatch import Gateway

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
        return super().create_initialization_options(NotificationOptions(tools_changed=True))


def mcp_server(router: AgentRouter, agent: str = "") -> Server[Any]:
    """Return the MCP server in front of a router; a request without a token is of `agent`."""
    list_changed = router.list_changed

    async def on_list_tools(_: object, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(router.gateway_for_request(agent).tools))

    async def on_call_tool(
        context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        return await _answer(router.gateway_for_request(agent), context, params)

    async def on_subscriptions_listen(
        context: ServerRequestContext[Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        return await list_changed.listen(router.agent_of_request(agent), context, params)

    async def remembered(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "notifications/initialized":
            list_changed.add_session(router.agent_of_request(agent), ctx.session, _headers(ctx).get(SESSION, ""))
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
    # First of all, so that what the library reports of a request has its id.
    server.middleware.insert(0, _identified)
    server.middleware += [remembered, as_it_came]
    return server


async def _identified(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
    """Answer a request under the id that its HTTP header gives, or a new one; no answer has it (FR-002)."""
    with request_context.request_id(_headers(ctx).get(request_context.REQUEST_ID)):
        return await call_next(ctx)


def _headers(ctx: ServerRequestContext[Any]) -> Mapping[str, str]:
    """Return the headers of a request over HTTP."""
    return ctx.request.headers if isinstance(ctx.request, HTTPConnection) else {}


async def _answer(
    gateway: Gateway, context: ServerRequestContext[Any], params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
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
    return noted(answer) if isinstance(answer, CallToolResult) else answer
