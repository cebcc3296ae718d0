"""What can be measured of a server that is running already."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from benchmarks.load.meter import Meter, Metrics, percentiles
from benchmarks.load.session import TERMINAL, Address, Arguments, Session, sessions
from benchmarks.load.trips import Trip, hammer, run_task, shared_out, trip_metrics


async def call(
    address: Address,
    pids: Sequence[int],
    *,
    tool: str,
    arguments: Arguments,
    clients: int,
    duration: float,
    warmup: float = 0.0,
    declare: bool = False,
) -> Metrics:
    """Plain `tools/call` from many clients; they say that they know tasks only if `declare`."""

    async def once(session: Session) -> float:
        start = time.perf_counter()
        await session.call(tool, arguments)
        return time.perf_counter() - start

    async with sessions(address, clients, knows_tasks=declare) as callers:
        await hammer(callers, warmup, once)
        with Meter(pids) as meter:
            taken = await hammer(callers, duration, once)
    return {
        "requests_per_s": len(taken) / meter.seconds,
        **percentiles(taken, "request"),
        **meter.per(len(taken)),
    }


async def roundtrip(
    address: Address,
    pids: Sequence[int],
    *,
    tool: str,
    arguments: Arguments,
    number: int,
    warmup: int = 1,
    pause: float = 0.0,
) -> Metrics:
    """Tasks one after another: the latency of one client alone."""
    async with Session(address) as session:

        async def run(count: int) -> list[Trip]:
            return [await run_task(session, tool, arguments, pause) for _ in range(count)]

        await run(warmup)
        with Meter(pids) as meter:
            done = await run(number)
    return {**trip_metrics(done), **meter.per(len(done))}


async def throughput(
    address: Address,
    pids: Sequence[int],
    *,
    tool: str,
    arguments: Arguments,
    clients: int,
    duration: float,
    warmup: float = 0.0,
    pause: float = 0.0,
) -> Metrics:
    """Tasks from many clients at once. The clock stops when the last one has ended, so that all of them count."""

    async def once(session: Session) -> Trip:
        return await run_task(session, tool, arguments, pause)

    async with sessions(address, clients) as callers:
        await hammer(callers, warmup, once)
        with Meter(pids) as meter:
            done = await hammer(callers, duration, once)
    return {"tasks_per_s": len(done) / meter.seconds, **trip_metrics(done), **meter.per(len(done))}


async def poll(
    address: Address,
    pids: Sequence[int],
    *,
    tool: str,
    arguments: Arguments,
    clients: int,
    duration: float,
    warmup: float = 0.0,
) -> Metrics:
    """`tasks/get` on one unfinished task from many clients."""
    async with sessions(address, clients) as callers:
        task = await callers[0].create(tool, arguments)

        async def once(session: Session) -> float:
            start = time.perf_counter()
            status = (await session.get(task))["status"]
            if status in TERMINAL:
                raise SystemExit(f"the polled task ended too soon: {status}")
            return time.perf_counter() - start

        await hammer(callers, warmup, once)
        with Meter(pids) as meter:
            taken = await hammer(callers, duration, once)
        await callers[0].cancel(task)
    return {
        "requests_per_s": len(taken) / meter.seconds,
        **percentiles(taken, "request"),
        **meter.per(len(taken)),
    }


async def fill(address: Address, *, tool: str, arguments: Arguments, clients: int, number: int) -> None:
    """Put finished tasks into the server's store."""

    async def one(session: Session, _: int) -> Trip:
        return await run_task(session, tool, arguments, 0.02)

    async with sessions(address, clients) as callers:
        await shared_out(callers, range(number), one)


async def cancel(
    address: Address, pids: Sequence[int], *, tool: str, arguments: Arguments, number: int, settle: float
) -> Metrics:
    """Cancel running tasks: the time to the acknowledgement and to the status."""
    acks: list[float] = []
    ends: list[float] = []
    seen: Counter[str] = Counter()
    async with Session(address) as session:
        with Meter(pids) as meter:
            for _ in range(number):
                task = await session.create(tool, arguments)
                await asyncio.sleep(settle)
                start, status = time.perf_counter(), ""
                await session.cancel(task)
                acks.append(time.perf_counter() - start)
                while status not in TERMINAL:
                    status = (await session.get(task))["status"]
                ends.append(time.perf_counter() - start)
                seen[status] += 1
    return {**percentiles(acks, "ack"), **percentiles(ends, "end"), "ends": dict(seen), **meter.per(number)}
