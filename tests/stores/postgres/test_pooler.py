"""Behind a pooler of transactions nothing is heard and nothing stays prepared: a store finds out, and looks itself."""

import asyncio
import logging
from collections.abc import AsyncGenerator

import pytest

from coatcheck import new_key, open_store
from coatcheck.lifecycle import Recorded, advance
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.stores.postgres import ear
from coatcheck.testing.builders import NOW, a_task, an_entry
from coatcheck.testing.store_contract import CHECKS, Check
from tests.databases.fixtures import the_postgres
from tests.stores.postgres.helpers import session
from tests.stores.postgres.pooler import Pooler
from tests.stores.served.helpers import CLAIMED, DONE, FOREVER, ids, keep, soon, through

pytestmark = pytest.mark.anyio

SHORT = 0.05
"""Seconds to wait for what never comes."""


@pytest.fixture
async def pooler(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Pooler]:
    monkeypatch.setattr(ear, "_TEST_SECONDS", SHORT)
    async with Pooler(the_postgres().process.port) as opened:
        yield opened


@pytest.fixture
def pooled(pooler: Pooler, url: str) -> str:
    return through(pooler.port, url)


@pytest.fixture
async def store(pooled: str) -> AsyncGenerator[Store]:
    async with open_store(pooled) as opened:
        yield opened


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_store_behind_a_pooler_keeps_the_contract(check: Check, store: Store) -> None:
    await check(store)


async def test_it_is_said_once_that_nothing_is_heard(pooled: str, caplog: pytest.LogCaptureFixture) -> None:
    async with open_store(pooled) as store:
        task = await store.insert(a_task())
        assert await store.get("a", newer_than=1, timeout=0.5) == task
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "passes no notifications on" in caplog.text
    assert "To hear of them at once, connect directly." in caplog.text


async def test_a_schema_is_made_and_sealed_through_a_pooler(pooled: str) -> None:
    old, new = new_key(), new_key()
    async with open_store(pooled, key=old) as store:
        held = await keep(store, a_task(), CLAIMED, Recorded(1, (an_entry(),)))
    async with open_store(pooled, key=f"{new},{old}") as store:
        assert await store.get("a") == held
        assert list(await store.journal("a")) == [an_entry()]


async def test_many_at_once_share_the_few_sessions_there_are(store: Store) -> None:
    tasks = [a_task(str(number)) for number in range(600)]
    held = [advance(task, CLAIMED, NOW) for task in tasks]
    assert await soon(asyncio.gather(*map(store.insert, tasks))) == tasks
    lists = asyncio.gather(*(store.list(Query(owner=EVERYONE, limit=1000)) for _ in range(20)))
    assert await soon(asyncio.gather(*map(store.replace, held))) == [True] * 600
    assert {len(found) for found in await soon(lists)} == {600}
    assert await soon(asyncio.gather(*(store.get(task.id) for task in tasks))) == held


# Hearing of changes


async def test_changes_in_another_store_are_found(store: Store, pooled: str) -> None:
    async with open_store(pooled) as other:
        task = await other.insert(a_task())
        waits = [asyncio.ensure_future(store.get("a", newer_than=1, timeout=FOREVER)) for _ in range(5)]
        held = advance(task, CLAIMED, NOW)
        assert await other.replace(held)
        assert await soon(asyncio.gather(*waits)) == [held] * 5
        gone = asyncio.ensure_future(store.get("a", newer_than=2, timeout=FOREVER))
        assert await other.delete(held)
        assert await soon(gone) is None


async def test_work_from_another_store_is_found(store: Store, pooled: str) -> None:
    async with open_store(pooled) as other:
        assert await store.waiting(("slow",), limit=1, timeout=0.01) == []
        wait = asyncio.ensure_future(store.waiting(("slow",), limit=1, timeout=FOREVER))
        await other.insert(a_task("x", tool="other"))
        await other.insert(a_task())
        assert ids(await soon(wait)) == ["a"]


@pytest.mark.usefixtures("_only_told")
async def test_others_who_connect_directly_are_told_of_what_is_written_behind_a_pooler(
    url: str, pooler: Pooler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(url) as direct, session(url) as boss:
        monkeypatch.setattr(ear, "_TEST_SECONDS", SHORT)
        async with open_store(through(pooler.port, url)) as store:
            task = await store.insert(a_task(tool="other"))
            wait = asyncio.ensure_future(direct.get("a", newer_than=1, timeout=FOREVER))
            work = asyncio.ensure_future(direct.waiting(("slow",), limit=1, timeout=FOREVER))
            await boss.until("select exists (select from @.idle)")
            assert await store.replace(advance(task, CLAIMED, NOW))
            await store.insert(a_task("b"))
            assert await soon(wait) == advance(task, CLAIMED, NOW)
            assert ids(await soon(work)) == ["b"]


async def test_who_waits_for_a_version_that_cannot_be_does_not_keep_others_from_looking(store: Store, url: str) -> None:
    async with open_store(url) as other:
        task = await other.insert(a_task())
        await other.insert(a_task("b"))
        in_vain = asyncio.ensure_future(store.get("b", newer_than=1 << 70, timeout=FOREVER))
        wait = asyncio.ensure_future(store.get("a", newer_than=1, timeout=FOREVER))
        assert await store.get("a", newer_than=1, timeout=0.5) == task
        assert await other.replace(advance(task, CLAIMED, NOW))
        assert await soon(wait) == advance(task, CLAIMED, NOW)
        in_vain.cancel()


# Looking seldom


@pytest.mark.slow
async def test_while_nobody_waits_nothing_is_asked(store: Store, pooler: Pooler, url: str) -> None:
    async with open_store(url) as clock:
        task = await keep(clock, a_task(), CLAIMED, DONE)
        assert await store.get("a", newer_than=task.version, timeout=0.5) == task
        asked = list[str]()
        for _ in range(2):  # the last look may have begun just before that ended
            before = len(pooler.statements)
            await clock.get("a", newer_than=task.version, timeout=2)
            asked = pooler.statements[before:]
        assert asked == []


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "workers", "most"), [(1, 0, 1), (0, 1, 2), (1, 1, 3), (50, 3, 7)])
async def test_who_waits_in_vain_looks_about_once_a_second(
    tasks: int, workers: int, most: int, store: Store, pooler: Pooler
) -> None:
    """`most`: reads it takes to look once, for all who wait."""
    loop = asyncio.get_running_loop()
    kept = await asyncio.gather(*(store.insert(a_task(str(number), tool="other")) for number in range(tasks)))
    began, before = loop.time(), len(pooler.statements)
    waits = [store.get(task.id, newer_than=1, timeout=2) for task in kept]
    waits += [store.waiting(("slow",), limit=1, timeout=2) for _ in range(workers)]
    await asyncio.gather(*waits)
    reads = sum(statement.startswith("begin;") for statement in pooler.statements[before:])
    assert reads <= most * (6 + loop.time() - began) + 10
