"""A process that sends batches on one connection, one after the other, while it is to.

Each line on standard input turns that on or off, and has a line as its answer; the process ends when the input does.
"""

from __future__ import annotations

import asyncio
import sys

import grpc

from bench.workload import about_many
from callability.process.address import DIRECT

_PATH = "/callability.v1.CallabilityService/CheckTools"
_OPTIONS = (DIRECT, ("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))


async def main(address: str, tools: int) -> None:
    """Call until standard input ends; the first call is made at once, so that there is a connection."""
    request = about_many(tools).SerializeToString()
    async with grpc.aio.insecure_channel(address, _OPTIONS) as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_PATH)

        async def batches() -> None:
            while True:
                await call(request)

        await call(request, wait_for_ready=True)
        print("connected", flush=True)
        calling: asyncio.Task[None] | None = None
        while await asyncio.to_thread(sys.stdin.readline):
            if calling is None:
                calling = asyncio.create_task(batches())
            else:
                calling.cancel()
                await asyncio.wait([calling])
                calling = None
            print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
