"""A read from a file with a million rows, against one from a file with a thousand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.line import Line, Settings, Target, compared
from benchmarks.rows import fill, finished_tasks, some_ids
from benchmarks.timing import Spent, alternate, spent
from coatcheck.stores.sqlite.store import SQLiteStore

_SMALL = 1000


def run(settings: Settings) -> list[Line]:
    large, small = settings.folder / "size-large.db", settings.folder / "size-small.db"
    rows = settings.scaled(1_000_000, 50_000)
    started = time.perf_counter()
    fill(large, finished_tasks(rows))
    fill(small, finished_tasks(_SMALL))
    note = f"built in {time.perf_counter() - started:.0f} s"
    line = asyncio.run(_run(settings, large, small, rows, note))
    large.unlink()
    return [line]


async def _run(settings: Settings, large: Path, small: Path, rows: int, note: str) -> Line:
    reads, warming = settings.scaled(4000, 1000), settings.scaled(100_000, 10_000)
    async with SQLiteStore(large) as large_store, SQLiteStore(small) as small_store:
        sides = (large_store, large), (small_store, small)
        for store, path in sides:
            await _read(store, some_ids(path, warming))
        turns = [partial(_read_some, store, path, reads) for store, path in sides]
        rounds = await alternate(settings.rounds, *turns, figure=lambda spent: spent.microseconds)
    return compared(
        f"a read among {rows:,} rows",
        "us",
        rounds,
        rival=f"among {_SMALL:,} rows",
        target=Target("<=", 1.5),
        note=f"{reads} random ids a turn, four turns a round, after {warming} reads to warm each; {note}",
    )


async def _read_some(store: SQLiteStore, path: Path, reads: int) -> Spent:
    return await _read(store, some_ids(path, reads))


async def _read(store: SQLiteStore, ids: Sequence[str]) -> Spent:
    async def read() -> None:
        for task_id in ids:
            await store.get(task_id)

    return await spent(len(ids), read())
