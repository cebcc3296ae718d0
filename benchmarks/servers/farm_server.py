"""Tools that tell which process ran them, for `coatcheck serve --concurrency 0` and workers beside it."""

from __future__ import annotations

import asyncio
import os
import time

from coatcheck import Policy
from coatcheck.server import TaskPolicy, TaskServer

server = TaskServer(
    "farm", task=TaskPolicy(ttl=3600, poll_interval=0.1), policy=Policy(quota=None), max_unfinished=None
)


@server.tool(task="required")
async def noop() -> int:
    return os.getpid()


@server.tool(task="required")
async def nap(seconds: float) -> int:
    await asyncio.sleep(seconds)
    return os.getpid()


@server.tool(task="required")
async def burn(seconds: float) -> int:
    """Keep a processor busy for so long, however many others want it."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return os.getpid()
