"""What a person does on the page: each act names what was shown, and is refused if that has changed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from callability.contract.finding import as_code
from callability.contract.vocabulary import unrecordable
from callability.files import document
from callability.files.editing import EditRefused, Tree, Value, rewrite
from callability.gateway.config.approvals import DEFAULT_APPROVALS, Definitions, approved_part
from callability.gateway.inventory import KnownServer
from callability.gateway.people.overview import approval_of, digest_of, listed_tool
from callability.gateway.runtime.runtime import GatewayRuntime
from callability.gateway.upstream import UpstreamTool

Act = Literal["approve", "block", "unblock", "quarantine", "release", "enable"]
ACTS: tuple[Act, ...] = ("approve", "block", "unblock", "quarantine", "release", "enable")
_SWITCHES: dict[Act, tuple[str, bool]] = {
    "quarantine": ("quarantined", True),
    "release": ("quarantined", False),
    "enable": ("enabled", True),
}


class NotDone(Exception):
    """An act that changed nothing; `code` and the text say why."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Acts:
    """Writes what a person decides into the two files, as the commands do, and applies it; one act at a time."""

    def __init__(self, runtime: GatewayRuntime) -> None:
        self._runtime = runtime
        self._turn = asyncio.Lock()

    async def do(self, act: Act, server: str, tool: str, seen: str) -> str:
        """Do what a person decided about what was `seen`, a fingerprint or a digest, and return what was done.

        Raises:
            NotDone: it is something else by now, the operator denies it, or a file cannot be written.
        """
        async with self._turn:
            known = self._runtime.inventory.known_servers().get(server)
            if known is None:
                raise NotDone("changed-meanwhile", f"there is no server {as_code(server)} any more")
            if act in _SWITCHES:
                done = await self._switch(act, server, known, seen)
            else:
                done = await self._record(act, server, known, tool, seen)
            await self._runtime.read_files()
            return done

    async def _switch(self, act: Act, server: str, known: KnownServer, seen: str) -> str:
        if server not in self._runtime.files.config.servers:
            raise NotDone("not-here", f"server {as_code(server)} is of the catalog: agents enable and disable it")
        if digest_of(known) != seen:
            raise NotDone("changed-meanwhile", f"server {as_code(server)} has changed since it was shown: look again")
        key, value = _SWITCHES[act]
        await self._write(self._runtime.files.config.path, {"mcpServers": {server: {key: value}}})
        return f"server {as_code(server)}: `{key}: {str(value).lower()}`"

    async def _record(self, act: Act, server: str, known: KnownServer, tool: str, seen: str) -> str:
        listed = listed_tool(known, tool)
        subject = f"tool {as_code(tool)} of server {as_code(server)}"
        if (listed.fingerprint.current if listed else "") != seen:
            raise NotDone("changed-meanwhile", f"{subject} has changed since it was shown: look again")
        if known.records is None:
            raise NotDone("not-written", "the approvals file cannot be read: correct it first")
        record = known.records.get(tool)
        if record is None and unrecordable(tool):
            raise NotDone("not-written", f"{subject} cannot have a record: {unrecordable(tool)}")
        if act == "approve":
            return await self._approve(server, known, listed, subject)
        values: dict[str, Value] = {"disabled": act == "block"}
        if record is None and known.config.trust == "manual":
            # A record without a status is approved, and this tool waits for a review.
            values["status"] = "pending"
        await self._write_records({server: {tool: values}})
        return f"{subject} is {'blocked' if act == 'block' else 'not blocked any more'}"

    async def _approve(self, server: str, known: KnownServer, listed: UpstreamTool | None, subject: str) -> str:
        if listed is None or listed.definition is None:
            raise NotDone("changed-meanwhile", f"{subject} is not listed with a definition to approve")
        if known.config.config_denies(listed.name):
            raise NotDone("denied", f"{subject} is denied by the operator, in the config of the gateway")
        if approval_of(known, listed, (known.records or {}).get(listed.name)) not in {"pending", "changed"}:
            raise NotDone("changed-meanwhile", f"{subject} does not wait for a review any more")
        form, definition = listed.fingerprint.current, approved_part(listed.definition)
        path = self._approvals_path
        await self._to_thread(path, lambda: Definitions.beside(path).keep(form, definition))
        await self._write_records({server: {listed.name: {"status": "approved", "sha256": form}}})
        return f"{subject} is approved in the form {form}"

    @property
    def _approvals_path(self) -> Path:
        config = self._runtime.files.config
        return self._runtime.files.approvals_path(config) or config.path.with_name(DEFAULT_APPROVALS)

    async def _write_records(self, tree: Tree) -> None:
        """Write records; a config that names no approvals gets the entry, as the commands write it."""
        config = self._runtime.files.config
        is_named = self._runtime.files.approvals_path(config) is not None
        await self._write(self._approvals_path, tree, create=not is_named)
        if not is_named:
            await self._write(config.path, {"approvals": DEFAULT_APPROVALS})

    async def _write(self, path: Path, tree: Tree, *, create: bool = False) -> None:
        await self._to_thread(path, lambda: rewrite(path, tree, create=create))

    async def _to_thread(self, path: Path, write: Callable[[], object]) -> None:
        """Write a file beside the event loop: another process may hold its lock."""
        try:
            await asyncio.to_thread(write)
        except (EditRefused, document.Refused) as error:
            raise NotDone("not-written", str(error)) from error
        except OSError as error:
            why = (error.strerror or "error").lower()
            raise NotDone("not-written", f"{as_code(str(path))} cannot be written: {why}") from error
