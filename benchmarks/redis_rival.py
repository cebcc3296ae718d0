"""Tasks over HTTP that are kept in Redis, against FastMCP's in the same Redis: finished ones, and polls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import uvloop

from benchmarks import stored
from benchmarks.databases import REDIS_TERMS, Database, redis
from benchmarks.line import Line, Settings, Target, compared
from benchmarks.load import measures
from benchmarks.load.meter import Metrics
from benchmarks.serving import Served, require, serving, spent_of
from benchmarks.timing import CALLERS, Spent, alternate

_TARGET = Target(">=", 8)
_SERVER = "benchmarks.servers.coatcheck_server:server"
# Before each poll, as in server_tasks: none is the generator's default, FastMCP finishes most with 100 ms.
_PAUSE_SECONDS, _RIVALS_BEST_PAUSE_SECONDS = 0.0, 0.1
Measure = Callable[[Served, float], Awaitable[Metrics]]


class Side:
    """One server: its turns, and how much of their processor time was Redis's."""

    def __init__(self, server: Served, seconds: float, measure: Measure) -> None:
        self._server, self._seconds, self._measure = server, seconds, measure
        self._operations, self._redis_seconds = 0, 0.0

    @property
    def redis_microseconds(self) -> float:
        return self._redis_seconds / self._operations * 1e6

    async def turn(self) -> Spent:
        found = await self._measure(self._server, self._seconds)
        self._operations += found["operations"]
        self._redis_seconds += found["helper_cpu"] * found["seconds"]
        return spent_of(found)


def run(settings: Settings) -> list[Line]:
    with redis() as database:
        return uvloop.run(_run(settings, database))


async def _run(settings: Settings, database: Database) -> list[Line]:
    assert database.pid
    theirs_at = database.address.removesuffix("/0") + "/1"
    async with (
        serving(stored.coatcheck(settings, _SERVER, database.url("rival"))) as server,
        serving(stored.fastmcp(settings, theirs_at)) as other,
    ):
        ours, theirs = (Served(each.address, [*each.pids, database.pid]) for each in (server, other))
        return [
            await _finished(settings, ours, theirs, _PAUSE_SECONDS, _TARGET),
            await _finished(settings, ours, theirs, _RIVALS_BEST_PAUSE_SECONDS),
            await _polls(settings, ours, theirs),
        ]


async def _finished(
    settings: Settings, ours: Served, theirs: Served, pause: float, target: Target | None = None
) -> Line:
    short, long = (0.2, 0.4) if settings.is_quick else (0.5, 1.0)
    sides = Side(ours, short, partial(_finish, _PAUSE_SECONDS)), Side(theirs, long, partial(_finish, pause))
    return await _compare(
        settings,
        f"finished tasks on Redis, {CALLERS} clients" if target else "the same, rival at its best",
        sides,
        target,
        f"a no-op from tools/call to `completed`; before a poll FastMCP's client waits {pause * 1e3:.0f} ms",
    )


async def _polls(settings: Settings, ours: Served, theirs: Served) -> Line:
    seconds = 0.2 if settings.is_quick else 0.5
    sides = Side(ours, seconds, _poll), Side(theirs, seconds, _poll)
    return await _compare(settings, f"tasks/get on Redis, {CALLERS} clients", sides, _TARGET, "of one sleeping task")


async def _compare(settings: Settings, name: str, sides: tuple[Side, Side], target: Target | None, what: str) -> Line:
    ours, theirs = sides
    for side in sides:
        await side.turn()
    rounds = await alternate(settings.rounds, ours.turn, theirs.turn, figure=lambda spent: spent.per_second)
    note = f"{what}; {REDIS_TERMS}; of the processor time Redis took"
    note += f" {ours.redis_microseconds:.0f} and {theirs.redis_microseconds:.0f} us each"
    return compared(name, "/s", rounds, rival=stored.RIVAL, target=target, note=note)


async def _finish(pause: float, server: Served, seconds: float) -> Metrics:
    found = await measures.throughput(
        *server, tool="noop", arguments={}, clients=CALLERS, duration=seconds, pause=pause
    )
    require(set(found["ends"]), {"completed"}, "How tasks ended")
    return found


async def _poll(server: Served, seconds: float) -> Metrics:
    return await measures.poll(*server, tool="nap", arguments={"seconds": 600}, clients=CALLERS, duration=seconds)
