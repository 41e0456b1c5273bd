"""What a policy declares, in this process or at a service: what a config is compared with."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from callability.adapter import DeclaredFact, DeclaredInputs, NotPublished
from callability.client import PolicyUnavailable
from callability.command_line.policy_service import PolicyService
from callability.finding import MAX_LISTED, Finding, Severity, shown
from callability.gateway.config import Config
from callability.gateway.policy_client.policy_client import GET_SECONDS
from callability.kernel.description import description
from callability.kernel.policy import read
from callability.kernel.rule_set import RuleSet
from callability.vocabulary import UNKNOWN


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
    every, lacking = [*_judged(config)], defaultdict[tuple[str, str], dict[str, None]](dict)
    stopped = defaultdict[tuple[str, str], int](int)
    for judged in every:
        for rule, fact in _held_back(rules, judged, facts):
            lacking[rule, fact][judged.subjects[facts[fact].subject]] = None
            stopped[rule, fact] += 1
    return tuple(
        _missing(config, rule, facts[fact], [*names], of_all=stopped[rule, fact] == len(every))
        for (rule, fact), names in lacking.items()
    )


def _judged(config: Config) -> Iterator[_Judged]:
    """Yield each tool that the config has facts or labels for, and any other, of each server, for each agent."""
    agents = [(f"agent {shown(name)}", agent.facts) for name, agent in config.agents.items()]
    for name, server in (*config.servers.items(), *config.catalog.items()):
        of_server = f"server {shown(name)}"
        labels = {f"server.label.{key}": value for key, value in server.labels.items()}
        for tool in ("", *{*server.tool_facts, *server.tool_labels}):
            of_tool = f"tool {shown(tool)} of {of_server}" if tool else f"the tools of {of_server}"
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
    sentence = f"fact {shown(fact.name)}, which rule {shown(rule)} reads, is missing, so that {everything} is held back"
    place = {"tool": "`tool_fact_defaults` of the server, or `tool_facts`", "agent": "`facts` of the agent"}
    hint = f"set it in {place.get(fact.subject, '`facts` of the server')}; it is missing for {who}"
    at = config.place("mcpServers")
    return Finding(at, "missing-fact", sentence, hint, Severity.ERROR if of_all else Severity.WARNING)
