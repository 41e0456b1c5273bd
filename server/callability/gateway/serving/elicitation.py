"""Dialogs in the agent's session, through elicitation: whether it can show one, and how, in both revisions of MCP."""

from __future__ import annotations

import logging
from typing import Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import NoBackChannelError
from mcp_types import (
    CallToolRequestParams,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from callability.gateway.catalog import ConsentAnswer, ConsentRequest

KEY = "authorization"
"""The key of the request and its answer in MCP 2026-07-28."""
_NOTHING = {"type": "object", "properties": {}}
_logger = logging.getLogger(__name__)


class SessionDialogs:
    """Asks the user of the agent that made the current call."""

    def __init__(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> None:
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
        return _answer(given) if isinstance(given, ElicitResult) else None

    def returned(self, question: ConsentRequest) -> InputRequiredResult:
        """Return the result that requests consent."""
        return InputRequiredResult(
            input_requests={KEY: ElicitRequest(params=_params(self._elicitation, question))}, request_state=question.id
        )

    async def ask(self, question: ConsentRequest) -> ConsentAnswer | None:
        """Show the dialog, and return what the user did, or None if it could not be shown."""
        session, call = self._context.session, self._context.request_id
        params = _params(self._elicitation, question)
        try:
            if isinstance(params, ElicitRequestURLParams):
                result = await session.elicit_url(params.message, params.url, question.id, related_request_id=call)
            else:
                result = await session.elicit_form(params.message, params.requested_schema, related_request_id=call)
        except (MCPError, NoBackChannelError, ValidationError) as error:
            _logger.warning("an agent that can show dialogs did not show one: %s", type(error).__name__)
            return None
        return _answer(result)


def _params(
    capability: ElicitationCapability | None, question: ConsentRequest
) -> ElicitRequestURLParams | ElicitRequestFormParams:
    """Return the dialog: one that opens the page by itself, if the client supports that."""
    message = f"The MCP server `{question.server}` needs your authorization, on a page of its provider."
    if capability is not None and capability.url is not None:
        return ElicitRequestURLParams(message=message, url=question.url, elicitation_id=question.id)
    message = f"{message} Open it in a browser on the machine of the gateway, and accept here: {question.url}"
    return ElicitRequestFormParams(message=message, requested_schema=_NOTHING)


def _answer(result: ElicitResult) -> ConsentAnswer:
    """Return the answer; a dialog that was closed without one is a decline, so that nobody is asked twice (E-2)."""
    return ConsentAnswer.ACCEPTED if result.action == "accept" else ConsentAnswer.DECLINED
