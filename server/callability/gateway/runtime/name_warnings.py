"""Warnings about names in the config and the approvals that no server or tool has."""

from __future__ import annotations

import logging

from callability.finding import shown
from callability.gateway.config import Approvals, Config
from callability.gateway.upstream import Upstream, UpstreamError
from callability.tool_name import MAX_BYTES, byte_length

_logger = logging.getLogger(__name__)


class NameWarnings:
    """Logs each sentence once for as long as the gateway runs."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def about_servers(self, config: Config, approvals: Approvals) -> None:
        """Warn of approval records for servers that the config lacks, and note the servers that are disabled."""
        for server in approvals.records:
            if server not in config.servers and server not in config.catalog:
                self._warn(f"the approvals have records of server {shown(server)}, which is not in the config")
        for name, server_config in config.servers.items():
            if not server_config.enabled:
                self._log(f"`{name}` is switched off in the config, and is not connected", logging.INFO)

    async def about(self, upstream: Upstream, config: Config, approvals: Approvals) -> None:
        """Wait for the tools of a server, and warn of entries in its two lists and of records that no tool matches
        (A.2), and of tools whose names cannot be called.
        """
        try:
            await upstream.opened()
        except UpstreamError:
            return
        names = {tool.name for tool in upstream.tools}
        for finding in config.unmatched(upstream.name, names):
            self._warn(str(finding))
        for tool in approvals.tools(upstream.name):
            if tool not in names:
                self._warn(f"the approval record of {shown(tool)} matches no tool of server `{upstream.name}`")
        uncallable = sum(not 0 < byte_length(name) <= MAX_BYTES for name in names)
        if uncallable:
            self._warn(
                f"`{upstream.name}` lists tools that cannot be called: names that are empty or have more than"
                f" {MAX_BYTES} bytes: {uncallable:,}"
            )

    def _warn(self, sentence: str) -> None:
        self._log(sentence, logging.WARNING)

    def _log(self, sentence: str, level: int) -> None:
        if sentence not in self._logged:
            self._logged.add(sentence)
            _logger.log(level, "%s", sentence)
