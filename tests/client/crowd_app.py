"""The server of the crowd: it writes down when each task is looked at, and who is told."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from itertools import pairwise
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from tests.client.app import make

INTERVAL = 2.0
server = make(interval=INTERVAL)
_looks: defaultdict[str, list[float]] = defaultdict(list)
_told: set[str] = set()
_seen_twice: set[str] = set()
_changed = asyncio.Condition()


@server.tool()
async def polls() -> dict[str, Any]:
    """Return how many looks there were, and the shortest time between two looks at one task."""
    gaps = [later - earlier for times in _looks.values() for earlier, later in pairwise(times)]
    return {"looks": sum(map(len, _looks.values())), "shortest": min(gaps, default=INTERVAL), "told": len(_told)}


@server.tool()
async def until_seen(count: int) -> bool:
    """Return once `count` tasks have been looked at twice, or are told of."""
    async with _changed:
        return await _changed.wait_for(lambda: len(_told) >= count or len(_seen_twice) >= count)


async def observe(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    params = ctx.params or {}
    if ctx.method == "tasks/get":
        task_id = str(params.get("taskId"))
        _looks[task_id].append(time.monotonic())
        if len(_looks[task_id]) > 1:
            _seen_twice.add(task_id)
    elif ctx.method == "subscriptions/listen":
        _told.update(params["notifications"].get("taskIds") or ())
    async with _changed:
        _changed.notify_all()
    return await call_next(ctx)


server.middleware.append(observe)
