"""Records of calls through the gateway: each with the last decision about it, and how it ended."""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from mcp_types import CallToolResult

from callability.client import PolicyUnavailable
from callability.otel.traces import add_to_span
from callability.process import logs
from callability.records.format import Ended, tool_status
from callability.records.recorder import Call, Recorder
from callability.records.shadow import Shadow
from callability.v1.callability_service_pb2 import CheckToolRequest, CheckToolResponse

CallResult = dict[str, Any] | CallToolResult
"""The gateway's own answer as JSON, or the upstream's."""


@dataclass(slots=True)
class _CurrentCall:
    """What is known of the call that this task answers."""

    request: CheckToolRequest | None = None
    response: CheckToolResponse | None = None
    ended: Ended | None = None


_CURRENT: ContextVar[_CurrentCall | None] = ContextVar("recorded_call", default=None)


def note_decision(request: CheckToolRequest, response: CheckToolResponse) -> None:
    """Note a decision about the current call, if there is one; the last one counts."""
    if (call := _CURRENT.get()) is not None:
        call.request, call.response = request, response


def note_unknown(*, hidden: bool) -> None:
    """Note that the tool of the current call does not exist for the agent; `hidden`: its server is out of scope."""
    if (call := _CURRENT.get()) is not None:
        call.request = call.response = None
        call.ended = Ended.OUT_OF_SCOPE if hidden else Ended.UNKNOWN


async def recorded(
    recorder: Recorder | None,
    agent: str,
    server: str,
    tool: str,
    answering: Awaitable[CallResult],
    shadow: Shadow | None = None,
) -> CallResult:
    """Return the answer of a call, and record it once it has ended.

    Args:
        recorder: what writes records; None if nobody asks for them.
        agent: who called; empty if the agent has no name.
        server: the server of the tool, as the agent named it.
        tool: the tool, as the agent named it.
        answering: what comes to the answer.
        shadow: a candidate that decides beside the policy in effect, if there is one.
    """
    call, started = _CurrentCall(), perf_counter()
    token = _CURRENT.set(call)
    ended = Ended.CANCELLED
    try:
        answer = await answering
        ended = call.ended or _ended(answer)
        return answer
    except PolicyUnavailable:
        ended = Ended.NO_VERDICT
        call.request = call.response = None
        raise
    except Exception:
        ended = Ended.FAILED
        raise
    finally:
        _CURRENT.reset(token)
        _trace(call.response)
        if recorder is not None or shadow is not None:
            _record(recorder, shadow, (agent, server, tool), call, Call(ended, perf_counter() - started))


def _record(
    recorder: Recorder | None, shadow: Shadow | None, names: tuple[str, str, str], call: _CurrentCall, how: Call
) -> None:
    if call.request is None or call.response is None or not call.response.HasField("verdict"):
        if recorder is not None:
            recorder.undecided(*names, how)
        return
    request, reply = call.request.SerializeToString(), call.response.SerializeToString()
    other = None if shadow is None else shadow.other_reply(request, reply)
    if recorder is not None:
        recorder.decided_tool(request, reply, how._replace(shadow=other))


def _trace(response: CheckToolResponse | None) -> None:
    """Let the span and the log lines of the request have the verdict."""
    if response is not None and response.HasField("verdict"):
        about = {"status": tool_status(response.verdict.status), "rule": response.verdict.rule}
        logs.note(**about)
        add_to_span(about)


def _ended(answer: CallResult) -> Ended:
    """Return how a call ended; only the gateway's own answers have a status, whatever an upstream puts into its own."""
    if isinstance(answer, CallToolResult):
        return Ended.TOOL_ERROR if answer.is_error else Ended.ANSWERED
    return Ended.REFUSED if (answer.get("structuredContent") or {}).get("status") else Ended.FAILED
