"""What edits of a policy cost those who ask meanwhile, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

import grpc

from bench.python_client import NAME
from bench.report import Aim, Aimed, Row
from bench.rounds import Figures, Rounds
from bench.serving import SERVICE, Served, served
from callability.files.shipped_policy import shipped_policy
from callability.process.address import DIRECT
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from callability.v1.policy_service_pb2 import GetPolicyRequest
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub

PART = "edits"

_CALLERS = 16
_PAUSE = 0.02
"""Seconds between the calls of a caller: without a pause they take both cores, and the check has to wait for them."""
_EDITS = 4
"""Edits in a round."""
_QUIET_PAUSES = 100
"""Pauses of a caller in a round without an edit."""
_PATIENCE = 60.0
_AIM = Aim(2.0, of=Aimed.VALUE)
_PATH = "/callability.v1.CallabilityService/CheckTool"
_QUESTION = pb.CheckToolRequest(
    server="s",
    server_facts=facts_pb2.ServerFacts(enabled=True, quarantined=False),
    tool="t",
    tool_facts=facts_pb2.ToolFacts(
        config_denied=False, approval=facts_pb2.Approval(record=facts_pb2.ApprovalRecord(disabled=True))
    ),
).SerializeToString()

Work = Callable[[grpc.aio.Channel], Awaitable[Figures]]


def rows(rounds: Rounds) -> list[Row]:
    """Ask by sixteen callers while nothing is edited, and while every edit is followed by another."""
    with TemporaryDirectory() as temporary, asyncio.Runner() as runner:
        directory = shutil.copytree(shipped_policy(), Path(temporary) / "policy")
        with served(SERVICE, "--policy", str(directory)) as service:
            edited = _Edited(directory / "callability.yaml", service, rounds.repetitions(_EDITS))
            subjects: dict[str, Work] = {
                "quiet": partial(_quiet, rounds.repetitions(_QUIET_PAUSES)),
                "edits": edited.edits,
            }
            series = rounds.interleaved(
                PART, {name: partial(_measured, runner, service, work) for name, work in subjects.items()}
            )
    quiet, edits = series["quiet"], series["edits"]
    subject = f"CheckTool, p99 of {_CALLERS} callers, by {NAME}"
    return [
        Row(PART, f"{subject}, nothing edited", "ms", quiet["p99"]),
        Row(PART, f"{subject}, edit after edit", "ms", edits["p99"], against=quiet["p99"]),
        Row(PART, "an edit, until it decides, meanwhile", "ms", edits["ms"]),
        Row(PART, "memory, above that after the first round", "MB", edits["grown"], aim=_AIM),
    ]


class _Edited:
    """A rule file that has one of two texts by turns, and the memory of its service."""

    def __init__(self, path: Path, service: Served, count: int) -> None:
        text = path.read_text()
        own = text.replace("status: disabled_by_user}", 'status: disabled_by_user, because: "It was noisy."}')
        self._path, self._service, self._texts, self._count = path, service, cycle((own, text)), count
        self._at_first: int | None = None

    async def edits(self, channel: grpc.aio.Channel) -> Figures:
        taken = [await self._edit(channel) for _ in range(self._count)]
        resident = _resident(self._service.process)
        self._at_first = self._at_first or resident
        return {"ms": 1e3 * median(taken), "grown": (resident - self._at_first) / 1e6}

    async def _edit(self, channel: grpc.aio.Channel) -> float:
        """Put the other text in the place of one, and return how long it took until it decided."""
        stub = PolicyServiceStub(channel)
        before = (await stub.GetPolicy(GetPolicyRequest())).revision
        beside = self._path.with_suffix(".new")
        beside.write_text(next(self._texts))
        started = perf_counter()
        os.replace(beside, self._path)
        async with asyncio.timeout(_PATIENCE):
            while (await stub.GetPolicy(GetPolicyRequest())).revision == before:  # noqa: ASYNC110  # another process's
                await asyncio.sleep(0.01)
        return perf_counter() - started


def _resident(process: int) -> int:
    """Return the bytes of memory that a process holds."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()


async def _quiet(pauses: int, _: grpc.aio.Channel) -> Figures:
    await asyncio.sleep(pauses * _PAUSE)
    return {}


def _measured(runner: asyncio.Runner, service: Served, work: Work) -> Figures:
    return runner.run(_ask_meanwhile(service.address, work))


async def _ask_meanwhile(address: str, work: Work) -> Figures:
    """Ask all the while; every reply is one of two, and a call that fails ends the measurement.

    Raises:
        RuntimeError: there was a third reply.
    """
    taken: list[float] = []
    replies: set[bytes] = set()
    done = asyncio.Event()

    async def caller(channel: grpc.aio.Channel) -> None:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_PATH)
        while not done.is_set():
            started = perf_counter()
            replies.add(await call(_QUESTION))
            taken.append(perf_counter() - started)
            await asyncio.sleep(_PAUSE)

    async with grpc.aio.insecure_channel(address, [DIRECT]) as channel, asyncio.TaskGroup() as group:
        for _ in range(_CALLERS):
            group.create_task(caller(channel))
        figures = await work(channel)
        done.set()
    if len(replies) > 2:
        raise RuntimeError("a reply is neither policy's")
    return {"p99": 1e3 * quantiles(taken, n=100)[-1], **figures}
