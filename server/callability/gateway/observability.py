"""What the gateway reports to its operator, in memory only: metrics, the log of calls, changed tools, unread facts."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, get_args

from mcp_types import CallToolResult
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.contract.finding import MAX_LISTED, as_code, list_names
from callability.contract.vocabulary import MAX_BYTES, LoadStatus, byte_length, is_declared_name
from callability.files.certificates import WatchedCertificates
from callability.files.editing import replace, turn
from callability.gateway.config.approvals import NO_APPROVALS, Approvals, Fingerprint, SeenForms, read_seen, seen_beside
from callability.gateway.config.config import Config
from callability.gateway.loading import LOADING
from callability.gateway.upstream.connection import State
from callability.gateway.upstream.listing import UpstreamTool
from callability.process import logs
from callability.process.logs import fields
from callability.process.metrics import CertificateMetrics
from callability.records.format import Change
from callability.records.recorder import Recorder, record_edits


@dataclass(slots=True)
class FileStatus:
    """What `upstream_servers` says about the files; it names no server, because an agent may see only some (A.7)."""

    approvals_readable: bool = True
    """Whether the approvals were ever read; if not, every approval is unknown."""
    config_broken: bool = False
    """Whether the latest edit of the config was refused."""
    config_awaited: str = ""
    """What to say to agents as long as no config is in effect: the gateway was started with one that has errors."""
    approvals_broken: bool = False
    """Whether the latest edit of the approvals cannot be read."""
    policy_broken: Callable[[], bool] = lambda: False
    """Says whether the latest edit of the policy in this process was refused."""

    def messages(self) -> dict[str, str]:
        """Return a sentence about each that is not in effect as it is written."""
        messages = {}
        if self.config_awaited:
            messages["config"] = "the config has errors, and no earlier one is in effect: no server is open"
        elif self.config_broken:
            messages["config"] = "the edited config has errors: the last good one stays in effect"
        if not self.approvals_readable:
            messages["approvals"] = "the approvals file could not be read: every approval is unknown"
        elif self.approvals_broken:
            messages["approvals"] = "the edited approvals file cannot be read: the last good one stays in effect"
        if self.policy_broken():
            messages["policy"] = "the edited policy has errors: the last good one stays in effect"
        return messages


MAX_FORMS = 20_000
"""Forms that are kept of one server: it may list other names each time."""
_MODE = 0o600
_NONE: Mapping[str, Fingerprint] = {}

_logger = logging.getLogger(__name__)


class DefinitionChanges:
    """Compares each list of tools with the forms that were seen before, in this process and in earlier ones.

    The forms are kept in a file beside the approvals, which gateways may share. Use it in one event loop; `counts` can
    be called from any thread.
    """

    def __init__(self) -> None:
        self._config: Config | None = None
        self._approvals = NO_APPROVALS
        self._file: Path | None = None
        self._seen: SeenForms = {}
        self._now: Mapping[str, Mapping[str, Fingerprint]] = {}
        self._changed: Mapping[str, frozenset[str]] = {}
        self._unwritten: set[str] = set()
        self._writing: asyncio.Task[None] | None = None
        self._is_loss_reported = False

    def apply(self, config: Config, approvals: Approvals, beside: Path) -> None:
        """Apply the files of the gateway; the forms are kept beside the approvals file."""
        self._config, self._approvals = config, approvals
        file = seen_beside(beside)
        if file != self._file:
            self._file = file
            before = self._read(file)
            self._seen = {name: before.get(name, {}) | self._seen.get(name, {}) for name in before | self._seen}

    def take(self, server: str, tools: Iterable[UpstreamTool]) -> Sequence[tuple[str, str, str]]:
        """Report and return the tools of a new list that differ from what was seen of them before.

        Each has the fingerprints of both forms.
        """
        now: dict[str, Fingerprint] = {}
        for tool in tools:
            # If a name is listed twice, the first one counts; one that is too long cannot be called.
            if byte_length(tool.name) <= MAX_BYTES:
                now.setdefault(tool.name, tool.fingerprint)
        before = self._seen.get(server, {})
        changed = [name for name, form in now.items() if name in before and not form.matches(before[name])]
        self._now = {**self._now, server: now}
        if changed:
            self._changed = {**self._changed, server: self._changed.get(server, frozenset()).union(changed)}
        found = [(name, before[name], now[name].current) for name in changed]
        _log(server, found)
        self._keep(server, {name: form.current for name, form in now.items()})
        return found

    def names(self, server: str) -> Collection[str]:
        """Return the names of the tools that a server ever listed, as far as it is known."""
        return self._seen.get(server, {}).keys()

    def count_unreviewed(self, server: str) -> int:
        """Return how many listed tools of a server have changed and are not approved in the form that they have."""
        return len(self._find_unreviewed(server))

    def counts(self) -> Mapping[str, int]:
        """Return `unreviewed` of every server that has listed its tools."""
        return {server: self.count_unreviewed(server) for server in self._now}

    async def close(self) -> None:
        """Wait until the forms that were seen are kept."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)

    def _find_unreviewed(self, server: str) -> Collection[str]:
        now, approvals = self._now.get(server, _NONE), self._approvals
        changed = (name for name in self._changed.get(server, ()) if name in now)
        return [name for name in changed if not _is_accepted(approvals, server, name, now[name])]

    def _keep(self, server: str, forms: Mapping[str, str]) -> None:
        kept = _merge_forms(self._seen.get(server, {}), forms)
        if kept == self._seen.get(server):
            return
        self._seen[server] = kept
        self._unwritten.add(server)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write(), name="keeping forms of tools")

    async def _write(self) -> None:
        while self._unwritten and self._file is not None:
            servers, self._unwritten = self._unwritten, set()
            forms = {server: dict(self._seen[server]) for server in servers}
            try:
                # In a thread: it waits for other gateways that write the file.
                await asyncio.to_thread(_write, self._file, forms)
            except OSError as error:
                self._report_loss(
                    f"{as_code(str(self._file))} cannot be written: {(error.strerror or 'error').lower()}"
                )

    def _read(self, file: Path) -> SeenForms:
        try:
            return read_seen(file)
        except OSError as error:
            self._report_loss(f"{as_code(str(file))} cannot be read: {(error.strerror or 'error').lower()}")
        except (ValueError, RecursionError):
            self._report_loss(f"{as_code(str(file))} is damaged, and is written again")
        return {}

    def _report_loss(self, why: str) -> None:
        """Report once that a change across a restart passes unseen, if there is a server that is open to it."""
        config = self._config
        if self._is_loss_reported or config is None:
            return
        if any(config.server(name).trust == "auto" for name in config.names):
            self._is_loss_reported = True
            words = "changes of tools across restarts are not seen, and `trust: auto` accepts them: %s"
            _logger.warning(words, why)


