"""Reads per second, with many callers at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial

from benchmarks.line import Line, Settings, Target, compared
from benchmarks.naive import BestStore, NaiveStore, naive_engine
from benchmarks.rows import fill, finished_tasks
from benchmarks.timing import CALLERS, Spent, alternate, spent, together
from coatcheck.engine import Engine
from coatcheck.policy import Policy
from coatcheck.stores.sqlite.store import SQLiteStore
from coatcheck.task import Task

_ROWS = 10_000


def run(settings: Settings) -> list[Line]:
    tasks = list(finished_tasks(_ROWS))
    for name in ("ours", "naive"):
        fill(settings.folder / f"reads-{name}.db", tasks)
    return [
        asyncio.run(_run(settings, tasks, NaiveStore, "aiosqlite, as its README does", Target(">=", 12))),
        asyncio.run(_run(settings, tasks, BestStore, "aiosqlite, in one trip", None)),
    ]


async def _run(
    settings: Settings, tasks: Sequence[Task], rival: type[NaiveStore], rival_name: str, target: Target | None
) -> Line:
    reads = settings.scaled(4000, 1000)
    ours, theirs = settings.folder / "reads-ours.db", settings.folder / "reads-naive.db"
    async with SQLiteStore(ours) as store, rival(theirs) as naive:
        engines = Engine(store), naive_engine(naive, Policy())
        for engine in engines:
            await _read(engine, tasks)
        turns = [partial(_read_some, engine, tasks, reads) for engine in engines]
        rounds = await alternate(settings.rounds, *turns, figure=lambda spent: spent.per_second)
    return compared(
        f"reads, {CALLERS} callers" if target else "the same, rival at its best",
        "/s",
        rounds,
        rival=rival_name,
        target=target,
        note=f"{reads} reads a turn, four turns a round, of {_ROWS} rows",
    )


async def _read_some(engine: Engine, tasks: Sequence[Task], reads: int) -> Spent:
    return await _read(engine, random.choices(tasks, k=reads))


async def _read(engine: Engine, tasks: Sequence[Task]) -> Spent:
    async def caller(share: Sequence[Task]) -> None:
        for task in share:
            await engine.get(task.id, task.owner)

    return await spent(len(tasks), together([caller(tasks[number::CALLERS]) for number in range(CALLERS)]))
