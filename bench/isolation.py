"""Whether servers that fail hold up those that are well, when a gateway starts."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import cast

from bench.local_policy import local_policy
from bench.report import Aim, Row
from bench.rounds import Figures, Rounds
from callability.contract.vocabulary import LoadStatus
from callability.files.document import Node
from callability.gateway.config.config import Config
from callability.gateway.config.model import Deadlines, ServerConfig
from callability.gateway.policy_client import PolicyClient
from callability.gateway.runtime.runtime import UpstreamPool

PART = "isolation"

_MEASURED = 10
_ROOT = Path(__file__).parents[1]
_AIM = Aim(1.1)

Servers = Mapping[str, ServerConfig]


def rows(rounds: Rounds) -> list[Row]:
    """Measure how long ten servers take to be available: beside ten that are well, and beside ten that fail."""
    policy = local_policy()
    with _endpoints() as (well, failing), asyncio.Runner() as runner:
        measured = well[:_MEASURED]
        others = {
            "alone": {},
            "beside ten that are well": _servers("other", well[_MEASURED:]),
            "beside ten that fail": _failing(failing),
        }
        subjects = {name: {**_servers("well", measured), **beside} for name, beside in others.items()}
        series = rounds.interleaved(
            PART, {name: partial(_timed, runner, policy, servers) for name, servers in subjects.items()}
        )
    alone, beside_well, beside_failing = (series[name]["ms"] for name in subjects)
    what = "ten servers are available"
    return [
        Row(PART, f"{what}, alone", "ms", alone),
        Row(PART, f"{what}, beside ten that are well", "ms", beside_well, against=alone),
        Row(PART, f"{what}, beside ten that fail in ten ways", "ms", beside_failing, against=beside_well, aim=_AIM),
    ]


@contextmanager
def _endpoints() -> Iterator[tuple[list[str], dict[str, str]]]:
    """Run endpoints that are well and endpoints that fail, and yield their URLs."""
    command = [sys.executable, "-m", "bench.endpoints"]
    environment = os.environ | {"PYTHONPATH": str(_ROOT / "tests")}
    with subprocess.Popen(
        command, cwd=_ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        urls = json.loads(process.stdout.readline())
        yield urls["well"], urls["failing"]
        process.communicate()


def _servers(word: str, urls: list[str]) -> Servers:
    return {f"{word}{number}": ServerConfig(url=url) for number, url in enumerate(urls)}


def _failing(urls: Mapping[str, str]) -> Servers:
    """Return ten servers: those on HTTP, one whose name nobody knows, and one whose command does not exist."""
    there = {name.replace(" ", "-"): ServerConfig(url=url) for name, url in urls.items()}
    nobody = ServerConfig(url="http://nobody.invalid/mcp")
    return {**there, "unknown": nobody, "missing": ServerConfig(command="no-such-command")}


def _timed(runner: asyncio.Runner, policy: PolicyClient, servers: Servers) -> Figures:
    config = Config(Path("mcp_config.json"), servers, None, {}, Deadlines(), (), cast(Node, None))

    async def started() -> float:
        pool = UpstreamPool(policy)
        started = perf_counter()
        pool.apply(config)
        well = [supervisor for name, supervisor in pool.supervisors.items() if name.startswith("well")]
        await asyncio.gather(*(supervisor.wait_until_loaded() for supervisor in well))
        taken = perf_counter() - started
        assert all(supervisor.outcome and supervisor.outcome.status is LoadStatus.AVAILABLE for supervisor in well)
        await pool.close()
        return taken

    return {"ms": 1e3 * runner.run(started())}
