"""A thousand clients of 2025-11-25 in `tasks/result`: how soon the last has its answer, and what waiting costs."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Sequence
from datetime import datetime

import uvloop

from benchmarks.line import Line, Settings, bounded, plain
from benchmarks.load.handshake import Handshake
from benchmarks.load.meter import Meter, cpu_seconds, rss_mb
from benchmarks.serving import Served, coatcheck, require, serving

_BOUND_MS = 250.0
_BOUND_PERCENT = 1.0
_SETTLE_SECONDS = 3.0
_IDLE_SECONDS = 50
"""Two of the intervals at which those who wait are sent a ping."""


def run(settings: Settings) -> list[Line]:
    return uvloop.run(_run(settings))


async def _run(settings: Settings) -> list[Line]:
    count = settings.scaled(1000, 100)
    _allow_files(2 * count + 500)
    last: list[float] = []
    each: list[float] = []
    idle: list[float] = []
    async with serving(coatcheck(settings, "waiters")) as server, Handshake(server.address) as client:
        before = rss_mb(server.pids[0])
        for _ in range(settings.rounds):
            found = await _round(settings, server, client, count)
            last.append(found[0])
            each.append(found[1])
            idle.append(found[2])
        grown = (rss_mb(server.pids[0]) - before) / count * 1e3
    return [
        bounded(
            f"tasks/result, the last of {count:,} waiters",
            "ms",
            last,
            bound=_BOUND_MS,
            note="on one task, from the time its row says it ended to the last answer; client and server share 2 cores;"
            f" {grown:.0f} kB of memory each",
        ),
        plain("the same, processor time each", "us", each),
        bounded(
            f"processor time while {count:,} wait",
            "%",
            idle,
            bound=_BOUND_PERCENT,
            note=f"of one core, over {settings.scaled(_IDLE_SECONDS, 3)} s",
        ),
    ]


async def _round(settings: Settings, server: Served, client: Handshake, count: int) -> tuple[float, float, float]:
    task = await client.create("held")
    answered: list[float] = []
    waiters = [asyncio.create_task(_wait(client, task, answered)) for _ in range(count)]
    await asyncio.sleep(_SETTLE_SECONDS)
    with Meter(server.pids) as meter:
        await asyncio.sleep(settings.scaled(_IDLE_SECONDS, 3))
    require(len(answered), 0, "Waiters that did not wait")
    before = cpu_seconds(server.pids[0])
    await client.request("tools/call", name="release", arguments={})
    await asyncio.gather(*waiters)
    spent = cpu_seconds(server.pids[0]) - before
    ended = await client.request("tasks/get", taskId=task)
    require(ended["status"], "completed", "How the task ended")
    return _last(answered, ended["lastUpdatedAt"]), 1e6 * spent / count, 100 * meter.metrics["server_cpu"]


async def _wait(client: Handshake, task: str, answered: list[float]) -> None:
    result = await client.request("tasks/result", taskId=task)
    answered.append(time.time())
    require(result["content"][0]["text"], "released", "What a waiter got")


def _last(answered: Sequence[float], ended: str) -> float:
    return (max(answered) - datetime.fromisoformat(ended).timestamp()) * 1e3


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
