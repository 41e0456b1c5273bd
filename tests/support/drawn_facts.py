"""Compares the reference evaluator, a client that decides locally, and a service: about facts that are drawn.

`PYTHONPATH=tests python -m support.drawn_facts --count 1000000` draws a million for each policy; `make facts` does so.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from callability.bundle.v1 import bundle_pb2
from callability.client import BlockingClient
from callability.compiler.rule_set import Templates, rule_words, status_words
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import decide
from callability.kernel.facts import FactReader, Readings
from callability.kernel.policy import read
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2
from support.bundles import POLICIES, DrawnRequests, bundle_of, policy_of, write_policy_of
from support.later_tries import LaterTries
from support.running import serving

BATCH = 10_000
"""Facts in a request."""
SERVERS = 50
"""Servers in a request, half of them with facts for which no shipped rule decides."""
_POOL = 500
"""Facts of tools that are drawn for a request, of each kind; a server has some of them, by chance."""
_WITH_AGENT = 0.9
"""The share of requests that name their agent."""
_ATTEMPT_SECONDS = 120.0
_MAX_SHOWN = 5


@dataclass(slots=True)
class Comparison:
    """What was compared about one policy: how many facts by the rule that was reached, and what differs."""

    facts: int = 0
    open: int = 0
    """How many of them were drawn so that no shipped rule decides."""
    by_rule: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """How many facts reached a rule, and whether it was undetermined."""
    differences: list[str] = field(default_factory=list)


class Reference:
    """The verdicts of the reference evaluator by one policy, and the words that belong to them."""

    def __init__(self, name: str) -> None:
        self._rule_set = policy_of(name).rule_sets["callability"].rule_set
        local = read(bundle_of(name)).callability
        self.reader = FactReader(local)
        self.later_tries = LaterTries(self._rule_set, local)
        self._verdicts: dict[tuple[str, ...], tuple[int, str, bool, bool]] = {}
        self.words = self._every_word()

    def verdict(self, facts: Mapping[str, str]) -> tuple[int, str, bool, bool]:
        """Return the status as a number, the rule, whether it is undetermined, and whether text is withheld."""
        key = tuple(facts.values())
        found = self._verdicts.get(key)
        if found is None:
            found = self._verdicts[key] = self._decided(facts)
        return found

    def unread_fits(self, verdict: verdict_pb2.ToolVerdict, facts: Mapping[str, str]) -> bool:
        """Say whether there are unread facts if and only if it is undetermined, each unknown and read by its rule."""
        reads = self._rule_set.rule(verdict.rule).reads
        return bool(verdict.unread) is verdict.undetermined and all(
            facts[fact] == UNKNOWN and fact in reads for fact in verdict.unread
        )

    def _decided(self, facts: Mapping[str, str]) -> tuple[int, str, bool, bool]:
        complete = {**dict.fromkeys(self._rule_set.question.facts, UNKNOWN), **facts}
        decision = decide(self._rule_set.conditions, complete)
        rule = self._rule_set.rules[decision.rule]
        status = self._rule_set.question.undetermined if decision.undetermined else rule.status
        withholds = self._rule_set.question.withholds
        assert withholds is not None
        return _number(status), rule.id, decision.undetermined, withholds(complete)

    def _every_word(self) -> dict[tuple[int, str], Templates]:
        rules = self._rule_set
        words = {(_number(status), ""): status_words(rules, status) for status in rules.words}
        own = ((rule, rule_words(rules, rule)) for rule in rules.rules)
        return words | {(_number(rule.status), rule.id): texts for rule, texts in own if texts}


def compared(name: str, count: int, seed: int) -> Comparison:
    """Compare the three about so many facts, by the shipped policy or an example."""
    comparison, reference, random = Comparison(), Reference(name), Random(seed)
    rule_set = read(bundle_of(name)).callability
    with (
        TemporaryDirectory() as directory,
        serving("--policy", str(write_policy_of(name, Path(directory)))) as address,
        BlockingClient.local([address]) as local,
        BlockingClient.remote([address], attempt_seconds=_ATTEMPT_SECONDS) as remote,
    ):
        while comparison.facts < count:
            drawn = DrawnRequests(rule_set, random.randrange(2**32))
            request = _request(drawn, random, min(BATCH, count - comparison.facts))
            by_service, by_client = remote.check_tools(request), local.check_tools(request)
            if by_service != by_client:
                comparison.differences.append(f"the client answers otherwise than the service: {request}"[:2_000])
            comparison.differences += _differences(request, by_client, reference, comparison)
    return comparison


def _request(drawn: DrawnRequests, random: Random, count: int) -> pb.CheckToolsRequest:
    """Draw a request about so many tools; for half of its servers, no shipped rule decides."""
    any_tools = [(drawn.name(bundle_pb2.FACT_SUBJECT_TOOL), drawn.tool_facts()) for _ in range(_POOL)]
    open_tools = [(drawn.name(bundle_pb2.FACT_SUBJECT_TOOL), drawn.open_tool_facts()) for _ in range(_POOL)]
    request = pb.CheckToolsRequest(agent=drawn.agent() if random.random() < _WITH_AGENT else None)
    for number in range(SERVERS):
        facts, tools = (drawn.open_server_facts(), open_tools) if number % 2 else (drawn.server_facts(), any_tools)
        # The rest of a division goes to the first servers.
        chosen = random.choices(tools, k=count // SERVERS + (number < count % SERVERS))
        named = [pb.Tool(name=name, facts=known) for name, known in chosen]
        request.servers.append(
            pb.ServerTools(name=drawn.name(bundle_pb2.FACT_SUBJECT_SERVER), facts=facts, tools=named)
        )
    return request


def _differences(
    request: pb.CheckToolsRequest, response: pb.CheckToolsResponse, reference: Reference, comparison: Comparison
) -> Iterator[str]:
    """Yield where an answer differs from the reference evaluator's, and count what was compared."""
    reader = reference.reader
    agent = reader.of_agent(request.agent if request.HasField("agent") else None, request.agent.name)
    of_tools: dict[tuple[str, bytes], Readings] = {}
    met: set[tuple[int, str]] = set()
    for number, (server, results) in enumerate(zip(request.servers, response.servers, strict=True)):
        above = agent | reader.of_server(server.facts, server.name)
        comparison.open += number % 2 * len(server.tools)
        for tool, result in zip(server.tools, results.results, strict=True):
            key = tool.name, tool.facts.SerializeToString(deterministic=True)
            if key not in of_tools:
                of_tools[key] = reader.of_tool(tool.facts, tool.name)
            readings = above | of_tools[key]
            facts = readings.values
            given, expected = result.verdict, reference.verdict(facts)
            comparison.facts += 1
            comparison.by_rule[given.rule, given.undetermined] += 1
            met |= {(expected[0], ""), (expected[0], "" if expected[2] else expected[1])}
            found = (given.status, given.rule, given.undetermined, given.withhold_text)
            if found != expected or not reference.unread_fits(given, facts):
                yield f"{facts}: {found}, unread {[*given.unread]}; the reference: {expected}"
            if not reference.later_tries.fits(given, readings):
                yield f"{facts}, of which {[*readings.stays_unknown]} stay unknown: retry {given.retry} is wrong"
    said = {(words.status, words.rule): (words.remediation, words.rejection) for words in response.words}
    of_policy = ((key, reference.words[key]) for key in met & reference.words.keys())
    wanted = {key: (texts["remediation"], texts["rejection"]) for key, texts in of_policy}
    if said != wanted:
        yield f"the words are {said}; those of the policy: {wanted}"


