"""A candidate that decides beside the policy in effect: it answers nothing, and what differs is counted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from callability.kernel.policy import read
from callability.records.format import By
from callability.records.reading import RecordReading, sources_of
from callability.records.recorder import Recorder, RecordOptions
from callability.records.shadow import Shadow
from callability.records.writer import Destination
from callability.service.calls import ServedPolicy
from callability.v1 import callability_service_pb2 as pb
from support.bundles import DrawnRequests, bundle_of, checked_of


def test_differences_of_a_candidate_are_counted_and_those_of_calls_recorded(tmp_path: Path) -> None:
    """Every answer is that of the policy in effect, before and after there is a candidate."""
    recorder = Recorder(RecordOptions(Destination(str(tmp_path))), By.SERVICE)
    registry = CollectorRegistry()
    shadow = Shadow(registry, recorder)
    answers = ServedPolicy(checked_of("shipped"), recorder=recorder, shadow=shadow).answers
    plain = ServedPolicy(checked_of("shipped")).answers
    drawn = DrawnRequests(read(bundle_of("environments")).callability, 7)
    requests = [drawn.check_tool() for _ in range(100)]
    batch = pb.CheckToolsRequest()
    for each in requests:
        tools = [pb.Tool(name=each.tool, facts=each.tool_facts)]
        batch.servers.append(pb.ServerTools(name=each.server, facts=each.server_facts, tools=tools))
    data_of_batch = batch.SerializeToString()

    async def story() -> None:
        for data in (each.SerializeToString() for each in requests):
            assert await answers["CheckTool"](data) == await plain["CheckTool"](data)
        assert await answers["CheckTools"](data_of_batch) == await plain["CheckTools"](data_of_batch)

    asyncio.run(story())
    assert b"callability_shadow_differences_total{" not in generate_latest(registry)
    shadow.replace(read(bundle_of("environments")))
    asyncio.run(story())
    recorder.close()
    records = [json.loads(line) for line in RecordReading(sources_of([str(tmp_path)])).lines()]
    differing = [each for each in records if "shadow" in each]
    assert differing
    assert all(each["shadow"]["status"] != each["status"] for each in differing)
    assert [each["after"] for each in records if each.get("change") == "shadow"] == [shadow_revision()]
    text = generate_latest(registry).decode()
    lines = [line for line in text.splitlines() if line.startswith("callability_shadow_differences_total{")]
    by = {of: sum(float(line.split()[-1]) for line in lines if f'of="{of}"' in line) for of in ("call", "discovery")}
    assert by["call"] == len(differing)
    assert by["discovery"] > 0
    assert 'callability_shadow_decisions_total{of="call"} 100.0' in text


def shadow_revision() -> str:
    """Return the revision of the candidate."""
    return read(bundle_of("environments")).revision
