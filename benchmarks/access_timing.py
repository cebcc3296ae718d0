"""Whether the time of a refusal tells an id that nobody has from one of somebody else, or one that has expired.

A server is asked for tasks that its caller may not see, thousands of times for each kind, in an order drawn by lot. How
far the medians of two samples of the same kind lie apart is the noise; a kind that can be told lies beyond it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from statistics import median

import uvloop

from benchmarks.databases import Database, postgres, redis, sqlite
from benchmarks.line import Line, Settings, bounded
from benchmarks.load.handshake import Handshake
from benchmarks.load.session import Address, RpcError, Session
from benchmarks.rows import submit
from benchmarks.serving import require, served_by, serving
from coatcheck.engine import Engine, utc_now
from coatcheck.lifecycle import Completed
from coatcheck.payload import encode
from coatcheck.policy import Policy
from coatcheck.task import Task
from coatcheck.wiring import new_key, open_store

SEED_VARIABLE = "COATCHECK_BENCH_SEED"
UNKNOWN, AGAIN = "unknown", "unknown again"
_IDS = 20
"""Of each kind: none is so special that one would do."""
_OWNER = "somebody else"
_SMALL, _LARGE = encode({"content": []}), encode({"content": [{"type": "text", "text": "x" * (1 << 20)}]})
_POLICY = Policy(quota=None)
_LONG_AGO = timedelta(days=1)
_REFUSED = -32602

Ids = Mapping[str, Sequence[str]]
"""The ids of each kind."""
Ask = Callable[[str], Awaitable[object]]
Samples = dict[str, list[float]]
"""What the requests of each kind took, in microseconds."""


def run(settings: Settings) -> list[Line]:
    seed = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1 << 32))
    print(f"access-timing: {SEED_VARIABLE}={seed}")
    chance = random.Random(seed)
    lines: list[Line] = []
    for database, is_sealed in ((sqlite(settings.folder), False), (sqlite(settings.folder), True)):
        with database as opened:
            lines += uvloop.run(_run(settings, chance, opened, is_sealed=is_sealed))
    for server in (redis(), postgres()):
        with server as opened:
            lines += uvloop.run(_run(settings, chance, opened))
    return lines


async def _run(settings: Settings, chance: random.Random, database: Database, *, is_sealed: bool = False) -> list[Line]:
    name, count = f"{database.name}{', sealed' if is_sealed else ''}", settings.scaled(2000, 30)
    url = database.url(f"access_{'sealed' if is_sealed else 'plain'}")
    with _key(is_sealed):
        async with open_store(url) as store:
            ids = await fill(Engine(store, _POLICY), Engine(store, _POLICY, lambda: utc_now() - _LONG_AGO))
        program = served_by("open_server", url, settings.folder / "open.log")
        async with serving(program) as server, methods_of(server.address) as methods:
            lines: list[Line] = []
            for method, ask in methods.items():
                await ask_all(ask, ids, settings.scaled(100, 5), chance)
                lines.append(_line(f"{method}, {name}", await ask_all(ask, ids, count, chance), settings, chance))
            return lines


async def fill(engine: Engine, before: Engine) -> Ids:
    """Keep tasks of every kind that an anonymous caller may not see. `before` is the same engine, long ago."""

    async def ended(at: Engine, owner: str | None, result: object) -> Task:
        task = await submit(at, owner, claimed_by="bench")
        return await at.report(task, Completed(task.attempt, encode(result)))

    made = {
        "foreign": [await ended(engine, _OWNER, _SMALL) for _ in range(_IDS)],
        "foreign of 1 MiB": [await ended(engine, _OWNER, _LARGE) for _ in range(_IDS)],
        "foreign and working": [await submit(engine, _OWNER) for _ in range(_IDS)],
        "expired": [await ended(before, None, _SMALL) for _ in range(_IDS)],
    }
    ids = {kind: [task.id for task in tasks] for kind, tasks in made.items()}
    return {kind: [engine.new_id() for _ in range(_IDS)] for kind in (UNKNOWN, AGAIN)} | ids


@asynccontextmanager
async def methods_of(address: Address) -> AsyncGenerator[Mapping[str, Ask]]:
    """Give what can be asked of a task by its id, by clients of both generations."""
    async with Session(address) as newer, Handshake(address) as older:

        def in_newer(method: str, **more: object) -> Ask:
            return lambda task_id: newer.request(method, task_id, taskId=task_id, **more)

        def in_older(method: str) -> Ask:
            return lambda task_id: older.request(method, taskId=task_id)

        answers = {"k": {"action": "decline"}}
        yield {
            "tasks/get": in_newer("tasks/get"),
            "tasks/update": in_newer("tasks/update", inputResponses=answers),
            "tasks/cancel": in_newer("tasks/cancel"),
            "tasks/get of 2025": in_older("tasks/get"),
            "tasks/result of 2025": in_older("tasks/result"),
            "tasks/cancel of 2025": in_older("tasks/cancel"),
        }


async def ask_all(ask: Ask, ids: Ids, count: int, chance: random.Random) -> Samples:
    """Ask `count` times for each kind, in an order drawn by lot, one after the other."""
    kinds = [kind for kind in ids for _ in range(count)]
    chance.shuffle(kinds)
    taken: Samples = {kind: [] for kind in ids}
    for kind in kinds:
        task_id = chance.choice(ids[kind])
        start, code = time.perf_counter(), 0
        try:
            await ask(task_id)
        except RpcError as error:
            code = error.code
        taken[kind].append((time.perf_counter() - start) * 1e6)
        require(code, _REFUSED, f"What a request for a task of kind {kind!r} was refused with")
    return taken


def noise(samples: Samples, times: int, chance: random.Random) -> float:
    """Return the furthest that medians lie apart if what is one sample of unknown ids is split by lot, so often."""
    pooled = samples[UNKNOWN] + samples[AGAIN]
    half, furthest = len(samples[UNKNOWN]), 0.0
    for _ in range(times):
        chance.shuffle(pooled)
        furthest = max(furthest, abs(median(pooled[:half]) - median(pooled[half:])))
    return furthest


def _line(name: str, samples: Samples, settings: Settings, chance: random.Random) -> Line:
    usual = median(samples[UNKNOWN])
    apart = {kind: median(taken) - usual for kind, taken in samples.items() if kind != UNKNOWN}
    others = [abs(difference) for kind, difference in apart.items() if kind != AGAIN]
    said = ", ".join(f"{kind} {difference:+.1f}" for kind, difference in apart.items())
    return bounded(
        name,
        "us",
        [max(others)],
        bound=noise(samples, settings.scaled(1000, 100), chance),
        note=f"the median of {len(samples[UNKNOWN])}: unknown {usual:.1f} us; {said}",
    )


@contextmanager
def _key(is_sealed: bool) -> Generator[None]:
    """Have the store sealed here, and by the server that is started meanwhile."""
    if is_sealed:
        os.environ["COATCHECK_KEY"] = new_key()
    try:
        yield
    finally:
        if is_sealed:
            del os.environ["COATCHECK_KEY"]
