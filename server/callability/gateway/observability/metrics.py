"""The metrics of the gateway, in memory only, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.certificate_metrics import CertificateMetrics
from callability.certificates import WatchedCertificates
from callability.gateway.loading import LOADING
from callability.gateway.upstream import State
from callability.vocabulary import LoadStatus

_ANSWERS = ("answered", "tool_error", "refused_call")
"""How calls ended that a server answered."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """Counts and gauges; none of them names a tool of a server, one names servers, and one the agents of the config."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._opt_in = self._counter(
            "callability_include_disabled", "Answered calls of retrieve_tools with include_disabled: true (FR-013)."
        )
        self._edits = self._counter(
            "callability_file_edits",
            "Edits of a file while the gateway runs, by whether they were applied.",
            ("file", "taken_over"),
        )
        self._broken = self._gauge("callability_file_broken", "1 while a file as it is written is refused.", ("file",))
        for file in ("config", "approvals"):
            self._broken.labels(file)
        self._states = self._gauge("callability_servers", "Servers of the config by their state.", ("state",))
        self._loads = self._gauge(
            "callability_server_loads",
            "Enabled servers by the outcome of their latest load, or loading before the first.",
            ("status",),
        )
        self._undeclared = self._gauge(
            "callability_undeclared_labels",
            "Labels and facts of the config that the policy does not declare, or not with this value.",
        )
        self._labels_checked = self._gauge(
            "callability_labels_checked",
            "1 while labels and facts of the config are compared with the policy; 0 if it publishes no declarations.",
        )
        self._calls = self._counter(
            "callability_agent_calls", "Calls of the gateway's own tools, by tool and outcome.", ("tool", "outcome")
        )
        self._rejections = self._counter(
            "callability_rejections", "Calls of tools that cannot be called, by status.", ("status",)
        )
        self._upstream_calls = self._counter(
            "callability_upstream_calls", "Calls that were passed to servers, by outcome.", ("outcome",)
        )
        self._upstream_seconds = Histogram(
            "callability_upstream_call_seconds",
            "Seconds until a server answered a call.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._unavailable = self._counter(
            "callability_policy_unavailable", "Calls that were not answered because the policy gave no verdict."
        )
        self._certificate = CertificateMetrics(self.registry)
        self.sessions: Callable[[], Mapping[str, int]] = dict
        """The number of open sessions over HTTP by agent; an agent without a name is empty."""
        self.registry.register(_Sessions(self))
        self.changed_definitions: Callable[[], Mapping[str, int]] = dict
        """The number of tools by server whose definitions changed, and that are not approved in their new form."""
        self.registry.register(_ChangedDefinitions(self))
        self.undeclared_labels = 0
        self.labels_unchecked = False
        self.opted_in_calls = 0
        self.servers: Callable[[], Mapping[str, int]] = dict
        """The number of servers in each state."""
        self.loads: Callable[[], Mapping[str, int]] = dict
        """The number of servers with each load status."""

    def follow(self, servers: Callable[[], Mapping[str, int]], loads: Callable[[], Mapping[str, int]] = dict) -> None:
        """Set where the numbers of servers by state and by load status are read."""
        self.servers, self.loads = servers, loads
        for state in (*get_args(State), "disabled"):
            self._states.labels(state).set_function(partial(_number, servers, state))
        for status in (*LoadStatus, LOADING):
            self._loads.labels(status).set_function(partial(_number, loads, status))

    def opted_in(self) -> None:
        """Count an answered call that asked for tools that cannot be called."""
        self.opted_in_calls += 1
        self._opt_in.inc()

    def answered(self, tool: str, outcome: str) -> None:
        """Count a call of one of the gateway's own tools: `answered`, `error`, `rejected` or `dialog`."""
        self._calls.labels(tool, outcome).inc()

    def no_verdict(self) -> None:
        """Count a call that the policy service did not answer."""
        self._unavailable.inc()

    def rejected(self, status: str) -> None:
        """Count a call of a tool that cannot be called."""
        self._rejections.labels(status).inc()

    def passed_on(self, outcome: str, seconds: float) -> None:
        """Count a call that was passed to a server: `answered`, `tool_error`, `refused_call` or what failed.

        `seconds` count only if the server answered.
        """
        self._upstream_calls.labels(outcome).inc()
        if outcome in _ANSWERS:
            self._upstream_seconds.observe(seconds)

    def watch_certificates(self, certificates: WatchedCertificates) -> None:
        """Follow the certificates of the gateway."""
        self._certificate.follow(certificates)

    def labels_compared(self, undeclared: int, *, checked: bool) -> None:
        """Set how many labels and facts of the config are not declared, and whether they could be compared."""
        self.undeclared_labels, self.labels_unchecked = undeclared, not checked
        self._undeclared.set(undeclared)
        self._labels_checked.set(checked)

    def edited(self, file: str, *, taken_over: bool) -> None:
        """Count an edit of `config` or `approvals`."""
        self._edits.labels(file, str(taken_over).lower()).inc()

    def stands(self, file: str, *, broken: bool) -> None:
        """Set whether a file as it is written was refused."""
        self._broken.labels(file).set(broken)

    def _counter(self, name: str, words: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, words, labels, registry=self.registry)

    def _gauge(self, name: str, words: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, words, labels, registry=self.registry)


def _number(servers: Callable[[], Mapping[str, int]], state: str) -> float:
    return servers().get(state, 0)


class _Sessions(Collector):
    """The open sessions by agent, as they are when they are read."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "callability_sessions",
            "Open sessions over HTTP, by agent; empty for clients without a token.",
            None,
            ("agent",),
        )
        for agent, sessions in sorted(self._metrics.sessions().items()):
            family.add_metric((agent,), sessions)
        yield family


class _ChangedDefinitions(Collector):
    """The tools that changed, by server, as they are when they are read."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "callability_changed_definitions",
            "Listed tools whose definition changed, and which nobody has approved in the new form, by server.",
            None,
            ("server",),
        )
        for server, tools in sorted(self._metrics.changed_definitions().items()):
            family.add_metric((server,), tools)
        yield family
