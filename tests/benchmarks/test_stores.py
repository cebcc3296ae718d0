"""What stores are measured against does the same work, and what is counted is what happened."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from benchmarks.databases import Database, connected, ready
from benchmarks.naive_redis import NaiveRedis
from benchmarks.reads_size import READS, drawn, fill
from benchmarks.rows import waiting_tasks
from benchmarks.statements import sent_during
from benchmarks.store_rates import OPERATIONS, POSTGRES_RIVALS, REDIS_RIVALS, TELLING, Operation, Rival, Side
from benchmarks.timing import CALLERS
from redis.asyncio import Redis

from coatcheck.lifecycle import Cancelled, advance
from coatcheck.stores.memory import MemoryStore
from coatcheck.wiring import open_store
from tests.databases.fixtures import new_url, the_postgres, the_redis

pytestmark = pytest.mark.anyio
RIVALS = (*REDIS_RIVALS, *POSTGRES_RIVALS, TELLING)
_numbers = count()


async def _redis() -> Database:
    server = the_redis()
    return Database("Redis", server.url, server.address, server.process.pid, server.process.words)


async def _postgres() -> Database:
    server = the_postgres()
    await ready(server.address)
    return Database("PostgreSQL", server.url, server.address, server.process.pid, server.process.words)


def _name() -> str:
    return f"bench_{os.getpid()}_{next(_numbers)}"


@pytest.mark.slow
@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.kind.__name__)
async def test_a_rival_keeps_a_task_and_compares_versions(rival: Rival) -> None:
    database = await (_redis() if rival in REDIS_RIVALS else _postgres())
    (task,) = waiting_tasks(1)
    changed = advance(task, Cancelled("enough"), task.created_at)
    async with rival.kind(database.address, _name()) as keeper:
        assert await keeper.get(task.id) is None
        assert not await keeper.replace(changed)
        await keeper.insert(task)
        assert await keeper.get(task.id) == task
        assert await keeper.replace(changed)
        assert not await keeper.replace(changed)
        assert await keeper.get(task.id) == changed


@pytest.mark.slow
@pytest.mark.parametrize("rival", REDIS_RIVALS, ids=lambda rival: rival.kind.__name__)
async def test_a_rival_on_redis_keeps_the_owners_list_and_the_expiry(rival: Rival) -> None:
    (task,), name = waiting_tasks(1), _name()
    async with rival.kind(the_redis().address, name) as keeper:
        await keeper.insert(task)
    client: Any = Redis.from_url(the_redis().address)  # pyright: ignore[reportUnknownMemberType]
    async with client:
        assert await client.zrange(f"{name}:owner:{task.owner}", 0, -1) == [task.id.encode()]
        assert 0 < await client.pttl(f"{name}:task:{task.id}") <= 86_400_000


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_a_turn_does_what_it_is_said_to_do(operation: Operation) -> None:
    side = Side(MemoryStore(), Database("memory", str), operation, 2 * CALLERS)
    assert (await side.turn()).operations == 2 * CALLERS
    await side.check()


async def test_work_that_was_not_kept_is_not_measured() -> None:
    class Forgetful(MemoryStore):
        async def get(self, task_id: str, **asked: Any) -> None: ...

    side = Side(Forgetful(), Database("memory", str), OPERATIONS[0], CALLERS)
    await side.turn()
    with pytest.raises(RuntimeError, match="What is kept: None"):
        await side.check()


@pytest.mark.slow
async def test_the_trips_of_a_rival_on_redis_are_counted() -> None:
    (task,) = waiting_tasks(1)
    async with NaiveRedis(the_redis().address, _name()) as keeper:
        await keeper.get(task.id)  # with its connection made, which says who it is
        assert await sent_during(await _redis(), keeper.insert(task)) == 3


@pytest.mark.slow
async def test_statements_sent_to_postgresql_are_counted() -> None:
    database = await _postgres()
    async with connected(database.address) as db:

        async def work() -> None:
            for number in range(5):
                assert await db.fetchval("select $1::int", number) == number

        assert await sent_during(database, work()) == 5


@pytest.mark.slow
@pytest.mark.parametrize("server", [_redis, _postgres])
async def test_the_processor_time_of_a_server_is_all_of_it(server: Callable[[], Awaitable[Database]]) -> None:
    database = await server()
    before = database.cpu_seconds()
    if database.name == "PostgreSQL":
        async with connected(database.address) as db:  # a process of its own
            await db.execute("select count(*) from generate_series(1, 1000000)")
            used = database.cpu_seconds() - before
    else:
        client: Any = Redis.from_url(database.address)  # pyright: ignore[reportUnknownMemberType]
        async with client:
            await client.eval("for i = 1, 100000 do redis.sha1hex('a') end", 0)
        used = database.cpu_seconds() - before
    assert used > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
async def test_reads_find_what_there_is_to_find(kind: str, tmp_path: Path) -> None:
    async with open_store(new_url(kind, tmp_path)) as store:
        shelf = await fill(store, 1000)
        assert len(shelf.ids) == len(set(shelf.ids)) == 1000
        for read in READS:
            for wanted in drawn(shelf, 10):
                assert await read.once(store, wanted) == read.expected, read.name
