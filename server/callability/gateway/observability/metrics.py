"""The metrics of the gateway, in memory only, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from callability.gateway.loading import LOADING
from callability.gateway.upstream import State
from callability.vocabulary import LoadStatus


class Metrics:
    """Counts and gauges; none of them names an agent, a server or a tool."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._opt_in = self._counter(
            "callability_include_disabled", "Calls of retrieve_tools with include_disabled: true (FR-013)."
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
            "Labels of the config that the policy does not declare, or not with this value.",
        )
        self._labels_checked = self._gauge(
            "callability_labels_checked",
            "1 while the labels of the config are compared with the policy; 0 if it does not say what it declares.",
        )
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
        """Count a call that asks for tools that cannot be called."""
        self.opted_in_calls += 1
        self._opt_in.inc()

    def labels_compared(self, undeclared: int, *, checked: bool) -> None:
        """Set how many labels of the config the policy does not declare, and whether they could be compared."""
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
