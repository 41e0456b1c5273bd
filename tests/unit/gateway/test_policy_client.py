"""What a gateway asks of the policy: one form for a missing answer, and a report of each revision that answers."""

from __future__ import annotations

import logging

import pytest

from callability.cli.own_policy import GivenPolicy
from callability.client import PolicyUnavailable
from callability.gateway.policy_client import PolicyClient
from callability.kernel.policy import read
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from support.bundles import bundle_of

pytestmark = pytest.mark.anyio
LONG = "x" * 513


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


@pytest.fixture
def given() -> GivenPolicy:
    """The shipped policy in this process."""
    given = GivenPolicy()
    assert given.give(bundle_of("shipped"))
    return given


async def test_each_answer_reports_its_revision_but_that_about_the_policy_itself(given: GivenPolicy) -> None:
    """The labels of the config are compared again after another one; that reads the policy."""
    revisions: list[str] = []
    policy = PolicyClient(given.client)
    policy.note_revision = revisions.append
    await policy.check_tool(pb.CheckToolRequest(server="s", tool="t"))
    await policy.check_tools(pb.CheckToolsRequest())
    await policy.classify_load(pb.ClassifyLoadRequest())
    assert revisions == [read(bundle_of("shipped")).revision] * 3
    assert (await policy.get_policy(120)).revision == revisions[0]
    assert len(revisions) == 3


async def test_a_tool_whose_name_is_refused_has_no_verdict(given: GivenPolicy) -> None:
    """So its call is rejected, and nothing says that the policy is gone."""
    assert (
        await PolicyClient(given.client).check_tool(pb.CheckToolRequest(server="s", tool=LONG))
        == pb.CheckToolResponse()
    )


async def test_any_other_request_that_is_refused_has_no_answer(
    given: GivenPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says why, and the error has the code alone."""
    with pytest.raises(PolicyUnavailable, match=r"^the policy service gave no answer \(INVALID_ARGUMENT\)$"):
        await PolicyClient(given.client).check_tools(pb.CheckToolsRequest(agent=facts_pb2.Agent(name=LONG)))
    [said] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert said.startswith("the policy service gave no answer about the tools: INVALID_ARGUMENT, the name of the agent")


async def test_a_client_that_is_closed_gives_no_answer(given: GivenPolicy) -> None:
    """A call under way at the shutdown of the gateway ends like one without an answer."""
    await given.client.close()
    with pytest.raises(PolicyUnavailable) as caught:
        await PolicyClient(given.client).classify_enable(pb.ClassifyEnableRequest())
    assert caught.value.code == "CANCELLED"


async def test_a_bundle_that_is_refused_leaves_the_last_policy(given: GivenPolicy) -> None:
    """As a whole or not at all."""
    bundle = bytearray(bundle_of("change-freeze"))
    bundle[-1] ^= 1
    assert not given.give(bytes(bundle))
    assert (await given.client.get_policy()).revision == read(bundle_of("shipped")).revision
    assert given.give(bundle_of("change-freeze"))
    assert (await given.client.get_policy()).revision == read(bundle_of("change-freeze")).revision
