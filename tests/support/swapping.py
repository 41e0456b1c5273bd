"""A service that replaces one of two policies by the other as often as each line on standard input says.

After each line it writes its resident memory in KiB. Everything is as when an edit is applied, except that the two
policies were checked before.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

import uvloop

from callability.compiler.bundle_writing import with_bundle
from callability.compiler.confirmation import Engine
from callability.compiler.policy import check_source
from callability.files.policy_source import source_in
from callability.kernel.policy import unpack
from callability.service.calls import CallabilityCalls
from callability.service.server import Port, Server


def _ready(packed: bytes) -> CallabilityCalls:
    return CallabilityCalls(unpack(packed))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


async def main(*directories: str) -> None:
    """Serve until standard input closes; the address is written first."""
    checked = [
        with_bundle(check_source(source_in(Path(each)), engine=Engine.REFERENCE), each).pack() for each in directories
    ]
    server = Server(unpack(checked[0]), Port("127.0.0.1:0"))
    await server.start()
    print(server.address, flush=True)
    swaps = 0
    while line := await asyncio.to_thread(sys.stdin.readline):
        for _ in range(int(line)):
            swaps += 1
            server.served.replace(await asyncio.to_thread(_ready, checked[swaps % len(checked)]))
        print(_resident(), flush=True)
    await server.stop()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
