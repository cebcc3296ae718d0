"""Processor time of a worker that has nothing to do."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from benchmarks.children import answer_of, say
from benchmarks.line import Line, Settings, bounded
from benchmarks.rows import fill, finished_tasks
from coatcheck.context import TaskContext
from coatcheck.engine import Engine
from coatcheck.stores.sqlite.store import SQLiteStore
from coatcheck.wiring import tool
from coatcheck.worker import Worker

_BOUND_PERCENT = 0.5
_SETTLE_SECONDS = 2.0


def run(settings: Settings) -> list[Line]:
    rows, seconds = 10_000, settings.scaled(15, 6)
    path = settings.folder / "idle.db"
    fill(path, finished_tasks(rows))
    percent: float = answer_of("benchmarks.idle", path, seconds)
    note = f"engine and worker on a file of {rows} finished tasks, for {seconds} s; sweeps and safety reads included"
    return [bounded("idle worker, of one core", "%", [percent], bound=_BOUND_PERCENT, note=note)]


async def _idle(path: Path, seconds: float) -> float:
    async def search(context: TaskContext) -> None: ...

    async with SQLiteStore(path) as store, Worker(Engine(store), [tool(search)]):
        await asyncio.sleep(_SETTLE_SECONDS)
        cpu, started = time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        return 100 * (time.process_time() - cpu) / (time.perf_counter() - started)


if __name__ == "__main__":
    say(asyncio.run(_idle(Path(sys.argv[1]), float(sys.argv[2]))))
