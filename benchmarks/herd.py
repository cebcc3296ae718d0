"""Idle workers, several to a process, each with a store of its own: `python -m benchmarks.herd URL COUNT`.

It says `ready`, then answers each line it reads with what the workers have tried so far, and ends with its input.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import msgspec
import uvloop

from benchmarks.children import ROOT, command, say
from benchmarks.load.meter import cpu_seconds
from coatcheck.context import TaskContext
from coatcheck.engine import Engine
from coatcheck.store import Store
from coatcheck.task import Entry, Task
from coatcheck.wiring import open_store, tool
from coatcheck.worker import Worker

TOOL = "tell_time"
_PATIENCE_SECONDS = 60


class Tried(msgspec.Struct, frozen=True):
    """What workers did to get tasks."""

    looks: int = 0
    """How often one was offered something."""
    claims: int = 0
    lost: int = 0
    """Claims that came too late."""

    def __add__(self, other: Tried) -> Tried:
        return Tried(self.looks + other.looks, self.claims + other.claims, self.lost + other.lost)

    def __sub__(self, other: Tried) -> Tried:
        return Tried(self.looks - other.looks, self.claims - other.claims, self.lost - other.lost)


class CountingStore:
    """A store that notes what its worker tries."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.tried = Tried()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def waiting(self, *args: Any, **options: Any) -> Sequence[Task]:
        found = await self._store.waiting(*args, **options)
        self.tried += Tried(looks=bool(found))
        return found

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        is_won = await self._store.replace(task, entries)
        if task.lease and task.version == 2:
            self.tried += Tried(claims=1, lost=not is_won)
        return is_won


class Herd:
    """Processes full of idle workers."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self._processes)

    async def tried(self) -> Tried:
        total = Tried()
        for process in self._processes:
            assert process.stdin
            process.stdin.write(b"\n")
            total += msgspec.json.decode(await _line_of(process), type=Tried)
        return total


@asynccontextmanager
async def herd(url: str, *workers: int) -> AsyncGenerator[Herd]:
    """Start a process for each number, with so many workers in it."""
    processes = [
        await asyncio.create_subprocess_exec(*command("benchmarks.herd", url, count), cwd=ROOT, stdin=PIPE, stdout=PIPE)
        for count in workers
    ]
    try:
        for process in processes:
            await _line_of(process)
        yield Herd(processes)
    finally:
        for process in processes:
            assert process.stdin
            process.stdin.close()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            for process in processes:
                await process.wait()


async def _line_of(process: Process) -> bytes:
    assert process.stdout
    async with asyncio.timeout(_PATIENCE_SECONDS):
        return await process.stdout.readline()


async def tell_time(context: TaskContext) -> int:
    """Return when it was started, by the clock that all processes share."""
    return time.monotonic_ns()


async def _work(url: str, count: int) -> None:
    async with AsyncExitStack() as stack:
        stores = [CountingStore(await stack.enter_async_context(open_store(url))) for _ in range(count)]
        for store in stores:
            engine = Engine(cast("Store", store))
            await stack.enter_async_context(Worker(engine, [tool(tell_time, name=TOOL)], slots=1))
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            say(sum((store.tried for store in stores), Tried()))
            sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(_work(sys.argv[1], int(sys.argv[2])))
