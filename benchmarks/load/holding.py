"""Many unfinished tasks at once: what they cost the server, and whether it brings them all to their end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from benchmarks.load.meter import Meter, Metrics, percentiles, rss_mb
from benchmarks.load.session import TERMINAL, Address, Arguments, Session, sessions
from benchmarks.load.trips import shared_out

_SAMPLED = 200
_LOOK_AGAIN_SECONDS = 0.05


class Progress:
    """Notes at every step how fast the tasks since the last one were created, and how large the server has grown."""

    def __init__(self, step: int, pids: Sequence[int]) -> None:
        self.steps: list[Metrics] = []
        self._step, self._pids = max(1, step), pids
        self._count, self._last = 0, time.perf_counter()

    def add(self) -> None:
        self._count += 1
        if self._count % self._step:
            return
        now = time.perf_counter()
        self.steps.append({"tasks": self._count, "creates_per_s": round(self._step / (now - self._last), 1)})
        if self._pids:
            self.steps[-1]["rss_mb"] = round(rss_mb(self._pids[0]), 1)
        self._last = now


async def create_all(
    clients: Sequence[Session], tool: str, arguments: Arguments, number: int, progress: Progress | None = None
) -> list[str]:
    """Return the ids of `number` new tasks."""

    async def create(session: Session, _: int) -> str:
        task = await session.create(tool, arguments)
        if progress:
            progress.add()
        return task

    return await shared_out(clients, range(number), create)


async def cancel_all(clients: Sequence[Session], tasks: Sequence[str]) -> Counter[str]:
    """Cancel the tasks and return how they ended, each of them."""

    async def cancel(session: Session, task: str) -> None:
        await session.cancel(task)

    async def end(session: Session, task: str) -> str:
        while True:
            status = (await session.get(task))["status"]
            if status in TERMINAL:
                return str(status)
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    await shared_out(clients, tasks, cancel)
    return Counter(await shared_out(clients, tasks, end))


async def gauge(session: Session, tool: str) -> int:
    """Return what a plain tool says of how many tasks run."""
    return int((await session.call(tool, {}))["content"][0]["text"])


async def sample(session: Session, tasks: Sequence[str]) -> tuple[Counter[str], list[float]]:
    """Look at some of the tasks, one after another: what they are, and how long each look took."""
    seen: Counter[str] = Counter()
    taken: list[float] = []
    for task in tasks[:: max(1, len(tasks) // _SAMPLED)]:
        start = time.perf_counter()
        status = (await session.get(task))["status"]
        taken.append(time.perf_counter() - start)
        seen[status] += 1
    return seen, taken


async def hold(
    address: Address,
    pids: Sequence[int],
    *,
    tool: str,
    arguments: Arguments,
    number: int,
    clients: int,
    steps: int = 10,
    settle: float = 2.0,
    watch: float = 5.0,
    gauge_tool: str | None = None,
    cancels: bool = False,
) -> Metrics:
    """Create unfinished tasks and look at the server while it holds them."""
    before = rss_mb(pids[0]) if pids else 0.0
    start, progress = time.perf_counter(), Progress(number // steps, pids)
    async with sessions(address, clients) as callers:
        tasks = await create_all(callers, tool, arguments, number, progress)
        created = time.perf_counter() - start
        await asyncio.sleep(settle)
        found: Metrics = {"created": len(tasks), "creates_per_s": len(tasks) / created, "steps": progress.steps}
        if gauge_tool:
            found["running"] = await gauge(callers[0], gauge_tool)
        with Meter(pids) as meter:
            await asyncio.sleep(watch)
        found |= {f"idle_{key}": value for key, value in meter.metrics.items()}
        if pids:
            found["rss_before_mb"] = before
            found["rss_kb_per_task"] = (rss_mb(pids[0]) - before) * 1e3 / max(1, len(tasks))
        seen, taken = await sample(callers[0], tasks)
        found |= {"sampled": dict(seen), **percentiles(taken, "get")}
        if cancels:
            found["ends"] = dict(await cancel_all(callers, tasks))
            if gauge_tool:
                found["still_running"] = await gauge(callers[0], gauge_tool)
    return found
