"""The policy in a gateway's own process, and what a policy declares, here or at a service."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from callability.adapter import DeclaredFact, DeclaredInputs, NotPublished
from callability.cli.policy_service import PolicyService
from callability.cli.served_policy import Loaded
from callability.client import Client, PolicyUnavailable
from callability.client.held_policy import HeldPolicy
from callability.client.hooks import GuardedHooks, LoggingHooks
from callability.client.local import AsyncioLocal, LocalDecisions
from callability.contract.finding import MAX_LISTED, Finding, Severity, as_code
from callability.contract.vocabulary import UNKNOWN
from callability.gateway.config.config import Config
from callability.gateway.policy_client import GET_SECONDS
from callability.kernel.calls import UNOBSERVED, description
from callability.kernel.policy import CheckedPolicy, LocalPolicy, read
from callability.kernel.results import Counted, EncodedResult, EncodedServerResults, Gap, Observer
from callability.kernel.rule_set import RuleSet
from callability.records.recorder import Recorder
from callability.service.calls import RejectedEdit
from callability.service.edits import EditReports
from callability.service.metrics import Gaps, PolicyMetrics


def declared_by(bundle: bytes) -> DeclaredInputs:
    """Return the labels and facts that the policy in a bundle declares."""
    return DeclaredInputs.of(description(read(bundle)))


class NoAnswer(Exception):
    """No policy service answers at an address; the text says why."""


def declared_at(service: PolicyService) -> DeclaredInputs | None:
    """Return what the policy of a service declares; None if the service does not say.

    Raises:
        NoAnswer: no service answers at the address.
    """

    async def ask() -> DeclaredInputs:
        async with service.client(GET_SECONDS) as client:
            return DeclaredInputs.of(await client.get_policy())

    try:
        return asyncio.run(ask())
    except PolicyUnavailable as error:
        raise NoAnswer(error.code) from error
    except NotPublished:
        return None


@dataclass(frozen=True, slots=True)
class _Judged:
    """What a config says of a tool and who calls it: by subject, what the subject is called and its facts."""

    subjects: Mapping[str, str]
    facts: Mapping[str, Mapping[str, str]]


def missing_facts(config: Config, bundle: bytes) -> tuple[Finding, ...]:
    """Return a finding for each rule that no tool gets past, since a declared fact is missing in a config.

    The servers, tools or agents that lack it are named. It is an error if every one of them is held back by it.
    """
    rules, facts = read(bundle).callability, declared_by(bundle).facts
    every, lacking = [*_judge_tools(config)], defaultdict[tuple[str, str], dict[str, None]](dict)
    stopped = defaultdict[tuple[str, str], int](int)
    for judged in every:
        for rule, fact in _held_back(rules, judged, facts):
            lacking[rule, fact][judged.subjects[facts[fact].subject]] = None
            stopped[rule, fact] += 1
    return tuple(
        _missing(config, rule, facts[fact], [*names], of_all=stopped[rule, fact] == len(every))
        for (rule, fact), names in lacking.items()
    )


def _judge_tools(config: Config) -> Iterator[_Judged]:
    """Yield each tool that the config has facts or labels for, and any other, of each server, for each agent."""
    agents = [(f"agent {as_code(name)}", agent.facts) for name, agent in config.agents.items()]
    for name, server in (*config.servers.items(), *config.catalog.items()):
        of_server = f"server {as_code(name)}"
        labels = {f"server.label.{key}": value for key, value in server.labels.items()}
        for tool in ("", *{*server.tool_facts, *server.tool_labels}):
            of_tool = f"tool {as_code(tool)} of {of_server}" if tool else f"the tools of {of_server}"
            named = {"server.name": name} | ({"tool.name": tool} if tool else {})
            of_labels = {f"tool.label.{key}": value for key, value in server.tool_labels.get(tool, {}).items()}
            facts = {"server": server.facts, "tool": server.facts_of_tool(tool), "": named | labels | of_labels}
            for agent, of_agent in agents or [("an agent without a name", {})]:
                yield _Judged({"server": of_server, "tool": of_tool, "agent": agent}, {**facts, "agent": of_agent})


def _held_back(rules: RuleSet, judged: _Judged, declared: Mapping[str, DeclaredFact]) -> Iterator[tuple[str, str]]:
    """Yield each rule that is undetermined because a fact is missing, if nothing else locks the tool, and the fact."""
    known = {**{name: each.open_value for name, each in rules.question.facts.items()}, **judged.facts[""]}
    for name, one in declared.items():
        known[name] = judged.facts.get(one.subject, {}).get(name, one.default if one.asserted else UNKNOWN)
    while missing := [fact for fact in rules.unread_at(known) if known.get(fact) == UNKNOWN and fact in declared]:
        rule = rules.decide(rules.points_of(known)).rule
        for fact in missing:
            yield rule, fact
            # What other facts are missing is found as if this one were there.
            known[fact] = declared[fact].default


def _missing(config: Config, rule: str, fact: DeclaredFact, names: Sequence[str], *, of_all: bool) -> Finding:
    who = ", ".join(names[:MAX_LISTED]) + (f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else "")
    everything = "every tool" if of_all else "what it is about"
    sentence = (
        f"fact {as_code(fact.name)}, which rule {as_code(rule)} reads, is missing, so that {everything} is held back"
    )
    place = {"tool": "`tool_fact_defaults` of the server, or `tool_facts`", "agent": "`facts` of the agent"}
    hint = f"set it in {place.get(fact.subject, '`facts` of the server')}; it is missing for {who}"
    at = config.place("mcpServers")
    return Finding(at, "missing-fact", sentence, hint, Severity.ERROR if of_all else Severity.WARNING)


class GivenPolicy:
    """Decides by the bundle that was given last. Nothing else knows a newer one, so it is never too old.

    Only what is wrong is logged: which policy decides is known to the program that gives it.

    Args:
        observed: returns what counts the decisions by a policy with a revision.
    """

    def __init__(self, observed: Callable[[str], Observer] = lambda _: UNOBSERVED) -> None:
        hooks = GuardedHooks(LoggingHooks(), logging.WARNING)
        self._held = HeldPolicy(math.inf, hooks, observed=observed)
        self.client = Client(AsyncioLocal(LocalDecisions(self._held, None, hooks)))
        """What decides by it."""

    def give(self, bundle: bytes) -> LocalPolicy | None:
        """Decide by a bundle from now on, and return its policy; None if it is refused: then nothing changes."""
        return self._held.policy if self._held.accept(bundle, rollback=True) else None


class OwnPolicy:
    """Decides by the policy that was loaded, and by each edit of it that is accepted (`EditSink`).

    Raises:
        RuntimeError: the bundle of the policy is refused; the log says why.
    """

    def __init__(self, loaded: Loaded, metrics: PolicyMetrics, recorder: Recorder | None = None) -> None:
        self._given = GivenPolicy(lambda revision: _Locked(Gaps(revision, metrics)))
        self._reports = EditReports(metrics, recorder)
        self.replaced: Callable[[], None] = lambda: None
        """Called when an edit was applied."""
        self.is_broken = False
        """Whether the latest edit was rejected."""
        self._policy = self._give(loaded.checked)
        metrics.decides(self._policy, loaded.checked.engine)

    @property
    def client(self) -> Client:
        """What decides."""
        return self._given.client

    async def accept(self, checked: CheckedPolicy) -> None:
        """Apply an edit that was accepted.

        Raises:
            RuntimeError: its bundle is refused; the log says why.
        """
        before = self._policy.revision
        self._policy = await asyncio.to_thread(self._give, checked)
        self.is_broken = False
        self._reports.report_applied(self._policy, checked, before)
        self.replaced()

    async def report_rejected(self, rejected: RejectedEdit) -> None:
        """Keep the policy, and report why."""
        self.is_broken = True
        self._reports.report_rejected(rejected, self._policy.revision)

    def _give(self, checked: CheckedPolicy) -> LocalPolicy:
        policy = self._given.give(checked.bundle)
        if policy is None:
            raise RuntimeError("the bundle of the policy is refused")
        return policy


class _Locked:
    """Counts the decisions of several threads: a large batch is decided beside the event loop."""

    def __init__(self, gaps: Gaps) -> None:
        self._gaps = gaps
        self._lock = Lock()

    def count_verdict(self, kind: Counted) -> None:
        """Count a verdict."""
        with self._lock:
            self._gaps.count_verdict(kind)

    def decided_batch(
        self, fresh: Sequence[Sequence[EncodedResult]], again: Sequence[EncodedServerResults], tools: int
    ) -> None:
        """Count the results of a batch."""
        with self._lock:
            self._gaps.decided_batch(fresh, again, tools)

    def count_gaps(self, found: Mapping[Gap, int]) -> None:
        """Count gaps."""
        with self._lock:
            self._gaps.count_gaps(found)
