"""One server that runs no tasks and 1, 2 or 4 worker processes beside it: tasks per second, and what each costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median
from typing import Any, NamedTuple

import uvloop

from benchmarks import stored
from benchmarks.databases import Database, postgres, redis
from benchmarks.line import Line, Round, Settings, Target, compared
from benchmarks.load import measures
from benchmarks.load.session import TERMINAL, Session, sessions
from benchmarks.load.trips import shared_out
from benchmarks.serving import Served, require, serving
from benchmarks.timing import CALLERS

WORKERS = (1, 2, 4)
SERVER = "benchmarks.servers.farm_server:server"
_SLOTS = 4
"""Few, so that a tool that only sleeps keeps a worker busy too."""
_PATIENCE_SECONDS = 60


class Farm(NamedTuple):
    """A server without workers of its own, and workers."""

    workers: int
    server: Served
    """All of them, the server first."""


class Load(NamedTuple):
    what: str
    tool: str
    arguments: Mapping[str, Any]
    pause: float
    """Before each poll: those that wait in line would else keep the server busy with nothing."""
    targets: Mapping[int, Target]
    """By the number of workers, how many times as many tasks they should run as one."""


LOADS = (
    Load("a nap of 50 ms", "nap", {"seconds": 0.05}, 0.05, {2: Target(">=", 1.8), 4: Target(">=", 3.2)}),
    Load("5 ms of a core", "burn", {"seconds": 0.005}, 0.05, {}),
    Load("no-op", "noop", {}, 0.0, {}),
)


class Ran(NamedTuple):
    per_second: float
    cpu_us: float
    """Of server, workers and database, per task."""
    cores: float
    """Kept busy by all of them and by the load."""


def run(settings: Settings) -> list[Line]:
    lines: list[Line] = []
    for database in (redis, postgres):
        with database() as opened:
            lines += uvloop.run(_run(settings, opened))
    return lines


async def _run(settings: Settings, database: Database) -> list[Line]:
    async with AsyncExitStack() as stack:
        farms = [await stack.enter_async_context(farm(settings, database, number)) for number in WORKERS]
        lines: list[Line] = []
        for load in LOADS:
            for each in farms:
                await _ran(each, database, load, 0.2)
            rounds = [await _round(settings, number, farms, database, load) for number in range(settings.rounds)]
            lines += [_line(database, load, workers, rounds) for workers in WORKERS[1:]]
    return lines


@asynccontextmanager
async def farm(settings: Settings, database: Database, workers: int) -> AsyncGenerator[Farm]:
    store = database.url(f"farm_{workers}")
    async with (
        serving(stored.coatcheck(settings, SERVER, store, "--concurrency", "0")) as server,
        AsyncExitStack() as stack,
    ):
        pids = [stack.enter_context(stored.worker(settings, SERVER, store, _SLOTS)) for _ in range(workers)]
        await _all_at_work(server, pids)
        yield Farm(workers, Served(server.address, [*server.pids, *pids]))


async def _all_at_work(server: Served, pids: Sequence[int]) -> None:
    """Wait until each of the workers has run a task."""
    seen: set[int] = set()
    async with asyncio.timeout(_PATIENCE_SECONDS), sessions(server.address, CALLERS) as clients:
        while not seen.issuperset(pids):
            seen.update(await shared_out(clients, range(CALLERS), _who_ran))
    require(seen, set(pids), "Who ran tasks")


async def _who_ran(session: Session, _: int) -> int:
    task = await session.create("nap", {"seconds": 0.02})
    while (found := await session.get(task))["status"] not in TERMINAL:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return int(found["result"]["content"][0]["text"])


async def _round(
    settings: Settings, number: int, farms: Sequence[Farm], database: Database, load: Load
) -> dict[int, Ran]:
    """Let all take their turn, each coming first in one round of three."""
    at = number % len(farms)
    seconds = 0.5 if settings.is_quick else 2.0
    return {each.workers: await _ran(each, database, load, seconds) for each in (*farms[at:], *farms[:at])}


async def _ran(each: Farm, database: Database, load: Load, seconds: float) -> Ran:
    before = database.cpu_seconds()
    found = await measures.throughput(
        *each.server,
        tool=load.tool,
        arguments=load.arguments,
        clients=CALLERS,
        duration=seconds,
        pause=load.pause,
    )
    require(set(found["ends"]), {"completed"}, "How tasks ended")
    used = found["cpu_seconds"] + database.cpu_seconds() - before
    cores = used / found["seconds"] + found["client_cpu"]
    return Ran(found["tasks_per_s"], used / found["operations"] * 1e6, cores)


def _line(database: Database, load: Load, workers: int, rounds: Sequence[Mapping[int, Ran]]) -> Line:
    one, many = [each[1] for each in rounds], [each[workers] for each in rounds]
    return compared(
        f"{database.name}, {load.what}: {workers} workers",
        "/s",
        [
            Round(more.per_second, less.per_second, more.cpu_us, less.cpu_us)
            for less, more in zip(one, many, strict=True)
        ],
        rival="1 worker",
        target=load.targets.get(workers),
        note=f"{CALLERS} clients, {_SLOTS} slots a worker; cores busy, the clients' included:"
        f" {median(each.cores for each in many):.2f}, with one worker {median(each.cores for each in one):.2f}",
    )
