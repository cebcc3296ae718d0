"""What a Redis is told and asked when somebody is woken: no more than is needed; and nothing is missed."""

import asyncio

import pytest

from coatcheck import open_store
from coatcheck.lifecycle import advance
from coatcheck.testing.builders import NOW, a_task
from tests.databases.fixtures import the_redis
from tests.processes import PATIENCE
from tests.stores.redis.helpers import ask, commands_of_clients, key
from tests.stores.served.helpers import CLAIMED, DONE, FOREVER, ids, keep, soon, stores, through, until, waiting
from tests.stores.served.insider import Insider
from tests.stores.served.proxy import Proxy

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("_only_told")]


def offers(commands: list[str]) -> int:
    """Count how often somebody looked for work."""
    return sum(" if none " in command or " always " in command for command in commands)


# Waiting for a task


async def test_nothing_is_published_if_nobody_else_waits(url: str, insider: Insider) -> None:
    async with stores(url, 1) as (store,):
        task = await store.insert(a_task())
        wait = asyncio.ensure_future(store.get("a", newer_than=1, timeout=FOREVER))
        await insider.until_watched("a")
        published = ask(url, "INFO", "commandstats").get("cmdstat_publish")
        assert await store.replace(advance(task, CLAIMED, NOW))
        assert await soon(wait) == advance(task, CLAIMED, NOW)
        assert ask(url, "INFO", "commandstats").get("cmdstat_publish") == published


async def test_a_store_nobody_waits_in_sends_nothing(url: str) -> None:
    async with stores(url, 1) as (store,):
        await keep(store, a_task(), CLAIMED, DONE)
        await store.get("a", newer_than=9, timeout=0.001)
        with commands_of_clients(the_redis().address) as commands:
            await asyncio.sleep(0)
    assert commands == []


# Waiting for work


async def test_one_task_wakes_one_of_many(url: str, insider: Insider) -> None:
    async with stores(url, 20) as many, open_store(url) as boss, waiting(*many) as waits:
        await insider.until_idle(20)
        with commands_of_clients(the_redis().address) as commands:
            await boss.insert(a_task())
            done, _ = await asyncio.wait(waits, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert [ids(wait.result()) for wait in done] == [["a"]]
        assert offers(commands) == 1
        await insider.expect_idle(19)


async def test_work_of_another_tool_wakes_nobody(url: str, insider: Insider) -> None:
    async with stores(url, 2) as (one, boss), waiting(one) as (wait,):
        await insider.until_idle(1)
        with commands_of_clients(the_redis().address) as commands:
            await boss.insert(a_task("x", tool="other"))
        assert offers(commands) == 0
        assert not wait.done()


async def test_a_store_that_died_is_passed_over_and_forgotten(url: str, insider: Insider) -> None:
    async with stores(url, 2) as (one, boss), waiting(one) as (wait,):
        await insider.until_idle(1)
        ask(url, "SADD", key(url, "i:slow"), *(f"dead{number}" for number in range(30)))
        await boss.insert(a_task())
        assert ids(await soon(wait)) == ["a"]
        for number in range(31):
            await boss.insert(a_task(f"b{number}"))
        await insider.expect_idle(0)


async def test_who_goes_away_just_when_called_passes_it_on(url: str, proxy: Proxy, insider: Insider) -> None:
    async with (
        open_store(through(proxy.port, url)) as first,
        stores(url, 2) as (second, boss),
        waiting(second) as (other,),
    ):
        await insider.until_idle(1)
        name = ask(url, "SPOP", key(url, "i:slow"))
        async with waiting(first) as (wait,):
            await insider.until_idle(1)
            proxy.hold()
            await boss.insert(a_task())
            await until(lambda: proxy.held)  # it was called, and wants to look
            ask(url, "SADD", key(url, "i:slow"), name)
            wait.cancel()
            await asyncio.wait([wait])
            proxy.let_go()
            assert ids(await soon(other)) == ["a"]


async def test_of_many_who_wait_in_one_store_one_is_woken_at_a_time(url: str, insider: Insider) -> None:
    async with stores(url, 2) as (store, boss), waiting(*([store] * 10)) as waits:
        await insider.until_idle(1)
        sleepers = set(waits)
        for number in range(10):
            task = await boss.insert(a_task(str(number)))
            woken, sleepers = await asyncio.wait(sleepers, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            assert [ids(wait.result()) for wait in woken] == [[task.id]]
            assert await boss.replace(advance(task, CLAIMED, NOW))
