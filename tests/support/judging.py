"""Facts, the answers of the shipped policy to them, and the adapter's judgements of those."""

from __future__ import annotations

import asyncio
import atexit
import json
from collections.abc import Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from callability.adapter import (
    ALL_SERVERS,
    Judgement,
    ToolText,
    discovery,
    judge,
    rejection,
)
from callability.compiler.policy import load
from callability.v1 import callability_service_pb2 as pb
from support.checkout import POLICY, VECTORS
from support.service_stub import ServiceStub

PATTERNS = json.loads((VECTORS / "matrix/patterns.json").read_text())
OPEN = {"enabled": True, "quarantined": False}
FREE: dict[str, Any] = {"configDenied": False, "approval": {}}
DENIED = FREE | {"configDenied": True}
APPROVED = "APPROVAL_STATUS_APPROVED"
SWITCHED_OFF = FREE | {"approval": {"record": {"disabled": True, "status": APPROVED}}}
PENDING = FREE | {"approval": {"record": {"disabled": False, "status": "APPROVAL_STATUS_PENDING"}}}
CHANGED = FREE | {"approval": {"record": {"disabled": False, "status": "APPROVAL_STATUS_CHANGED"}}}
UNREAD = {"configDenied": False}
REFUSED = FREE | {"callerRefuses": True}
PHRASES = {
    "enable_server": "PRESS-SERVER-ON",
    "edit_config": "EDIT-CONFIG",
    "release_server": "PRESS-RELEASE",
    "enable_tool": "PRESS-TOOL-ON",
    "approve_tool": "PRESS-APPROVE",
    "check_logs": "READ-LOGS",
}
Servers = Mapping[str, tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]]
"""For each server its facts, and the facts of each of its tools, in the contract's JSON."""


@cache
def stub_of(policy: Path = POLICY) -> ServiceStub:
    """Return the service of a policy, the shipped one by default."""
    return ServiceStub(load(policy))


@cache
def _loop() -> asyncio.Runner:
    """Return the event loop of all questions: to open one for each takes longer than the answer."""
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


def request_of(servers: Servers) -> pb.CheckToolsRequest:
    """Return the request about an inventory."""
    named = [
        {"name": server, "facts": facts, "tools": [{"name": tool, "facts": known} for tool, known in tools.items()]}
        for server, (facts, tools) in servers.items()
    ]
    return json_format.ParseDict({"servers": named}, pb.CheckToolsRequest())


def answered(request: pb.CheckToolsRequest, stub: ServiceStub | None = None) -> pb.CheckToolsResponse:
    """Return the answer of a service, that of the shipped policy by default."""

    async def ask() -> pb.CheckToolsResponse:
        return await (stub or stub_of()).CheckTools(request)

    return _loop().run(ask())


def judgement_of(servers: Servers, stub: ServiceStub | None = None) -> Judgement:
    """Return the adapter's judgement of the answer about an inventory."""
    request = request_of(servers)
    return judge(request, answered(request, stub), visible=ALL_SERVERS)


def checked(
    server_facts: Mapping[str, Any],
    tool_facts: Mapping[str, Any],
    *,
    server: str = "git",
    tool: str = "reset",
    stub: ServiceStub | None = None,
) -> pb.CheckToolResponse:
    """Return the answer about one tool."""
    facts = {"server": server, "serverFacts": server_facts, "tool": tool, "toolFacts": tool_facts}
    request = json_format.ParseDict(facts, pb.CheckToolRequest())

    async def ask() -> pb.CheckToolResponse:
        return await (stub or stub_of()).CheckTool(request)

    return _loop().run(ask())


def texts_of(judgement: Judgement) -> dict[str, ToolText]:
    """Return a text for each tool."""
    return {tool.name: ToolText(f"Text of {tool.name}.") for tool in judgement.tools}


def discovered(
    judgement: Judgement, query: str = "repository", *, texts: Mapping[str, ToolText] | None = None, **options: Any
) -> dict[str, Any]:
    """A discovery whose search finds every tool that it may see."""
    options = {
        "found": [tool.name for tool in judgement.callable],
        "found_locked": [tool.name for tool in judgement.locked if not tool.withhold_text],
    } | options
    texts = texts_of(judgement) if texts is None else texts
    return discovery(judgement, query, texts=texts, phrases=PHRASES, **options)


def rejected(
    server_facts: Mapping[str, Any], tool_facts: Mapping[str, Any], *, server: str = "git", tool: str = "reset"
) -> dict[str, Any]:
    """Return the rejection of a call of one tool."""
    response = checked(server_facts, tool_facts, server=server, tool=tool)
    result = rejection(response, server, tool, phrases=PHRASES)
    assert result is not None
    return result


def text_of(result: Mapping[str, Any] | None) -> str:
    """Return the one text block of a tool result."""
    assert result is not None
    [block] = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


LOCKED: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "server_disabled": ({"enabled": False, "quarantined": False}, FREE),
    "disabled_by_config": (OPEN, DENIED),
    "server_quarantined": ({"enabled": True, "quarantined": True}, FREE),
    "disabled_by_user": (OPEN, SWITCHED_OFF),
    "pending_approval": (OPEN, PENDING),
    "disabled_unknown": (OPEN, UNREAD),
}
"""For each status, facts that have it."""
SMALL: Servers = {"git": (OPEN, {"status": FREE, "reset": DENIED, "push": SWITCHED_OFF, "clone": PENDING})}


@cache
def matrix() -> tuple[tuple[dict[str, Any], dict[str, Any]], ...]:
    """Every combination of the facts of the shipped policy, for the server and for the tool."""
    combinations = []
    for states in product(*(column.values() for column in PATTERNS["states"].values())):
        facts: dict[str, dict[str, Any]] = {"serverFacts": {}, "toolFacts": {}}
        for state in states:
            for group, known in state.items():
                facts[group] |= known
        combinations.append((facts["serverFacts"], facts["toolFacts"]))
    return tuple(combinations)
