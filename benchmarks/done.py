"""From submit to done, for a tool that does nothing, against one durable commit to the same file."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

from benchmarks.line import Line, Round, Settings, Target, compared, percentile
from benchmarks.rows import INSERT, finished_tasks, row
from coatcheck.context import TaskContext
from coatcheck.engine import Engine
from coatcheck.stores.codec import Codec
from coatcheck.stores.sqlite.file import connect
from coatcheck.stores.sqlite.store import SQLiteStore
from coatcheck.task import Status
from coatcheck.wiring import tool
from coatcheck.worker import Worker

_GROUP = 10
Rows = Iterator[tuple[object, ...]]


def run(settings: Settings) -> list[Line]:
    return [asyncio.run(_run(settings))]


async def _run(settings: Settings) -> Line:
    async def noop(context: TaskContext) -> None: ...

    groups, codec = settings.scaled(25, 10), Codec()
    rows = (row(task, codec) for task in finished_tasks(1_000_000))
    path = settings.folder / "done.db"
    async with SQLiteStore(path) as store:
        engine = Engine(store)
        async with Worker(engine, [tool(noop)]) as worker:
            with closing(connect(path)) as db:
                await _round(engine, worker, db, rows, 3)
                rounds = [await _round(engine, worker, db, rows, groups) for _ in range(settings.rounds)]
    return compared(
        "no-op, submit to done, p50",
        "us",
        rounds,
        rival="one durable commit",
        target=Target("<=", 4, least=2),
        note=f"one after the other, {groups * _GROUP} a round and side; it takes two commits",
    )


async def _round(engine: Engine, worker: Worker, db: sqlite3.Connection, rows: Rows, groups: int) -> Round:
    ours: list[float] = []
    commits: list[float] = []
    cpu_ours = cpu_rival = 0.0
    for _ in range(groups):
        cpu = time.process_time()
        ours += [await _submit_to_done(engine, worker) for _ in range(_GROUP)]
        cpu_ours += time.process_time() - cpu
        cpu = time.process_time()
        commits += [_commit(db, next(rows)) for _ in range(_GROUP)]
        cpu_rival += time.process_time() - cpu
    each = 1e6 / (groups * _GROUP)
    return Round(percentile(ours, 50), percentile(commits, 50), cpu_ours * each, cpu_rival * each)


async def _submit_to_done(engine: Engine, worker: Worker) -> float:
    started = time.perf_counter()
    task = await engine.finished(await worker.submit("noop"))
    seconds = time.perf_counter() - started
    if task.status is not Status.COMPLETED:
        raise RuntimeError(f"The no-op ended as {task}")
    return seconds * 1e6


def _commit(db: sqlite3.Connection, values: tuple[object, ...]) -> float:
    started = time.perf_counter()
    db.execute("begin immediate")
    db.execute(INSERT, values)
    db.execute("commit")
    return (time.perf_counter() - started) * 1e6