def _is_accepted(approvals: Approvals, server: str, tool: str, form: Fingerprint) -> bool:
    """Say whether a person approved a tool in a form, or in any."""
    record = approvals.records.get(server, {}).get(tool)
    if record is None or record.status != "approved":
        return False
    return record.is_for_any_form or form.matches(record.sha256)


def _log(server: str, changes: Collection[tuple[str, str, str]]) -> None:
    for tool, before, now in list(changes)[:MAX_LISTED]:
        about = fields(server=server, tool=tool, before=before, now=now)
        words = "`%s`: the definition of tool %s changed from %s to %s"
        _logger.warning(words, server, as_code(tool), before, now, extra=about)
    if len(changes) > MAX_LISTED:
        words = "`%s`: the definitions of %d more tools changed"
        _logger.warning(words, server, len(changes) - MAX_LISTED, extra=fields(server=server))


def _merge_forms(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the forms of a server, the latest last; the oldest are dropped if there are too many."""
    older = [(name, form) for name, form in before.items() if name not in now]
    room = max(0, MAX_FORMS - len(now))
    return {**dict(older[max(0, len(older) - room) :]), **now}


def _write(file: Path, forms: Mapping[str, Mapping[str, str]]) -> None:
    """Add the forms of servers to those in a file, which other gateways may write at the same time.

    Raises:
        OSError: it cannot be written.
    """
    target = file.resolve()
    with turn(target.parent):
        try:
            before = read_seen(target)
        except (ValueError, RecursionError):
            before = {}
        merged = before | {server: _merge_forms(before.get(server, {}), tools) for server, tools in forms.items()}
        if merged != before:
            data = json.dumps(merged, indent=1).encode("utf-8")
            replace(target, data, mode=_MODE)


CallResult = dict[str, Any] | CallToolResult
"""The gateway's own answer as JSON, or the upstream's."""
MAX_REFUSED = 1_000
"""Combinations of agent, tool and status that are counted; the one that was refused longest ago goes first."""


class RefusedCall(NamedTuple):
    """What an agent called in vain, and the status with which it was refused."""

    agent: str
    server: str
    tool: str
    status: str


class RefusedCalls:
    """Counts, in memory, the calls that agents made of tools that cannot be called; use it in one event loop."""

    def __init__(self) -> None:
        self._counts: OrderedDict[RefusedCall, int] = OrderedDict()

    def count(self, agent: str, server: str, tool: str, status: str) -> None:
        """Count a call."""
        call = RefusedCall(agent, server, tool, status)
        self._counts[call] = self._counts.get(call, 0) + 1
        self._counts.move_to_end(call)
        if len(self._counts) > MAX_REFUSED:
            self._counts.popitem(last=False)

    @property
    def latest(self) -> tuple[tuple[RefusedCall, int], ...]:
        """The calls with their counts, the latest first."""
        return tuple(reversed(self._counts.items()))


async def log_call(
    agent: str, server: str, tool: str, answering: Awaitable[CallResult], clock: Callable[[], float] = perf_counter
) -> CallResult:
    """Return the answer of a call, and log a line without the arguments and the answer.

    Args:
        agent: who called; empty if the agent has no name.
        server: the server of the tool.
        tool: the tool as the agent named it.
        answering: what comes to the answer.
        clock: returns the time in seconds.
    """
    logs.note(**({"agent": agent} if agent else {}), server=server, tool=tool)
    outcome, started = "not answered", clock()
    try:
        answer = await answering
        outcome = _outcome(answer)
        return answer
    finally:
        who = f"agent {as_code(agent)}" if agent else "an agent"
        taken = 1000 * (clock() - started)
        about = fields(agent=agent, server=server, tool=tool, outcome=outcome, milliseconds=round(taken, 3))
        words = "%s called %s of `%s`: %s in %.1f ms"
        _logger.debug(words, who, as_code(tool), server, outcome, taken, extra=about)


def _outcome(answer: CallResult) -> str:
    """Return how a call ended; only the gateway's own answers have a status, whatever an upstream puts into its own."""
    if isinstance(answer, CallToolResult):
        return "error" if answer.is_error else "answered"
    status = (answer.get("structuredContent") or {}).get("status")
    return f"refused as {status}" if status else "error"


class _Held(NamedTuple):
    """A tool that is held back by a fact."""

    server: str
    tool: str
    fact: str


class UnreadFacts:
    """What is currently unread for each agent: two agents may reach different rules for the same tool."""

    def __init__(self) -> None:
        self._facts: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {}
        self._agents: dict[_Held, set[str]] = {}

    def log_judgement(
        self, agent: str, tools: Iterable[tuple[str, str, tuple[str, ...]]], whole: Collection[str] = ()
    ) -> None:
        """Log what changed about the tools of an agent; each is a server, a tool and the unread facts.

        The servers in `whole` have no other tools than these: the others that they had no longer exist.
        """
        known = self._facts.get(agent, {})
        # Of thousands of tools, few or none are held back.
        now = {(server, tool): unread for server, tool, unread in tools if unread or (server, tool) in known}
        gone = [key for key in known if key[0] in whole and key not in now]
        self._change(agent, now | dict.fromkeys(gone, ()))

    def keep(self, servers: Mapping[str, Collection[str]]) -> None:
        """Forget the agents that no longer exist, and the servers that an agent no longer sees.

        Args:
            servers: the servers that each agent may see.
        """
        for agent, known in [*self._facts.items()]:
            seen = servers.get(agent, ())
            self._change(agent, dict.fromkeys([key for key in known if key[0] not in seen], ()))

    def _change(self, agent: str, tools: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Remember the unread facts of tools of an agent, and log what started and ended; only held tools are kept."""
        started: list[_Held] = []
        ended: list[_Held] = []
        known = self._facts.pop(agent, {})
        for (server, tool), unread in tools.items():
            before = known.pop((server, tool), ())
            if unread:
                known[server, tool] = unread
            if before != unread:
                ended += self._end(agent, [_Held(server, tool, fact) for fact in before if fact not in unread])
                started += self._begin(agent, [_Held(server, tool, fact) for fact in unread])
        if known:
            self._facts[agent] = known
        for (server, fact), names in _together(started).items():
            words, about = "`%s`: %s %s, and the policy holds back %s", fields(server=server, fact=fact)
            _logger.warning(words, server, as_code(fact), _why(fact), list_names(names), extra=about)
        for (server, fact), names in _together(ended).items():
            words, about = "`%s`: %s no longer holds back %s", fields(server=server, fact=fact)
            _logger.info(words, server, as_code(fact), list_names(names), extra=about)

    def _begin(self, agent: str, facts: Iterable[_Held]) -> Iterator[_Held]:
        """Yield what holds back a tool for no other agent yet."""
        for held in facts:
            if held not in self._agents:
                yield held
            self._agents.setdefault(held, set()).add(agent)

    def _end(self, agent: str, facts: Iterable[_Held]) -> Iterator[_Held]:
        """Yield what holds back a tool for no agent any more."""
        for held in facts:
            self._agents[held].discard(agent)
            if not self._agents[held]:
                del self._agents[held]
                yield held


def _together(every: Iterable[_Held]) -> dict[tuple[str, str], list[str]]:
    """Return the tools that each fact of each server holds back."""
    tools: dict[tuple[str, str], list[str]] = {}
    for held in every:
        tools.setdefault((held.server, held.fact), []).append(held.tool)
    return tools


def _why(fact: str) -> str:
    """Return why a fact is unknown: the gateway always sends labels, so an unknown one is not declared.

    Facts that the policy declares come from the config alone.
    """
    if is_declared_name(fact):
        return "is not in the config, or has a value that the policy does not declare"
    return "has a value that the policy does not declare" if ".label." in fact else "could not be read"


_ANSWERS = ("answered", "tool_error", "refused_call")
"""How calls ended that a server answered."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """Counts and gauges; none of them names a tool of a server, two name servers, and one the agents of the config."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.refused_calls = RefusedCalls()
        """What a person sees of refused calls; it names tools, so no metric has it."""
        self._opt_in = self._counter(
            "callability_include_disabled", "Answered calls of retrieve_tools with include_disabled: true (FR-013)."
        )
        self._edits = self._counter(
            "callability_file_edits",
            "Edits of a file while the gateway runs, by whether they were applied.",
            ("file", "applied"),
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
        self.recorder: Recorder | None = None
        """What records replacements of the certificates; None if nobody asks for it."""
        self.sessions: Callable[[], Mapping[str, int]] = dict
        """The number of open sessions over HTTP by agent; an agent without a name is empty."""
        self.changed_definitions: Callable[[], Mapping[str, int]] = dict
        """The number of tools by server whose definitions changed, and that are not approved in their new form."""
        self.failed_servers: Callable[[], Mapping[str, str]] = dict
        """The load status of each server that does not recover by itself."""
        self._register_current()
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

    def _register_current(self) -> None:
        for each in (
            _Current(
                "callability_sessions",
                "Open sessions over HTTP, by agent; empty for clients without a token.",
                ("agent",),
                lambda: (((agent,), sessions) for agent, sessions in self.sessions().items()),
            ),
            _Current(
                "callability_changed_definitions",
                "Listed tools whose definition changed, and which nobody has approved in the new form, by server.",
                ("server",),
                lambda: (((server,), tools) for server, tools in self.changed_definitions().items()),
            ),
            _Current(
                "callability_failed_servers",
                "1 for each enabled server whose latest load was denied or needs attention.",
                ("server", "status"),
                lambda: ((found, 1) for found in self.failed_servers().items()),
            ),
        ):
            self.registry.register(each)

    def opted_in(self) -> None:
        """Count an answered call that asked for tools that cannot be called."""
        self.opted_in_calls += 1
        self._opt_in.inc()

    def count_answer(self, tool: str, outcome: str) -> None:
        """Count a call of one of the gateway's own tools: `answered`, `error`, `rejected` or `dialog`."""
        self._calls.labels(tool, outcome).inc()

    def no_verdict(self) -> None:
        """Count a call that the policy service did not answer."""
        self._unavailable.inc()

    def count_rejection(self, status: str) -> None:
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
        certificates.report_to(self._certificate.record)
        if self.recorder is not None:
            record_edits(self.recorder, Change.CERTIFICATES, certificates)

    def labels_compared(self, undeclared: int, *, checked: bool) -> None:
        """Set how many labels and facts of the config are not declared, and whether they could be compared."""
        self.undeclared_labels, self.labels_unchecked = undeclared, not checked
        self._undeclared.set(undeclared)
        self._labels_checked.set(checked)

    def count_edit(self, file: str, *, applied: bool) -> None:
        """Count an edit of `config` or `approvals`."""
        self._edits.labels(file, str(applied).lower()).inc()

    def stands(self, file: str, *, broken: bool) -> None:
        """Set whether a file as it is written was refused."""
        self._broken.labels(file).set(broken)

    def _counter(self, name: str, words: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, words, labels, registry=self.registry)

    def _gauge(self, name: str, words: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, words, labels, registry=self.registry)


def _number(servers: Callable[[], Mapping[str, int]], state: str) -> float:
    return servers().get(state, 0)


class _Current(Collector):
    """Gauges whose values are looked up when they are read, each by the values of its labels."""

    def __init__(
        self,
        name: str,
        words: str,
        labels: tuple[str, ...],
        current: Callable[[], Iterable[tuple[tuple[str, ...], int]]],
    ) -> None:
        self._name, self._words, self._labels = name, words, labels
        self._current = current

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._words, None, self._labels)
        for labels, value in sorted(self._current()):
            family.add_metric(labels, value)
        yield family
