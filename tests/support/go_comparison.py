"""Compare the decisions of Go from a bundle, of a service that Go asks, and of the reference, over drawn facts.

`PYTHONPATH=tests python -m support.go_comparison --facts 1000000`
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from callability.bundle.v1 import bundle_pb2
from callability.kernel.conditions import Decision, decide
from callability.kernel.facts import FactReader
from callability.kernel.policy import read
from callability.service.calls import CallabilityCalls
from callability.v1 import callability_service_pb2 as pb
from callability.v1.verdict_pb2 import ToolVerdict
from support.bundles import POLICIES, DrawnRequests, bundle_of, checked_of, policy_of, write_policy_of
from support.checkout import ROOT
from support.later_tries import LaterTries
from support.running import serving

SERVERS, TOOLS = 20, 50
"""Of a request: facts are drawn for each server and each tool, and once for the agent."""


class Reference:
    """Decides by the rules as they are written, one after the other, and remembers each combination of facts."""

    def __init__(self, name: str) -> None:
        self._rule_set = policy_of(name).rule_sets["callability"].rule_set
        local = read(bundle_of(name)).callability
        self._reader = FactReader(local)
        self._later_tries = LaterTries(self._rule_set, local)
        self._known: dict[tuple[str, ...], tuple[Decision, bool]] = {}

    def disagrees(self, request: pb.CheckToolsRequest, response: pb.CheckToolsResponse) -> str:
        """Return the first difference of a response; empty if there is none."""
        agent = self._reader.of_agent(request.agent if request.HasField("agent") else None, request.agent.name)
        for group, results in zip(request.servers, response.servers, strict=True):
            server = agent | self._reader.of_server(group.facts, group.name)
            for tool, result in zip(group.tools, results.results, strict=True):
                readings = server | self._reader.of_tool(tool.facts, tool.name)
                if why := self._difference(readings.values, result.verdict):
                    return f"{readings.values}: {why}"
                if not self._later_tries.fits(result.verdict, readings):
                    return f"{readings}: retry {result.verdict.retry} is wrong"
        return ""

    def _difference(self, facts: Mapping[str, str], verdict: ToolVerdict) -> str:
        key = tuple(facts.values())
        if key not in self._known:
            withholds = self._rule_set.question.withholds
            self._known[key] = decide(self._rule_set.conditions, facts), bool(withholds and withholds(facts))
        decision, withheld = self._known[key]
        rule = self._rule_set.rules[decision.rule]
        wanted = rule.id, decision.undetermined, withheld
        given = verdict.rule, verdict.undetermined, verdict.withhold_text
        return "" if given == wanted else f"{given}, and the reference {wanted}"


def _drawn(name: str, facts: int, seed: int) -> Iterator[pb.CheckToolsRequest]:
    drawn = DrawnRequests(read(bundle_of(name)).callability, seed=seed)
    for _ in range(-(-facts // (SERVERS * TOOLS))):
        request = pb.CheckToolsRequest(agent=drawn.agent())
        for _ in range(SERVERS):
            tools = [
                pb.Tool(name=drawn.name(bundle_pb2.FACT_SUBJECT_TOOL), facts=drawn.tool_facts()) for _ in range(TOOLS)
            ]
            name_of = drawn.name(bundle_pb2.FACT_SUBJECT_SERVER)
            request.servers.append(pb.ServerTools(name=name_of, facts=drawn.server_facts(), tools=tools))
        yield request


def _alone(request: pb.CheckToolsRequest) -> Iterator[bytes]:
    """Yield the request about each tool alone, whose answer says which locks remain."""
    for group in request.servers:
        for tool in group.tools:
            alone = pb.CheckToolRequest(
                server=group.name, server_facts=group.facts, tool=tool.name, tool_facts=tool.facts, agent=request.agent
            )
            if not request.HasField("agent"):
                alone.ClearField("agent")
            yield alone.SerializeToString()


def compared(name: str, facts: int, seed: int, program: Path, directory: Path) -> int:
    """Compare at least so many drawn facts of a policy, and return how many.

    Args:
        name: one of `POLICIES`.
        facts: how many.
        seed: of what is drawn.
        program: `clients/go/remote/internal/compare`, built.
        directory: an empty folder.

    Raises:
        AssertionError: there is a difference.
    """
    bundle, policy = directory / "policy.bundle", directory / "policy"
    policy.mkdir()
    bundle.write_bytes(bundle_of(name))
    reference, calls = Reference(name), CallabilityCalls(checked_of(name))
    with (
        serving("--policy", str(write_policy_of(name, policy))) as address,
        (directory / "differences").open("w+") as differences,
        asyncio.Runner() as runner,
        subprocess.Popen(
            [program, bundle, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=differences
        ) as process,
    ):
        assert process.stdin is not None
        for request in _drawn(name, facts, seed):
            sent = request.SerializeToString()

            async def answer(sent: bytes = sent) -> bytes:
                return await calls.check_tools(sent)

            async def each_alone(request: pb.CheckToolsRequest = request) -> list[bytes]:
                return [await calls.answer("CheckTool", alone) for alone in _alone(request)]

            wanted = runner.run(answer())
            why = reference.disagrees(request, pb.CheckToolsResponse.FromString(wanted))
            assert not why, why
            try:
                for message in (sent, wanted, *runner.run(each_alone())):
                    process.stdin.write(len(message).to_bytes(4, "big") + message)
            except BrokenPipeError:
                break
        counted, _ = process.communicate(timeout=1200)
        differences.seek(0)
        assert process.returncode == 0, differences.read()[:4000]
        return int(counted)


def built(directory: Path) -> Path:
    """Return the program in Go that compares.

    Raises:
        CalledProcessError: it cannot be built; `stderr` says why.
    """
    program = directory / "compare"
    command = ["go", "build", "-o", str(program), "./internal/compare"]
    subprocess.run(command, cwd=ROOT / "clients/go/remote", check=True, capture_output=True, text=True)
    return program


def main() -> None:
    """Compare each policy, and print how many facts were equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=1_000_000, help="facts for each policy")
    parser.add_argument("--seed", type=int, default=14, help="of what is drawn")
    parser.add_argument("--policies", nargs="*", default=POLICIES, help="names of policies")
    arguments = parser.parse_args()
    # Callers that leave facts out are what is drawn.
    logging.disable(logging.WARNING)
    with TemporaryDirectory() as directory:
        program = built(Path(directory))
        for name in arguments.policies:
            folder, started = Path(directory) / name, time.monotonic()
            folder.mkdir()
            count = compared(name, arguments.facts, arguments.seed, program, folder)
            print(f"{name}: {count} facts equal, in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
