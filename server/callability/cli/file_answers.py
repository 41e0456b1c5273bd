"""Answers about a gateway's tools from its files alone; it imports the MCP SDK, and a policy that decides here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import typer

from callability.cli.gateway_answers import FactPlaces, GatewayQuery
from callability.cli.gateway_files import GatewayFiles, config_or_default, known_agent, sound_files
from callability.cli.options import LogLevel, leave, print_findings, refuse
from callability.cli.own_policy import GivenPolicy
from callability.cli.policies import view_policy
from callability.client import PolicyUnavailable
from callability.compiler.bundle_writing import NotWritten, checked_policy
from callability.compiler.policy import Policy
from callability.contract.finding import as_code
from callability.files.shipped_policy import shipped_policy
from callability.gateway.config.config import ConfigRefused, load_config
from callability.gateway.config.findings import LACKS
from callability.gateway.offline import refused_edits, unserved_gateway
from callability.gateway.policy_client import PolicyClient
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.tools.preflight import RequiredTools
from callability.process.logs import log_to_standard_error

_Ask = Callable[[Gateway], Awaitable[dict[str, Any]]]
POLICY_SECONDS = 5.0
"""How long a call to a service takes at most, with both attempts."""


_NOT_LOOKED_AT = {
    "status": "not_known",
    "because": "offline",
    "why": "its server is not connected because of `--offline`, and no file says what it lists",
    "answer": "",
    "lifted_by": "none",
    "do": "run this command without `--offline`",
}
"""What is reported about a tool that only its server could name."""


class FileAnswers:
    """Answers from the files alone."""

    def __init__(self, query: GatewayQuery) -> None:
        self._query = query
        try:
            path = config_or_default(query.config)
        except ConfigRefused as refused:
            refuse(refused.findings, "the config is refused")
        self.files: GatewayFiles = sound_files(path.absolute(), query.approvals)
        _warn_of_variables(path.absolute())
        self._agent = query.agent or ""
        if self._agent:
            known_agent(self.files.config, self._agent)
        self._directory = None if query.service else (query.policy or shipped_policy()).absolute()
        self.rules: Policy | None = view_policy(self._directory) if self._directory else None

    def report(self, server: str, tool: str) -> dict[str, Any]:
        """Return the report about a tool."""
        files = self.files

        async def ask(gateway: Gateway) -> dict[str, Any]:
            return await gateway.lock_reports.report(files.config, server, tool)

        report = asyncio.run(self._answer(ask, {server}))
        if self._query.offline and report["because"] == "not_connected":
            report |= _NOT_LOOKED_AT
        digests = {"config": files.config.digest, "approvals": files.approvals.digest}
        return report | {"in_effect": digests, "refused_edits": dict(refused_edits(files.approvals))}

    def preflight(self, required: RequiredTools) -> dict[str, Any]:
        """Return whether tools can be called."""

        async def ask(gateway: Gateway) -> dict[str, Any]:
            return await gateway.preflight.check(required)

        return asyncio.run(self._answer(ask, {each.partition(":")[0] for each in required.ids}))

    @property
    def places(self) -> FactPlaces:
        """The files, to find places in them."""
        approvals = self.files.path if self.files.named else None
        return FactPlaces.of(self.files.config.path, approvals, self._directory, self.rules)

    async def _answer(self, ask: _Ask, servers: Collection[str]) -> dict[str, Any]:
        log_to_standard_error(LogLevel.ERROR)
        files, connecting = self.files, () if self._query.offline else servers
        try:
            async with (
                self._policy() as policy,
                unserved_gateway(
                    files.config, files.approvals, files.given, policy, self._agent, connecting, _report
                ) as gateway,
            ):
                return await ask(gateway)
        except PolicyUnavailable as error:
            leave(f"no verdict was computed: {error}", 1)

    @asynccontextmanager
    async def _policy(self) -> AsyncIterator[PolicyClient]:
        if self._query.service is not None:
            async with self._query.service.client(POLICY_SECONDS) as client:
                yield PolicyClient(client)
            return
        assert self.rules is not None
        try:
            checked = checked_policy(self.rules)
        except NotWritten as refused:
            refuse([refused.finding], "the policy is refused")
        given = GivenPolicy()
        given.give(checked.bundle)
        async with given.client:
            yield PolicyClient(given.client)


def _report(server: str, failure: str) -> None:
    typer.echo(f"server {as_code(server)} {failure}" if failure else f"server {as_code(server)} is connected", err=True)


def _warn_of_variables(path: Path) -> None:
    """Say which servers lack a variable in this environment; that of the gateway may be another."""
    if lacking := [each for each in load_config(path, os.environ).warnings if each.code in LACKS]:
        typer.echo("in the environment of this command, a server does not load:", err=True)
        print_findings(lacking)
