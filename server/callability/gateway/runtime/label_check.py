"""Compares the labels of the config with the policy, again whenever either of them changes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from callability.adapter import DeclaredInputs, NotPublished
from callability.client import PolicyUnavailable
from callability.finding import Finding, has_errors, line
from callability.gateway.config import Config, ConfigRefused
from callability.gateway.config.label_findings import has_labels, label_findings
from callability.gateway.observability.metrics import Metrics
from callability.gateway.policy_client.policy_client import GET_SECONDS, PolicyClient

RETRY_SECONDS = 10.0
"""How long to wait before a service that gave no answer is asked again, unless it answers another call first."""
_logger = logging.getLogger(__name__)


class LabelCheck:
    """Compares the labels of the current config with the latest policy; use it in one event loop.

    Its findings are for operators: they go to the log and the metrics, and not to agents (FR-007).
    """

    def __init__(self, policy: PolicyClient, metrics: Metrics) -> None:
        self._policy = policy
        self._metrics = metrics
        self.edition = 0
        """Grows whenever the policy is read: what was refused earlier may be accepted now."""
        self._declared: DeclaredInputs | None = None
        self._seen = ""
        self._config: Config | None = None
        self._logged: tuple[Finding, ...] = ()
        self._failed = False
        self._wanted = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def start(self, config: Config) -> None:
        """Ask for the policy before anything is started.

        Raises:
            ConfigRefused: the config has `strict_labels`, and labels that are not declared or cannot be checked.
        """
        await self._read()
        found = self.findings(config)
        if has_errors(found):
            raise ConfigRefused(found)

    def findings(self, config: Config) -> tuple[Finding, ...]:
        """Return the findings about the labels of a config, by the latest policy; callable from any thread."""
        return label_findings(config, self._declared, answered=not self._failed)

    def apply(self, config: Config) -> None:
        """Apply a config that has come into effect: count its findings, and log them if they have changed."""
        self._config = config
        found = self.findings(config)
        checked = self._declared is not None
        self._metrics.labels_compared(len(found) if checked else 0, checked=checked or not has_labels(config))
        if self._failed:
            self._run()
        if found == self._logged:
            return
        self._logged = found
        for finding in found:
            _logger.log(logging.ERROR if has_errors((finding,)) else logging.WARNING, "%s", line(finding))
        if has_errors(found):
            _logger.error("the labels of the config do not match the policy; the gateway keeps running with both")

    def answered(self, revision: str) -> None:
        """Compare again if an answer comes from another revision of the policy."""
        if revision and revision != self._seen:
            self._seen = revision
            self.look()

    def look(self) -> None:
        """Ask for the policy and compare again, in a task of its own."""
        self._wanted.set()
        self._run()

    def _run(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="comparing labels")

    async def close(self) -> None:
        """End a comparison that is under way."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        while self._wanted.is_set() or self._failed:
            if self._failed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), RETRY_SECONDS)
            self._wanted.clear()
            await self._read()
        if self._config is not None:
            self.apply(self._config)

    async def _read(self) -> None:
        try:
            policy = await self._policy.get_policy(GET_SECONDS)
            declared: DeclaredInputs | None = DeclaredInputs.of(policy)
        except PolicyUnavailable:
            self._failed = True
            return
        except NotPublished:
            declared = None
        self._failed = False
        self.edition += 1
        self._declared, self._seen = declared, policy.revision
