"""From `tasks/cancel` to `cancelled`, and from the start of a process to its first answer; for information."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import uvloop

from benchmarks.line import Line, Round, Settings, compared
from benchmarks.load.meter import Meter, cpu_seconds
from benchmarks.load.session import TERMINAL, Session
from benchmarks.serving import RIVAL, Program, Served, bare, coatcheck, fastmcp, require, serving
from benchmarks.timing import Spent, alternate

_SETTLE_SECONDS = 0.05


def run(settings: Settings) -> list[Line]:
    return uvloop.run(_run(settings))


async def _run(settings: Settings) -> list[Line]:
    async with serving(coatcheck(settings, "cancel")) as ours, serving(fastmcp(settings)) as theirs:
        rounds = await alternate(
            settings.rounds,
            partial(_cancel, ours),
            partial(_cancel, theirs),
            figure=lambda spent: spent.p50_ms,
        )
    cancels = compared(
        "tasks/cancel to `cancelled`, p50",
        "ms",
        rounds,
        rival=RIVAL,
        target=None,
        note="polled without a pause; the processor time is of a nap's creation, cancelling and polls",
    )
    return [cancels, await _starts(settings)]


async def _cancel(server: Served, count: int = 5) -> Spent:
    taken: list[float] = []
    async with Session(server.address) as session:
        with Meter(server.pids) as meter:
            for _ in range(count):
                task = await session.create("nap", {"seconds": 600})
                await asyncio.sleep(_SETTLE_SECONDS)
                start, status = time.perf_counter(), ""
                await session.cancel(task)
                while status not in TERMINAL:
                    status = (await session.get(task))["status"]
                taken.append(time.perf_counter() - start)
                require(status, "cancelled", "How a task ended")
    return Spent(count, meter.seconds, meter.cpu_seconds, tuple(taken))


async def _starts(settings: Settings) -> Line:
    rounds: list[Round] = []
    alone: list[float] = []
    for _ in range(settings.rounds):
        ours, cpu_ours = await _start(partial(coatcheck, settings, "start"))
        theirs, cpu_theirs = await _start(partial(fastmcp, settings))
        alone.append((await _start(partial(bare, settings)))[0])
        rounds.append(Round(ours, theirs, cpu_ours, cpu_theirs))
    return compared(
        "start to the first answer",
        "ms",
        rounds,
        rival=RIVAL,
        target=None,
        note=f"of tools/list; the SDK alone: {median(alone):.0f} ms",
    )


async def _start(program: Callable[[], Program]) -> tuple[float, float]:
    """Return the milliseconds until a process answered, and the microseconds of processor time it took for that."""
    chosen, began = program(), time.perf_counter()
    async with serving(chosen) as server:
        return (time.perf_counter() - began) * 1e3, cpu_seconds(server.pids[0]) * 1e6
