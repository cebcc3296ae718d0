"""Ten thousand sleeping tasks in one process: their memory, polls among them, and that each of them ends."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from functools import partial

import uvloop

from benchmarks.line import Line, Settings, Target, bounded, compared
from benchmarks.load.holding import cancel_all, create_all, gauge
from benchmarks.load.meter import Meter, rss_mb
from benchmarks.load.session import Session, sessions
from benchmarks.load.trips import run_task, shared_out
from benchmarks.serving import Served, coatcheck, require, serving
from benchmarks.timing import CALLERS, Spent, alternate

_BOUND_KB = 12.0
_FEW = 10
_SETTLE_SECONDS = 3.0
_NAP = {"seconds": 3000}


def run(settings: Settings) -> list[Line]:
    return uvloop.run(_run(settings))


async def _run(settings: Settings) -> list[Line]:
    count = settings.scaled(10_000, 500)
    async with (
        serving(coatcheck(settings, "hold")) as server,
        serving(coatcheck(settings, "hold-few")) as other,
        sessions(server.address, CALLERS) as clients,
        sessions(other.address, 1) as others,
    ):
        # What a server needs once, for its first tasks, is not part of what it needs for each.
        await shared_out(clients, range(settings.scaled(1000, 100)), _noop)
        before, started = rss_mb(server.pids[0]), time.perf_counter()
        tasks = await create_all(clients, "nap", _NAP, count)
        created = count / (time.perf_counter() - started)
        few = await create_all(others, "nap", _NAP, _FEW)
        await asyncio.sleep(_SETTLE_SECONDS)
        require(await gauge(clients[0], "running"), count, "Tasks that sleep")
        grown = (rss_mb(server.pids[0]) - before) / count * 1e3
        polls = await _polls(settings, server, tasks, other, few)
        with Meter(server.pids) as meter:
            await asyncio.sleep(settings.scaled(15, 3))
        started = time.perf_counter()
        require(dict(await cancel_all(clients, tasks)), {"cancelled": count}, "How tasks ended")
        ended = time.perf_counter() - started
        require(await _left(clients[0]), 0, "Tasks that sleep on")
    note = (
        f"{created:.0f} creates/s; holding them takes {100 * meter.metrics['server_cpu']:.1f} % of a core;"
        f" all of them cancelled, and seen to be, in {ended:.1f} s"
    )
    return [bounded(f"memory, each of {count:,} sleeping tasks", "kB", [grown], bound=_BOUND_KB, note=note), polls]


async def _left(session: Session) -> int:
    """Return how many still sleep when all are cancelled; a row is written before its tool is stopped."""
    deadline = time.perf_counter() + _SETTLE_SECONDS
    while (left := await gauge(session, "running")) and time.perf_counter() < deadline:
        continue
    return left


async def _noop(session: Session, _: int) -> None:
    await run_task(session, "noop", {}, 0.02)


async def _polls(settings: Settings, server: Served, tasks: Sequence[str], other: Served, few: Sequence[str]) -> Line:
    rounds = await alternate(
        settings.rounds,
        partial(_poll, server, tasks, settings.scaled(150, 50)),
        partial(_poll, other, few, settings.scaled(150, 50)),
        figure=lambda spent: spent.p50_ms,
        turns=settings.scaled(8, 4),
    )
    return compared(
        f"tasks/get among {len(tasks):,}, p50",
        "ms",
        rounds,
        rival=f"among {len(few)} sleeping tasks",
        target=Target("<=", 1.25),
        note="one client, one task after another, picked at random; the processor time includes keeping the leases",
    )


async def _poll(server: Served, tasks: Sequence[str], count: int) -> Spent:
    taken: list[float] = []
    async with Session(server.address) as session:
        await session.get(tasks[0])
        with Meter(server.pids) as meter:
            for task in random.choices(tasks, k=count):
                start = time.perf_counter()
                found = await session.get(task)
                taken.append(time.perf_counter() - start)
                require(found["status"], "working", "A sleeping task")
    return Spent(count, meter.seconds, meter.cpu_seconds, tuple(taken))
