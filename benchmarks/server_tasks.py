"""Tasks over HTTP, against FastMCP's: how many are finished, how long one takes, how many polls are answered."""

from __future__ import annotations

from functools import partial

import uvloop

from benchmarks.line import Line, Settings, Target, compared
from benchmarks.load import measures
from benchmarks.load.meter import Meter
from benchmarks.load.session import Session
from benchmarks.load.trips import run_task
from benchmarks.serving import RIVAL, Served, coatcheck, fastmcp, require, serving, spent_of
from benchmarks.timing import CALLERS, Spent, alternate

# Before each poll. None is the load generator's default; FastMCP, tried up to 200 ms, finishes most with 100.
_PAUSE_SECONDS, _RIVALS_BEST_PAUSE_SECONDS = 0.0, 0.1


def run(settings: Settings) -> list[Line]:
    return uvloop.run(_run(settings))


async def _run(settings: Settings) -> list[Line]:
    async with serving(coatcheck(settings, "tasks")) as ours, serving(fastmcp(settings)) as theirs:
        return [
            await _finished(settings, ours, theirs, _PAUSE_SECONDS, Target(">=", 8)),
            await _finished(settings, ours, theirs, _RIVALS_BEST_PAUSE_SECONDS),
            await _trips(settings, ours, theirs),
            await _polls(settings, ours, theirs),
        ]


async def _finished(
    settings: Settings, ours: Served, theirs: Served, pause: float, target: Target | None = None
) -> Line:
    rounds = await alternate(
        settings.rounds,
        partial(_finish, ours, 0.2 if settings.is_quick else 0.5, _PAUSE_SECONDS),
        partial(_finish, theirs, 0.4 if settings.is_quick else 1.0, pause),
        figure=lambda spent: spent.per_second,
    )
    return compared(
        f"finished tasks, {CALLERS} clients" if target else "the same, rival at its best",
        "/s",
        rounds,
        rival=RIVAL,
        target=target,
        note=f"a no-op from tools/call to `completed`; before a poll ours waits {_PAUSE_SECONDS * 1e3:.0f} ms,"
        f" FastMCP's client {pause * 1e3:.0f} ms; ours durable (WAL, synchronous=FULL)",
    )


async def _finish(server: Served, seconds: float, pause: float) -> Spent:
    found = await measures.throughput(
        *server, tool="noop", arguments={}, clients=CALLERS, duration=seconds, pause=pause
    )
    require(set(found["ends"]), {"completed"}, "How tasks ended")
    return spent_of(found)


async def _trips(settings: Settings, ours: Served, theirs: Served) -> Line:
    rounds = await alternate(
        settings.rounds,
        partial(_trip, ours, settings.scaled(20, 5)),
        partial(_trip, theirs, settings.scaled(10, 5)),
        figure=lambda spent: spent.p50_ms,
        turns=settings.scaled(8, 4),
    )
    return compared(
        "a task's round trip, p50",
        "ms",
        rounds,
        rival=RIVAL,
        target=Target("<=", 0.25),
        note="a no-op from tools/call to `completed`, one at a time, polled without a pause",
    )


async def _trip(server: Served, count: int) -> Spent:
    async with Session(server.address) as session:
        await run_task(session, "noop", {})
        with Meter(server.pids) as meter:
            trips = [await run_task(session, "noop", {}) for _ in range(count)]
    require({trip.status for trip in trips}, {"completed"}, "How tasks ended")
    return Spent(count, meter.seconds, meter.cpu_seconds, tuple(trip.total for trip in trips))


async def _polls(settings: Settings, ours: Served, theirs: Served) -> Line:
    seconds = 0.2 if settings.is_quick else 0.5
    rounds = await alternate(
        settings.rounds,
        partial(_poll, ours, seconds),
        partial(_poll, theirs, seconds),
        figure=lambda spent: spent.per_second,
    )
    return compared(
        f"tasks/get, {CALLERS} clients",
        "/s",
        rounds,
        rival=RIVAL,
        target=Target(">=", 5),
        note="of one sleeping task",
    )


async def _poll(server: Served, seconds: float) -> Spent:
    return spent_of(
        await measures.poll(*server, tool="nap", arguments={"seconds": 600}, clients=CALLERS, duration=seconds)
    )
