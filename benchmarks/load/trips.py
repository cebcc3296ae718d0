"""Tasks from their creation to their end, and work done again and again by many clients."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from benchmarks.load.meter import Metrics, percentiles
from benchmarks.load.session import TERMINAL, Arguments, Session

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Trip:
    """One task from its creation to its end."""

    create: float
    total: float
    polls: int
    status: str


async def run_task(session: Session, tool: str, arguments: Arguments, pause: float = 0.0) -> Trip:
    """Create one task and poll it until it has ended, with a pause before every poll.

    A server may answer at once instead of creating a task; that counts as a trip without polls.
    """
    start = time.perf_counter()
    created = await session.call(tool, arguments)
    create = time.perf_counter() - start
    if created.get("resultType") != "task":
        return Trip(create, create, 0, "immediate")
    task, polls, status = str(created["taskId"]), 0, ""
    while status not in TERMINAL:
        if pause:
            await asyncio.sleep(pause)
        polls += 1
        status = (await session.get(task))["status"]
    return Trip(create, time.perf_counter() - start, polls, status)


def trip_metrics(done: Sequence[Trip]) -> Metrics:
    return {
        **percentiles([trip.total for trip in done], "trip"),
        **percentiles([trip.create for trip in done], "create"),
        "polls_per_task": fmean(trip.polls for trip in done),
        "ends": dict(Counter(trip.status for trip in done)),
    }


async def hammer(
    clients: Sequence[Session], seconds: float, work: Callable[[Session], Awaitable[Found]]
) -> list[Found]:
    """Let every client do the work again and again for some time, at least once; return when all are through."""
    done: list[Found] = []
    deadline = time.perf_counter() + seconds

    async def repeat(client: Session) -> None:
        done.append(await work(client))
        while time.perf_counter() < deadline:
            done.append(await work(client))

    await asyncio.gather(*map(repeat, clients))
    return done


async def shared_out(
    clients: Sequence[Session], items: Sequence[Item], work: Callable[[Session, Item], Awaitable[Found]]
) -> list[Found]:
    """Let the clients do the work once for every item; return what came out, in the order of the items."""
    found: dict[int, Found] = {}
    left = iter(enumerate(items))

    async def take(client: Session) -> None:
        for number, item in left:
            found[number] = await work(client, item)

    await asyncio.gather(*map(take, clients))
    return [found[number] for number in range(len(items))]
