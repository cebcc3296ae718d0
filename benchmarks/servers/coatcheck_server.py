"""The tools on coatcheck, for `coatcheck serve`."""

from __future__ import annotations

import asyncio

from coatcheck import Policy
from coatcheck.server import TaskPolicy, TaskServer

# As long as FastMCP keeps its tasks at least, and no bound on how many sleep.
server = TaskServer(
    "bench",
    task=TaskPolicy(ttl=3600, poll_interval=0.1),
    policy=Policy(quota=None),
    max_unfinished=None,
    concurrency=20_000,
)
_gate = asyncio.Event()
_sleeping = 0


@server.tool()
async def plain(a: int, b: int) -> int:
    return a + b


@server.tool(task="required")
async def noop() -> str:
    return "done"


@server.tool(task="required")
async def nap(seconds: float) -> str:
    global _sleeping
    _sleeping += 1
    try:
        await asyncio.sleep(seconds)
    finally:
        _sleeping -= 1
    return "rested"


@server.tool(task="optional")
async def held() -> str:
    _gate.clear()
    await _gate.wait()
    return "released"


@server.tool()
async def release() -> None:
    _gate.set()


@server.tool()
async def running() -> int:
    return _sleeping
