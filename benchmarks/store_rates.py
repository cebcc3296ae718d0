"""Creates, reads and finishes per second of a store on a database server, against plain use of its driver."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import uvloop

from benchmarks.databases import POSTGRES_TERMS, REDIS_TERMS, Database, postgres, redis
from benchmarks.line import Line, Settings, Target, compared
from benchmarks.naive_postgres import BestPostgres, NaivePostgres, TellingPostgres
from benchmarks.naive_redis import BestRedis, NaiveRedis
from benchmarks.rows import finished_tasks, waiting_tasks
from benchmarks.serving import require
from benchmarks.timing import CALLERS, Spent, alternate, spent, together
from coatcheck.lifecycle import Claimed, Completed, advance
from coatcheck.payload import Payload
from coatcheck.task import Task
from coatcheck.wiring import open_store

_LEASE = timedelta(seconds=20)
_SAMPLED = 20


class Keeper(Protocol):
    """As much of a store as is measured here."""

    async def insert(self, task: Task) -> Task: ...
    async def get(self, task_id: str) -> Task | None: ...
    async def replace(self, task: Task) -> bool: ...


class Rival(NamedTuple):
    name: str
    kind: Callable[[str, str], AbstractAsyncContextManager[Keeper]]


class Operation(NamedTuple):
    name: str
    prepare: Callable[[Keeper, int], Awaitable[Sequence[Task]]]
    """Make what the operation is done to, in time that does not count."""
    act: Callable[[Keeper, Task], Awaitable[object]]


class Side:
    """Ours or the rival's: its turns, and what the database spent on them."""

    def __init__(self, keeper: Keeper, database: Database, operation: Operation, count: int) -> None:
        self._keeper, self._database, self._operation, self._count = keeper, database, operation, count
        self._operations, self._server_seconds = 0, 0.0
        self._tasks: Sequence[Task] = ()

    @property
    def server_microseconds(self) -> float:
        return self._server_seconds / self._operations * 1e6

    async def turn(self) -> Spent:
        self._tasks = await self._operation.prepare(self._keeper, self._count)
        before = self._database.cpu_seconds()
        taken = await spent(len(self._tasks), _each(self._keeper, self._tasks, self._operation.act))
        self._server_seconds += self._database.cpu_seconds() - before
        self._operations += taken.operations
        return taken

    async def check(self) -> None:
        """Make sure that what was written last is what is kept now."""
        for task in random.choices(self._tasks, k=_SAMPLED):
            require(await self._keeper.get(task.id), task, "What is kept")


async def _prepare_create(keeper: Keeper, count: int) -> Sequence[Task]:
    return list(waiting_tasks(count))


async def _create(keeper: Keeper, task: Task) -> None:
    await keeper.insert(task)


async def _prepare_get(keeper: Keeper, count: int) -> Sequence[Task]:
    tasks = list(finished_tasks(count))
    await _each(keeper, tasks, _create)
    return random.sample(tasks, len(tasks))


async def _get(keeper: Keeper, task: Task) -> None:
    if await keeper.get(task.id) is None:
        raise RuntimeError(f"Task {task.id} was not found")


async def _prepare_finish(keeper: Keeper, count: int) -> Sequence[Task]:
    (example,) = finished_tasks(1)
    assert isinstance(example.result, Payload)
    held = [advance(task, Claimed("bench", task.created_at + _LEASE), task.created_at) for task in waiting_tasks(count)]
    await _each(keeper, held, _create)
    return [advance(task, Completed(task.attempt, example.result), task.created_at) for task in held]


async def _finish(keeper: Keeper, task: Task) -> None:
    if not await keeper.replace(task):
        raise RuntimeError(f"Task {task.id} was changed by somebody else")


CREATE = Operation("creates", _prepare_create, _create)
GET = Operation("reads", _prepare_get, _get)
FINISH = Operation("finishes", _prepare_finish, _finish)
OPERATIONS = (CREATE, GET, FINISH)
REDIS_RIVALS = Rival("redis-py, as its documents do", NaiveRedis), Rival("redis-py, in one trip", BestRedis)
POSTGRES_RIVALS = Rival("asyncpg, pool of 16", NaivePostgres), Rival("asyncpg, without its resets", BestPostgres)
TELLING = Rival("asyncpg, and NOTIFY", TellingPostgres)


def run_redis(settings: Settings) -> list[Line]:
    with redis() as database:
        return [
            uvloop.run(_compare(settings, database, operation, rival, REDIS_TERMS, target))
            for operation in OPERATIONS
            for rival, target in zip(REDIS_RIVALS, (Target(">=", 5), None), strict=True)
        ]


def run_postgres(settings: Settings) -> list[Line]:
    with postgres() as database:
        pairs: list[tuple[Operation, Rival, Target | None]] = [
            (operation, rival, target)
            for operation in OPERATIONS
            for rival, target in zip(POSTGRES_RIVALS, (Target(">=", 4), None), strict=True)
        ]
        pairs.append((FINISH, TELLING, None))
        return [uvloop.run(_compare(settings, database, *pair[:2], POSTGRES_TERMS, pair[2])) for pair in pairs]


async def _compare(
    settings: Settings, database: Database, operation: Operation, rival: Rival, terms: str, target: Target | None
) -> Line:
    each, name = settings.scaled(64, 8) * CALLERS, f"{operation.name}_{rival.kind.__name__.lower()}"
    async with open_store(database.url(f"ours_{name}")) as store, rival.kind(database.address, name) as keeper:
        # Ours is done sooner: with four times as much to do its turns are long enough to be timed.
        ours, theirs = Side(store, database, operation, 4 * each), Side(keeper, database, operation, each)
        for side in (ours, theirs):
            await side.turn()
        rounds = await alternate(settings.rounds, ours.turn, theirs.turn, figure=lambda spent: spent.per_second)
        for side in (ours, theirs):
            await side.check()
    return compared(
        f"{database.name} {operation.name}, {CALLERS} callers" if target else f"the same, {rival.name}",
        "/s",
        rounds,
        rival=rival.name,
        target=target,
        note=f"{terms}; {4 * each} and {each} a turn; the server took {ours.server_microseconds:.0f} and"
        f" {theirs.server_microseconds:.0f} us each",
    )


async def _each(keeper: Keeper, tasks: Sequence[Task], act: Callable[[Keeper, Task], Awaitable[Any]]) -> None:
    """Let the callers share the tasks out among themselves."""

    async def caller(share: Sequence[Task]) -> None:
        for task in share:
            await act(keeper, task)

    await together([caller(tasks[number::CALLERS]) for number in range(CALLERS)])
