"""Who is told of what: all who wait for a task, one who waits for work; and nothing is missed."""

import asyncio

import pytest

from coatcheck import open_store
from coatcheck.lifecycle import Released, advance
from coatcheck.store import Store
from coatcheck.testing.builders import NOW, a_task
from tests.stores.served.helpers import CLAIMED, FOREVER, ids, soon, stores, through, until, waiting
from tests.stores.served.insider import Insider
from tests.stores.served.proxy import Proxy

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("_only_told")]


# Waiting for a task


async def test_a_change_wakes_those_who_wait_in_another_store(url: str, insider: Insider) -> None:
    async with stores(url, 2) as (one, other):
        task = await one.insert(a_task())
        waits = [asyncio.ensure_future(other.get("a", newer_than=1, timeout=FOREVER)) for _ in range(10)]
        await insider.until_watched("a")
        held = advance(task, CLAIMED, NOW)
        assert await one.replace(held)
        assert await soon(asyncio.gather(*waits)) == [held] * 10
        gone = asyncio.ensure_future(other.get("a", newer_than=2, timeout=FOREVER))
        await insider.until_watched("a")
        assert await one.delete(held)
        assert await soon(gone) is None


async def test_what_changed_while_nobody_could_hear_it_is_seen_once_they_can(
    url: str, proxy: Proxy, insider: Insider
) -> None:
    async with open_store(url) as other, open_store(through(proxy.port, url)) as store:
        task = await other.insert(a_task(tool="other"))
        wait = asyncio.ensure_future(store.get("a", newer_than=1, timeout=FOREVER))
        await insider.until_watched("a")
        async with waiting(store) as (work,):
            await insider.until_idle(1)
            proxy.is_shut = True
            proxy.cut()
            held = advance(task, CLAIMED, NOW)
            assert await other.replace(held)
            await other.insert(a_task("b"))
            proxy.is_shut = False
            assert await soon(wait) == held
            assert ids(await soon(work)) == ["b"]


# Waiting for work


async def test_many_tasks_wake_as_many(url: str, insider: Insider) -> None:
    async with stores(url, 20) as many, open_store(url) as boss, waiting(*many) as waits:
        await insider.until_idle(20)
        assert not any(wait.done() for wait in waits)
        await asyncio.gather(*(boss.insert(a_task(str(number))) for number in range(5)))
        await until(lambda: sum(wait.done() for wait in waits) == 5)
        await insider.expect_idle(15)


async def test_who_no_longer_waits_passes_it_on(url: str, insider: Insider) -> None:
    async with stores(url, 9) as (last, boss, *others):
        async with waiting(*others):
            await insider.until_idle(7)
        async with waiting(last) as (wait,):
            await insider.until_idle(8)
            await boss.insert(a_task())
            assert ids(await soon(wait)) == ["a"]


async def test_of_many_who_wait_in_one_store_each_gets_its_turn(url: str, insider: Insider) -> None:
    async with stores(url, 2) as (store, boss):
        workers = [asyncio.ensure_future(claim_one(store)) for _ in range(10)]
        for number in range(10):
            await insider.until_idle(1)
            await boss.insert(a_task(str(number)))
            await until(lambda number=number: sum(worker.done() for worker in workers) > number)
        assert sorted(worker.result() for worker in workers) == [str(number) for number in range(10)]


async def claim_one(store: Store) -> str:
    """Be a worker, and end when a task was claimed."""
    while True:
        for task in await store.waiting(("slow",), limit=1, timeout=FOREVER):
            if await store.replace(advance(task, CLAIMED, NOW)):
                return task.id


async def test_many_tasks_at_once_wake_as_many_in_one_store(url: str, insider: Insider) -> None:
    async with stores(url, 2) as (store, boss):
        workers = [asyncio.ensure_future(claim_one(store)) for _ in range(5)]
        await insider.until_idle(1)
        await asyncio.gather(*(boss.insert(a_task(str(number))) for number in range(5)))
        assert len(set(await soon(asyncio.gather(*workers)))) == 5


async def test_many_unclaimed_tasks_at_once_wake_as_many_in_one_store(url: str, insider: Insider) -> None:
    async with stores(url, 2) as (store, boss), waiting(*([store] * 5)) as waits:
        await insider.until_idle(1)
        await asyncio.gather(*(boss.insert(a_task(str(number))) for number in range(5)))
        await soon(asyncio.wait(waits))


async def test_a_task_that_is_let_go_is_offered_at_once(url: str, insider: Insider) -> None:
    async with stores(url, 2) as (store, boss), waiting(store) as (wait,):
        await insider.until_idle(1)
        held = advance(a_task(resumable=True), CLAIMED, NOW)
        await boss.insert(held)
        await insider.expect_idle(1)  # what is claimed already is no work
        assert await boss.replace(advance(held, Released(1), NOW))
        assert ids(await soon(wait)) == ["a"]
