"""Records the forms in which tools are first listed, for servers with `trust: first_use`: a later change locks them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from callability import document
from callability.editing.edit import EditRefused
from callability.editing.rewriting import rewrite
from callability.editing.spelling import Tree
from callability.finding import listed
from callability.gateway.config import Approvals, load_approvals
from callability.gateway.config.approved_definitions import Definitions
from callability.gateway.config.fingerprint import approved_part
from callability.gateway.runtime.watched_files import Edit, Files
from callability.gateway.upstream import UpstreamTool
from callability.log_output import fields
from callability.tool_name import is_plain

MAX_RECORDS = 256
"""Records of one server beyond which no other is added: a server that lists new names must not fill the file."""
_Forms = dict[str, tuple[UpstreamTool, ...]]
"""Tools without a recorded form, by their server."""

_logger = logging.getLogger(__name__)


class FirstForms:
    """Writes records, several servers at once; `apply` applies the edit of the approvals that this is."""

    def __init__(self, files: Files, apply: Callable[[Edit], None]) -> None:
        self._files = files
        self._apply = apply
        self._wanted: _Forms = {}
        self._writing: asyncio.Task[None] | None = None
        self._crowded: set[str] = set()

    async def record(self, server: str, tools: Iterable[UpstreamTool]) -> None:
        """Record the tools that have no form yet, and return when the records are in effect; a failure is logged.

        A tool with an odd name, and one too many of a server, waits for a review.
        """
        config = self._files.config
        if server not in config.names or config.server(server).trust != "first_use":
            return
        approvals = self._files.approvals
        missing = _without_form(approvals, server, tools)
        opened = [tool for tool in missing if approvals.record(server, tool.name) is not None]
        new = [tool for tool in missing if approvals.record(server, tool.name) is None]
        room = max(0, MAX_RECORDS - len(approvals.tools(server)))
        if len(new) > room:
            self._report_crowd(server)
        if not opened and not new[:room]:
            return
        self._wanted[server] = (*opened, *new[:room])
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="recording first forms")
        # The deadline of one opening must not end what is written for other servers.
        await asyncio.shield(self._writing)

    async def close(self) -> None:
        """Wait until every record that was started is written."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            path = self._files.approvals_path(self._files.config)
            try:
                if path is not None:
                    await asyncio.to_thread(_record, path, wanted)
                edit = await self._files.look()
                if edit is not None:
                    self._apply(edit)
            except (OSError, EditRefused, document.Refused) as error:
                _report_failure(wanted, error)

    def _report_crowd(self, server: str) -> None:
        if server not in self._crowded:
            self._crowded.add(server)
            words = "`%s` lists tools beyond the %d that are recorded of a server: the others wait for a review"
            _logger.warning(words, server, MAX_RECORDS, extra=fields(server=server))


def _report_failure(servers: Iterable[str], error: Exception) -> None:
    words = "the tools that %s lists for the first time cannot be recorded, and wait for a review: %s"
    why = (error.strerror or "error").lower() if isinstance(error, OSError) else str(error)
    _logger.error(words, listed(servers), why)


def _without_form(approvals: Approvals, server: str, tools: Iterable[UpstreamTool]) -> list[UpstreamTool]:
    """Return the tools with plain names that have no record, or one without a form; nothing of unreadable approvals."""
    missing: dict[str, UpstreamTool] = {}
    for tool in tools if approvals.readable else ():
        record = approvals.record(server, tool.name)
        if is_plain(tool.name) and (record is None or record.is_open):
            # If a name is listed twice, the first one counts.
            missing.setdefault(tool.name, tool)
    return [*missing.values()]


def _record(path: Path, wanted: _Forms) -> None:
    """Record forms in an approvals file, unless somebody decided about a tool meanwhile.

    Raises:
        OSError: the file, or a definition beside it, cannot be written.
        EditRefused, document.Refused: the file is not what it should be.
    """
    definitions = Definitions.beside(path)
    for tool in (tool for tools in wanted.values() for tool in tools):
        if tool.definition is not None:
            definitions.keep(tool.fingerprint.current, approved_part(tool.definition))

    def tree() -> Tree:
        approvals = load_approvals(path)
        missing = {server: _without_form(approvals, server, tools) for server, tools in wanted.items()}
        return {
            server: {tool.name: {"sha256": tool.fingerprint.current} for tool in tools}
            for server, tools in missing.items()
            if tools
        }

    rewrite(path, tree)
