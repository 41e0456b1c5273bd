"""`upstream_servers`: lists the servers, or shows one of them, with the counts of their tools (A.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rapidfuzz import fuzz, process

from callability.adapter import InvalidArgument, error_result, tool_result
from callability.client import PolicyUnavailable
from callability.finding import shown
from callability.gateway.config import ServerConfig
from callability.gateway.inventory.inventory import Inventory
from callability.gateway.loading import LoadOutcome, Loads
from callability.gateway.observability.file_status import FileStatus
from callability.gateway.tools.arguments import text_of, undeclared
from callability.gateway.tools.decisions import Decisions
from callability.gateway.tools.remedies import Commands
from callability.gateway.tools.result import Result
from callability.gateway.upstream import Upstream
from callability.gateway.upstream.list_fault import few_of

_RESTLESS = (
    "keeps announcing changes of its tools; they are read after pauses, so `retrieve_tools` may show an earlier list"
)


class ServerList:
    """Answers for one agent, to which no other servers exist than those that it may see (FR-007)."""

    def __init__(
        self,
        inventory: Inventory,
        decisions: Decisions,
        phrases: Commands,
        loads: Loads,
        file_status: FileStatus,
        changed_definitions: Callable[[str], int],
    ) -> None:
        self._inventory = inventory
        self._decisions = decisions
        self._phrases = phrases
        self._loads = loads
        self._file_status = file_status
        self._changed_definitions = changed_definitions

    async def upstream_servers(self, arguments: Mapping[str, Any]) -> Result:
        """List the servers, or look at one of them, with the counts of their tools (A.6).

        Raises:
            InvalidArgument: an argument is not as the schema says.
        """
        undeclared(arguments, "operation", "name")
        operation = text_of(arguments, "operation", default="list")
        if operation not in {"list", "get"}:
            raise InvalidArgument(f"`operation` must be `list` or `get`, and is `{operation[:128]}`")
        servers = self._inventory.known_servers()
        if operation == "get":
            name = text_of(arguments, "name")
            if name not in servers:
                return unknown_server(name, servers)
            servers = {name: servers[name]}
        elif arguments.get("name") is not None:
            raise InvalidArgument("`name` goes with the operation `get`")
        answer: dict[str, Any] = {}
        try:
            counts = await self._decisions.counts(servers.values())
        except PolicyUnavailable as error:
            counts, answer["policy"] = {}, f"{error}: there are no counts"
        # One of the catalog may have been switched off meanwhile.
        there = [server for server in servers if server in self._inventory.servers]
        if operation == "get" and not there:
            return unknown_server(name, self._inventory.servers)
        entries = [
            server_entry(self._inventory, server, counts.get(server), self._loads.outcome(server))
            | _changed(self._changed_definitions(server))
            for server in there
        ]
        listed: dict[str, Any] = {"server": entries[0]} if operation == "get" else {"servers": entries}
        if messages := self._loads.messages(servers, self._phrases.about_any()):
            listed["loading"] = {str(status): said for status, said in messages.items()}
        return tool_result(listed | answer | self._file_status.messages())


def server_entry(
    inventory: Inventory, server: str, counts: Mapping[str, int] | None, outcome: LoadOutcome | None
) -> dict[str, Any]:
    """Return a server's entry: its state, the outcome of its latest load if that is known and otherwise why it is not
    connected, and its counts if a tool is not callable.
    """
    config, upstream = inventory.servers[server], inventory.upstream(server)
    entry: dict[str, Any] = {
        "name": server,
        "type": "http" if config.url else "stdio",
        "enabled": config.enabled,
        "quarantined": config.quarantined,
        "state": upstream.state if upstream else "disabled",
    }
    left_out = _left_out(upstream, config) if upstream and upstream.state == "connected" else ""
    if upstream and outcome:
        error = outcome.error or left_out
        said = {"error": error} if error else {}
        entry["load"] = {"status": str(outcome.status), "attempts": outcome.attempts, **said}
    elif upstream and upstream.failure:
        entry["reason"] = upstream.failure
    notes = [_RESTLESS] if upstream and upstream.is_restless else []
    notes += [left_out] if left_out else []
    if notes:
        entry["note"] = "; ".join(notes)
    if counts:
        entry["tools"] = dict(counts)
    return entry


def _changed(tools: int) -> dict[str, Any]:
    """Return the note about tools whose definitions changed, without their names; empty if there are none."""
    if not tools:
        return {}
    whose = "the definition of 1 tool" if tools == 1 else f"the definitions of {tools:,} tools"
    return {"changed": f"{whose} changed, and nobody has approved that since: ask the user to review the server"}


def _left_out(upstream: Upstream, config: ServerConfig) -> str:
    """Return which tools the server lists that cannot be used; of one in quarantine, only that there are any."""
    faults = upstream.left_out
    if not faults:
        return ""
    which = "" if config.quarantined else f": {few_of(faults)}"
    return f"lists tools that cannot be used, and are left out{which}"


def unknown_server(name: str, servers: Iterable[str]) -> dict[str, Any]:
    """Return the result for a server that does not exist for the caller."""
    near = process.extract(name[:256], sorted(servers), scorer=fuzz.ratio, score_cutoff=50, limit=3)
    hint = f" Similar names: {', '.join(f'`{each}`' for each, _, _ in near)}." if near else ""
    return error_result(f"Not done: there is no server {shown(name)}.{hint} `list` shows all servers.")
