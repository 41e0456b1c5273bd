"""The tools of an inventory whose answer differs between two policies."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.json_format import ParseDict, ParseError

from callability.adapter import judge
from callability.bundling.writing import checked_policy
from callability.command_line.options import leave
from callability.command_line.tool_change import ToolChange
from callability.finding import shown
from callability.kernel.calls import LocalCalls
from callability.kernel.limits import InvalidRequest
from callability.kernel.policy import read
from callability.output_file import descriptor_of
from callability.policy.loading import Policy
from callability.regular_file import read_regular
from callability.v1.callability_service_pb2 import CheckToolsRequest

MAX_BYTES = 64 * 1024 * 1024


def read_inventory(path: Path) -> CheckToolsRequest:
    """Return what `callability inventory` wrote, or exit with code 1."""
    try:
        data = _read(path)
    except OSError as error:
        leave(f"{shown(str(path))} cannot be read: {(error.strerror or 'error').lower()}", 1)
    if len(data) > MAX_BYTES:
        leave(f"{shown(str(path))} is not an inventory: it has more than {MAX_BYTES:,} bytes", 1)
    try:
        return _parsed(data)
    except (ParseError, ValueError, RecursionError) as error:
        wanted = "wanted the JSON that `callability inventory` writes; `callability inventory diff` compares tables"
        leave(f"{shown(str(path))} is not an inventory: {str(error)[:200]} ({wanted})", 1)


def _read(path: Path) -> bytes:
    """Return the bytes of a file, or of a pipe that this process was given, as in `inventory | diff`."""
    descriptor = descriptor_of(path)
    if descriptor is None:
        return read_regular(path, MAX_BYTES + 1)
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _parsed(data: bytes) -> CheckToolsRequest:
    content = json.loads(data)
    if not isinstance(content, dict):
        raise ParseError("it holds no JSON object")
    return ParseDict(content, CheckToolsRequest())


def tool_changes(old: Policy, new: Policy, inventory: CheckToolsRequest) -> tuple[ToolChange, ...]:
    """Return the tools whose status differs, in the order of the inventory, or exit with code 1."""
    try:
        before, after = _statuses(old, inventory), _statuses(new, inventory)
    except InvalidRequest as error:
        leave(f"the inventory is refused: {error.message}", 1)
    pairs = zip(before, after, strict=True)
    return tuple(ToolChange(tool, was, now) for (tool, was), (_, now) in pairs if was != now)


def _statuses(policy: Policy, inventory: CheckToolsRequest) -> list[tuple[str, str]]:
    calls = LocalCalls(read(checked_policy(policy).bundle))
    statuses: list[tuple[str, str]] = []
    for request in _by_server(inventory):
        response = calls.check_tools(request)
        judgement = judge(request, response, visible=[request.servers[0].name])
        statuses += ((tool.name, str(tool.status)) for tool in judgement.tools)
    return statuses


def _by_server(inventory: CheckToolsRequest) -> Iterator[CheckToolsRequest]:
    for server in inventory.servers:
        yield CheckToolsRequest(agent=inventory.agent, servers=[server])
