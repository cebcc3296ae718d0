"""How soon a running tool is stopped once `cancel` has returned."""

from __future__ import annotations

import asyncio
import time

from benchmarks.line import Line, Settings, percentile, plain
from coatcheck.context import TaskContext
from coatcheck.engine import Engine
from coatcheck.stores.sqlite.store import SQLiteStore
from coatcheck.wiring import tool
from coatcheck.worker import Worker


def run(settings: Settings) -> list[Line]:
    return [asyncio.run(_run(settings))]


async def _run(settings: Settings) -> Line:
    stopped: asyncio.Queue[float] = asyncio.Queue()

    async def endless(context: TaskContext) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.put_nowait(time.perf_counter())

    latencies: list[float] = []
    from_call: list[float] = []
    async with SQLiteStore(settings.folder / "cancel.db") as store:
        engine = Engine(store)
        async with Worker(engine, [tool(endless)]) as worker:
            for _ in range(settings.scaled(300, 50)):
                task = await worker.submit("endless")
                await asyncio.sleep(0.01)  # a tool that has only just begun is not watched yet
                called = time.perf_counter()
                await engine.cancel(task.id)
                returned = time.perf_counter()
                at = await stopped.get()
                latencies.append((at - returned) * 1e3)
                from_call.append((at - called) * 1e3)
    return plain(
        "cancel to stopped, p50",
        "ms",
        [percentile(latencies, 50)],
        note=f"{len(latencies)} cancels; p99 {percentile(latencies, 99):.2f};"
        f" from the call: p50 {percentile(from_call, 50):.2f}, p99 {percentile(from_call, 99):.2f} ms",
    )
