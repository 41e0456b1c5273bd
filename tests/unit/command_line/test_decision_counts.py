"""A gateway counts what it decides in its own process as a service counts it."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from callability.cli.own_policy import GivenPolicy
from callability.kernel.policy import read
from callability.service.metrics import Gaps, PolicyMetrics
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from support.bundles import POLICIES, DrawnRequests, bundle_of, policy_of
from support.drawing import share
from support.service_stub import ServiceStub

_TIMES = ("_created", "_timestamp_seconds")


def _counted(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sorted(f"{name}={value}" for name, value in sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith(_TIMES) and sample.value
    }


def _batch(drawn: DrawnRequests) -> pb.CheckToolsRequest:
    """Draw a batch, with names that are errors, and with facts that no policy declares."""
    request = pb.CheckToolsRequest(agent=drawn.agent())
    request.agent.declared_facts.values["stranger.agent"] = "x"
    for server in ("one", "two"):
        facts = drawn.server_facts()
        facts.declared_facts.values["stranger.server"] = "x"
        tools = [pb.Tool(name=name, facts=drawn.tool_facts()) for name in ("a", "b", "c", "", "ü" * 257)]
        for tool in tools[1:]:
            tool.facts.declared_facts.MergeFrom(
                facts_pb2.DeclaredFacts(values={"stranger.one": "x", "stranger.two": "y"})
            )
        request.servers.append(pb.ServerTools(name=server, facts=facts, tools=tools))
    return request


@pytest.mark.parametrize("name", POLICIES)
def test_every_metric_of_decisions_is_that_of_a_service(name: str) -> None:
    """Verdicts by rule, undetermined decisions by fact and cause, facts that are not declared, and sizes of batches."""
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    given, service = (
        GivenPolicy(partial(Gaps, metrics=PolicyMetrics(ours))),
        ServiceStub(policy_of(name), PolicyMetrics(theirs)),
    )
    assert given.give(bundle_of(name))
    client = given.client

    async def ask() -> None:
        drawn = DrawnRequests(read(bundle_of(name)).callability, seed=7)
        for _ in range(share(300)):
            one, load, enable, batch = drawn.check_tool(), drawn.load(), drawn.enable(), _batch(drawn)
            one.tool_facts.declared_facts.values["stranger.one"] = "x"
            assert await client.check_tool(one) == await service.CheckTool(one)
            assert await client.classify_load(load) == await service.ClassifyLoad(load)
            assert await client.classify_enable(enable) == await service.ClassifyEnable(enable)
            assert await client.check_tools(batch) == await service.CheckTools(batch)

    asyncio.run(ask())
    found = _counted(ours)
    assert found == _counted(theirs)
    counted = {metric for metric, *_ in found}
    assert {"callability_verdicts_total", "callability_undetermined_decisions_total"} <= counted
    assert {"callability_undeclared_facts_total", "callability_batch_tools_count"} <= counted


def test_an_explanation_is_no_decision() -> None:
    """It repeats one, and is counted by neither."""
    registry = CollectorRegistry()
    given = GivenPolicy(partial(Gaps, metrics=PolicyMetrics(registry)))
    assert given.give(bundle_of("shipped"))
    before = _counted(registry)
    asyncio.run(given.client.explain_tool(pb.ExplainToolRequest(server="s", tool="t")))
    assert _counted(registry) == before
