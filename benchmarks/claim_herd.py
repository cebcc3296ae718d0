"""What it takes to claim a task while 50 workers are idle, against one: time, processor time, and what is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from statistics import median

import msgspec
import uvloop

from benchmarks import databases
from benchmarks.databases import Database
from benchmarks.herd import TOOL, Herd, Tried, herd
from benchmarks.line import Line, Round, Settings, compared, percentile
from benchmarks.serving import require
from benchmarks.statements import sent_during
from coatcheck.engine import Engine
from coatcheck.payload import Payload
from coatcheck.policy import Policy
from coatcheck.wiring import open_store

_PAUSE_SECONDS = 0.005
"""Before each task: whoever ran the last one is idle again by then."""
_IDLE_SECONDS = 3.0
_POLICY = Policy(quota=None)


class Claims(msgspec.Struct, frozen=True):
    """A number of tasks, each claimed by somebody who was idle."""

    latencies: Sequence[float]
    """Milliseconds from the call of submit until the tool runs."""
    workers_us: float
    """Processor time of all workers, per task."""
    server_us: float
    tried: Tried

    @property
    def p50(self) -> float:
        return percentile(self.latencies, 50)

    @property
    def p99(self) -> float:
        return percentile(self.latencies, 99)


class Side:
    """A store, its idle workers, and one who submits."""

    def __init__(self, database: Database, engine: Engine, workers: Herd) -> None:
        self._database, self._engine, self._workers = database, engine, workers

    async def claims(self, count: int) -> Claims:
        workers, server, tried = self._workers.cpu_seconds(), self._database.cpu_seconds(), await self._workers.tried()
        latencies = await self.submit(count)
        return Claims(
            latencies,
            (self._workers.cpu_seconds() - workers) / count * 1e6,
            (self._database.cpu_seconds() - server) / count * 1e6,
            await self._workers.tried() - tried,
        )

    async def submit(self, count: int) -> list[float]:
        """Submit tasks one after the other; return how long each took to start."""
        latencies: list[float] = []
        for _ in range(count):
            await asyncio.sleep(_PAUSE_SECONDS)
            called = time.monotonic_ns()
            task = await self._engine.finished(await self._engine.submit(TOOL))
            require(task.status.value, "completed", "How a task ended")
            assert isinstance(task.result, Payload)
            latencies.append((msgspec.json.decode(task.result) - called) / 1e6)
        return latencies

    async def idle_percent(self) -> float:
        """Return what workers and server take of one core while there is nothing to do."""
        workers, server = self._workers.cpu_seconds(), self._database.cpu_seconds()
        await asyncio.sleep(_IDLE_SECONDS)
        used = self._workers.cpu_seconds() - workers + self._database.cpu_seconds() - server
        return 100 * used / _IDLE_SECONDS

    async def sent_per_task(self, count: int) -> float | None:
        sent = await sent_during(self._database, self.submit(count))
        return None if sent is None else sent / count


def run(settings: Settings) -> list[Line]:
    lines: list[Line] = []
    with databases.sqlite(settings.folder) as database:
        lines.append(uvloop.run(compare(settings, database, database)))
    for server in (databases.redis, databases.postgres):
        # A server each: PostgreSQL lets all who listen in a database look up at every NOTIFY, whoever it is for.
        with server() as busy, server() as quiet:
            lines.append(uvloop.run(compare(settings, busy, quiet)))
    return lines


async def compare(settings: Settings, busy: Database, quiet: Database) -> Line:
    count, crowd = settings.scaled(200, 30), [10] * settings.scaled(5, 1)
    sent: list[float | None] = []
    idle: list[float] = []
    for database, workers in ((busy, crowd), (quiet, [1])):
        async with _side(database, "alone", workers) as side:
            await side.submit(count // 10)
            idle.append(await side.idle_percent())
            sent.append(await side.sent_per_task(count))
    async with _side(busy, "crowd", crowd) as many, _side(quiet, "one", [1]) as one:
        for side in (many, one):
            await side.submit(count // 10)
        rounds = [await _round(number, many, one, count) for number in range(settings.rounds)]
    return _line(busy.name, sum(crowd), rounds, sent, idle)


@asynccontextmanager
async def _side(database: Database, name: str, workers: Sequence[int]) -> AsyncGenerator[Side]:
    url = database.url(f"herd_{name}_{sum(workers)}")
    async with open_store(url) as store, herd(url, *workers) as started:
        yield Side(database, Engine(store, _POLICY), started)


async def _round(number: int, many: Side, one: Side, count: int) -> tuple[Claims, Claims]:
    if number % 2:
        rival = await one.claims(count)
        return await many.claims(count), rival
    return await many.claims(count), await one.claims(count)


def _line(
    name: str,
    workers: int,
    rounds: Sequence[tuple[Claims, Claims]],
    sent: Sequence[float | None],
    idle: Sequence[float],
) -> Line:
    sides = [[each[at] for each in rounds] for at in (0, 1)]
    both = [
        Round(many.p50, one.p50, many.workers_us + many.server_us, one.workers_us + one.server_us)
        for many, one in rounds
    ]
    told = [_told(*each) for each in zip(sides, sent, idle, strict=True)]
    return compared(
        f"{name}: claim of a task, {workers} idle workers, p50",
        "ms",
        both,
        rival="1 idle worker",
        target=None,
        note=f"from the call of submit until the tool runs; {workers} workers: {told[0]}; one: {told[1]}",
    )


def _told(claims: Sequence[Claims], sent: float | None, idle: float) -> str:
    tasks = sum(len(each.latencies) for each in claims)
    tried = sum((each.tried for each in claims), Tried())
    per_task = "" if sent is None else f"{sent:.1f} commands a task, "
    return (
        f"p99 {median(each.p99 for each in claims):.2f} ms, {per_task}{tried.claims / tasks:.2f} claims tried,"
        f" all workers {median(each.workers_us for each in claims):.0f} us, the server"
        f" {median(each.server_us for each in claims):.0f} us, idle {idle:.2f}% of a core"
    )
