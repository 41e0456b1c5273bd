"""One process that answers: a server with its callers, its certificates and its metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector

from callability.address import AddressRefused
from callability.background import in_background
from callability.certificate_metrics import CertificateMetrics
from callability.certificates import CertificateFiles, WatchedCertificates
from callability.kernel.checked_policy import CheckedPolicy
from callability.service.callers.callers_file import load_callers
from callability.service.callers.watched_callers import WatchedCallers
from callability.service.calls.served_policy import ServedPolicy
from callability.service.observability.call_log import log_call
from callability.service.observability.call_metrics import CallMetrics, Observer
from callability.service.observability.caller_metrics import CallerMetrics
from callability.service.observability.metrics import PolicyMetrics
from callability.service.server import Server
from callability.service.transport.port import Port

SERVICE_NAME = "callability-service"
"""The name of the service in traces, unless a variable gives another."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The lowest level that is logged, how a line is written, and whether each call has one."""

    level: str = "info"
    form: str = "text"
    calls: bool = False


@dataclass(frozen=True, slots=True)
class InstanceOptions:
    """How an instance listens, and whom it answers. It can be passed to another process."""

    address: str
    certificates: CertificateFiles | None = None
    callers: Path | None = None
    insecure: bool = False
    socket_mode: int | None = None
    concurrent_calls: int = 2_000
    connection_seconds: int | None = None
    reuse_port: bool = False
    log: LogOptions = LogOptions()
    traces: bool = False

    def check(self, workers: int = 1) -> None:
        """Check everything that does not need the policy, with less effort than a start.

        Raises:
            AddressRefused: the address may not or cannot be listened on.
            CallersRefused: the callers file has errors.
            CertificateRefused: the certificate cannot be used.
        """
        certificates = WatchedCertificates(self.certificates) if self.certificates else None
        if self.callers:
            load_callers(self.callers)
        port = self.port(certificates)
        port.check()
        if workers > 1 and port.is_socket:
            raise AddressRefused("`--workers` needs HOST:PORT: a Unix socket has one process")

    def port(self, certificates: WatchedCertificates | None) -> Port:
        """Return the port with some certificates."""
        return Port(
            self.address,
            certificates,
            self.callers is not None,
            self.insecure,
            self.socket_mode,
            self.connection_seconds,
            self.reuse_port,
        )


class Instance:
    """Answers by a policy until it is given another.

    Raises:
        AddressRefused: the address may not or cannot be listened on.
        CallersRefused: the callers file has errors.
        CertificateRefused: the certificate cannot be used.
    """

    def __init__(self, options: InstanceOptions, checked: CheckedPolicy) -> None:
        self.registry = CollectorRegistry()
        self.metrics = PolicyMetrics(self.registry)
        calls = CallMetrics(self.registry, tuple(_observers(options)))
        ProcessCollector(registry=self.registry)
        self._callers = WatchedCallers(options.callers) if options.callers else None
        self._certificates = WatchedCertificates(options.certificates) if options.certificates else None
        about_callers, about_certificates = CallerMetrics(self.registry), CertificateMetrics(self.registry)
        if self._callers is not None:
            about_callers.follow(self._callers)
        if self._certificates is not None:
            about_certificates.follow(self._certificates)
        self._server = Server(
            checked,
            options.port(self._certificates),
            self.metrics,
            options.concurrent_calls,
            self._callers,
            calls,
        )
        self.metrics.decides(self.served.calls.policy, checked.engine)

    @property
    def served(self) -> ServedPolicy:
        """The policy that is served."""
        return self._server.served

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._server.address

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer calls and follow the files inside the context; at its end, drain."""
        await self._server.start()
        try:
            async with in_background(*self._followers()):
                yield
        finally:
            await self._server.drain()

    def _followers(self) -> Iterator[Coroutine[Any, Any, None]]:
        if self._certificates is not None:
            yield self._certificates.follow()
        if self._callers is not None:
            yield self._callers.follow()


def _observers(options: InstanceOptions) -> Iterator[Observer]:
    if options.log.calls:
        yield log_call
    if options.traces:
        from callability.otel.call_spans import CallSpans  # noqa: PLC0415  # of an extra

        yield CallSpans()
