"""`python -m bench.endurance`: a million calls of one process, and by how much its memory grows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import grpc
import typer

from bench import h2load, python_client
from bench.serving import SERVICE, Served, served
from bench.workload import about_one_each
from callability.process.address import DIRECT

_PATH = "/callability.v1.CallabilityService/CheckTool"
_CONNECTIONS = 4
_STREAMS = 4
_QUESTIONS = 100
_AIM_MIB = 2.0
_GENERATOR = h2load if h2load.installed() else python_client


def endurance(
    calls: Annotated[int, typer.Option(min=1_000, help="How many calls are measured.")] = 1_000_000,
    warm: Annotated[int, typer.Option(min=1_000, help="How many calls are made before, to warm up.")] = 50_000,
) -> None:
    """Call `CheckTool` a million times, and print by how much the resident memory of the service grows.

    Exit code 0: by less than 2 MiB. 1: by more. 2: a wrong call.
    """
    requests = [request.SerializeToString() for request in about_one_each(_QUESTIONS)]
    with served(SERVICE) as server:
        _call(server, requests, warm)
        before = _resident(server)
        print(f"{before:.1f} MiB after {warm:,} calls to warm up", file=sys.stderr, flush=True)
        done = 0
        while done < calls:
            part = min(100_000, calls - done)
            _call(server, requests, part)
            done += part
            print(f"{_resident(server):.1f} MiB after {done:,} calls", file=sys.stderr, flush=True)
        grown = _resident(server) - before
    print(f"{calls:,} calls by {_GENERATOR.NAME}: grown by {grown:.2f} MiB, may by {_AIM_MIB:.0f}")
    raise typer.Exit(0 if grown < _AIM_MIB else 1)


def _call(server: Served, requests: list[bytes], calls: int) -> None:
    """Ask each question as often as the others."""
    for request in requests:
        reply = _reply(server, request)
        _GENERATOR.calls_per_second(
            server.address,
            _PATH,
            request,
            reply,
            calls=max(1, calls // len(requests)),
            connections=_CONNECTIONS,
            streams=_STREAMS,
        )


def _reply(server: Served, request: bytes) -> bytes:
    with grpc.insecure_channel(server.address, [DIRECT]) as channel:
        return python_client.as_bytes(channel, _PATH)(request)


def _resident(server: Served) -> float:
    status = Path(f"/proc/{server.process}/status").read_text()
    [line] = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    typer.run(endurance)