def _number(status: str) -> int:
    return verdict_pb2.ToolStatus.Value(f"TOOL_STATUS_{status.upper()}")


def main(
    count: Annotated[int, typer.Option(min=1, help="Facts for each policy.")] = BATCH,
    seed: Annotated[int, typer.Option(help="What they are drawn from.")] = 1,
    only: Annotated[list[str] | None, typer.Option(help="A policy; may be given again. Default: all.")] = None,
) -> None:
    """Compare, and print a line for each policy. Exit code 1: something differs."""
    different = False
    for name in only or POLICIES:
        started = time.monotonic()
        found = compared(name, count, seed)
        reached = {rule for rule, _ in found.by_rule}
        undetermined = sum(number for (_, unknown), number in found.by_rule.items() if unknown)
        print(
            f"{name}: {found.facts:,} facts, {found.open:,} of them with no shipped rule that decides;"
            f" {len(reached)} rules reached, {undetermined:,} undetermined; {len(found.differences)} differences;"
            f" {time.monotonic() - started:.0f} s",
            flush=True,
        )
        for each in found.differences[:_MAX_SHOWN]:
            print(f"  {each}")
        different |= bool(found.differences)
    raise typer.Exit(1 if different else 0)


if __name__ == "__main__":
    typer.run(main)
