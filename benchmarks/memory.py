"""Memory per waiting task: a client that waits for it on SQLite, and a task that waits for a worker in memory."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from statistics import median

import msgspec
import psutil

from benchmarks.children import answer_of, say
from benchmarks.line import Line, Settings, bounded
from benchmarks.rows import all_ids, fill, submit, waiting_tasks
from coatcheck.engine import Engine
from coatcheck.policy import Policy
from coatcheck.stores.memory import MemoryStore
from coatcheck.stores.sqlite.store import SQLiteStore

_BOUND_KB = 3.0
_POLICY = Policy(quota=None)


class Growth(msgspec.Struct, frozen=True):
    """Bytes of resident memory per task."""

    held: float
    """For the tasks alone, as the callers hold them."""
    total: float


def run(settings: Settings) -> list[Line]:
    count, rounds = settings.scaled(20_000, 5000), min(settings.rounds, 3)
    path = settings.folder / "memory.db"
    fill(path, waiting_tasks(count))
    clients = [_child(count, "sqlite", path) for _ in range(rounds)]
    queued = [_child(count, "memory", path) for _ in range(rounds)]
    held = median(each.held for each in clients) / 1000
    return [
        bounded(
            "memory, waiting client, SQLite",
            "kB",
            [each.total / 1000 for each in clients],
            bound=_BOUND_KB,
            note=f"{count} clients in one process, of which {held:.2f} kB the task the client itself holds",
        ),
        bounded(
            "memory, waiting task, memory",
            "kB",
            [each.total / 1000 for each in queued],
            bound=_BOUND_KB,
            note=f"{count} tasks without a worker",
        ),
    ]


def _child(count: int, kind: str, path: Path) -> Growth:
    return msgspec.convert(answer_of("benchmarks.memory", kind, path, count), Growth)


async def _clients(path: Path) -> Growth:
    async with SQLiteStore(path) as store:
        engine, ids = Engine(store, _POLICY), all_ids(path)
        for task_id in ids:  # the file is mapped: its pages count as ours once they were read
            await store.get(task_id)
        before = _resident()
        tasks = [task for task_id in ids if (task := await store.get(task_id))]
        held = _resident()
        clients = [asyncio.create_task(engine.wait(task, 3600)) for task in tasks]
        await asyncio.sleep(0.2)
        after = _resident()
        if any(client.done() for client in clients):
            raise RuntimeError("A client did not wait")
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    return Growth((held - before) / len(ids), (after - before) / len(ids))


async def _queued(count: int) -> Growth:
    engine = Engine(MemoryStore(), _POLICY)
    before = _resident()
    for number in range(count):
        await submit(engine, f"owner-{number}")
    growth = (_resident() - before) / count
    return Growth(growth, growth)


def _resident() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


if __name__ == "__main__":
    _, kind, path, count = sys.argv
    say(asyncio.run(_clients(Path(path)) if kind == "sqlite" else _queued(int(count))))
