"""Who is woken for what: all who wait for a task, one who waits for work, nobody else; and nothing is missed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coatcheck import open_store
from coatcheck.lifecycle import Released, advance
from coatcheck.store import Store
from coatcheck.testing.builders import NOW, a_task
from tests.databases.fixtures import new_url, the_redis
from tests.stores.redis.helpers import CLAIMED, DONE, PATIENCE, ask, commands_of_clients, ids, keep, key, soon, until
from tests.stores.redis.proxy import Proxy

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(tmp_path: Path) -> str:
    return new_url("redis", tmp_path)


def idle(url: str, tool: str = "slow") -> int:
    """Count the stores that are to be told of work for a tool."""
    return ask(url, "SCARD", key(url, f"i:{tool}"))


def offers(commands: list[str]) -> int:
    """Count how often somebody looked for work."""
    return sum(" if none " in command or " always " in command for command in commands)


async def all_idle(url: str, waits: list[Any]) -> None:
    """Return once work would be told to each who waits."""
    await until(lambda: idle(url) == len(waits) or any(wait.done() for wait in waits))
    assert [wait.result() for wait in waits if wait.done()] == []


@asynccontextmanager
async def stores(url: str, count: int) -> AsyncGenerator[list[Store]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_store(url)) for _ in range(count)]


@asynccontextmanager
async def waiting(*some: Store, tools: tuple[str, ...] = ("slow",)) -> AsyncGenerator[list[Any]]:
    """Let each of these wait for work for as long as this lasts."""
    waits = [asyncio.ensure_future(store.waiting(tools, limit=1, timeout=PATIENCE)) for store in some]
    try:
        yield waits
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


# Waiting for a task


async def test_a_change_wakes_those_who_wait_in_another_store(url: str) -> None:
    async with stores(url, 2) as (one, other):
        task = await one.insert(a_task())
        waits = [asyncio.ensure_future(other.get("a", newer_than=1, timeout=PATIENCE)) for _ in range(10)]
        await until(lambda: ask(url, "HEXISTS", key(url, "t:a"), "l"))
        held = advance(task, CLAIMED, NOW)
        assert await one.replace(held)
        assert await soon(asyncio.gather(*waits)) == [held] * 10
        gone = asyncio.ensure_future(other.get("a", newer_than=2, timeout=PATIENCE))
        await until(lambda: ask(url, "HEXISTS", key(url, "t:a"), "l"))
        assert await one.delete(held)
        assert await soon(gone) is None


async def test_nothing_is_published_if_nobody_else_waits(url: str) -> None:
    async with stores(url, 1) as (store,):
        task = await store.insert(a_task())
        wait = asyncio.ensure_future(store.get("a", newer_than=1, timeout=PATIENCE))
        await until(lambda: ask(url, "HEXISTS", key(url, "t:a"), "l"))
        published = ask(url, "INFO", "commandstats").get("cmdstat_publish")
        assert await store.replace(advance(task, CLAIMED, NOW))
        assert await soon(wait) == advance(task, CLAIMED, NOW)
        assert ask(url, "INFO", "commandstats").get("cmdstat_publish") == published


async def test_what_changed_while_nobody_could_hear_it_is_seen_once_they_can(url: str) -> None:
    async with (
        Proxy(the_redis().process.port) as proxy,
        open_store(url) as other,
        open_store(proxy.url(url.split("=")[1])) as store,
        waiting(store) as (work,),
    ):
        task = await other.insert(a_task(tool="other"))
        wait = asyncio.ensure_future(store.get("a", newer_than=1, timeout=PATIENCE))
        await until(lambda: idle(url) and ask(url, "HEXISTS", key(url, "t:a"), "l"))
        proxy.is_shut = True
        proxy.cut()
        held = advance(task, CLAIMED, NOW)
        assert await other.replace(held)
        await other.insert(a_task("b"))
        proxy.is_shut = False
        assert await soon(wait) == held
        assert ids(await soon(work)) == ["b"]


async def test_a_store_nobody_waits_in_sends_nothing(url: str) -> None:
    async with stores(url, 1) as (store,):
        await keep(store, a_task(), CLAIMED, DONE)
        await store.get("a", newer_than=9, timeout=0.001)
        with commands_of_clients(the_redis().address) as commands:
            await asyncio.sleep(0)
    assert commands == []


# Waiting for work


async def test_one_task_wakes_one_of_many(url: str) -> None:
    async with stores(url, 20) as many, open_store(url) as boss, waiting(*many) as waits:
        await all_idle(url, waits)
        with commands_of_clients(the_redis().address) as commands:
            await boss.insert(a_task())
            done, _ = await asyncio.wait(waits, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert [ids(wait.result()) for wait in done] == [["a"]]
        assert offers(commands) == 1
        assert idle(url) == 19


async def test_many_tasks_wake_as_many(url: str) -> None:
    async with stores(url, 20) as many, open_store(url) as boss, waiting(*many) as waits:
        await all_idle(url, waits)
        await asyncio.gather(*(boss.insert(a_task(str(number))) for number in range(5)))
        await until(lambda: sum(wait.done() for wait in waits) == 5)
        assert idle(url) == 15


async def test_work_of_another_tool_wakes_nobody(url: str) -> None:
    async with stores(url, 2) as (one, boss), waiting(one) as (wait,):
        await all_idle(url, [wait])
        with commands_of_clients(the_redis().address) as commands:
            await boss.insert(a_task("x", tool="other"))
        assert offers(commands) == 0
        assert not wait.done()


async def test_a_store_that_died_is_passed_over_and_forgotten(url: str) -> None:
    async with stores(url, 2) as (one, boss), waiting(one) as (wait,):
        await all_idle(url, [wait])
        ask(url, "SADD", key(url, "i:slow"), *(f"dead{number}" for number in range(30)))
        await boss.insert(a_task())
        assert ids(await soon(wait)) == ["a"]
        for number in range(31):
            await boss.insert(a_task(f"b{number}"))
        assert idle(url) == 0


async def test_who_no_longer_waits_passes_it_on(url: str) -> None:
    async with stores(url, 9) as (last, boss, *others):
        async with waiting(*others):
            await until(lambda: idle(url) == 7)
        async with waiting(last) as (wait,):
            await until(lambda: idle(url) == 8)
            await boss.insert(a_task())
            assert ids(await soon(wait)) == ["a"]


async def test_who_goes_away_just_when_called_passes_it_on(url: str) -> None:
    async with (
        Proxy(the_redis().process.port) as proxy,
        open_store(proxy.url(url.split("=")[1])) as first,
        stores(url, 2) as (second, boss),
        waiting(second) as (other,),
    ):
        await until(lambda: idle(url) == 1)
        name = ask(url, "SPOP", key(url, "i:slow"))
        async with waiting(first) as (wait,):
            await until(lambda: idle(url) == 1)
            proxy.hold()
            await boss.insert(a_task())
            await until(lambda: proxy.held)  # it was called, and wants to look
            ask(url, "SADD", key(url, "i:slow"), name)
            wait.cancel()
            await asyncio.wait([wait])
            proxy.let_go()
            assert ids(await soon(other)) == ["a"]


async def test_of_many_who_wait_in_one_store_each_gets_its_turn(url: str) -> None:
    async with stores(url, 2) as (store, boss), waiting(*([store] * 10)) as waits:
        await until(lambda: idle(url) == 1)
        sleepers = set(waits)
        for number in range(10):
            task = await boss.insert(a_task(str(number)))
            woken, sleepers = await asyncio.wait(sleepers, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            assert [ids(wait.result()) for wait in woken] == [[task.id]]
            assert await boss.replace(advance(task, CLAIMED, NOW))


async def test_many_tasks_at_once_wake_as_many_in_one_store(url: str) -> None:
    async with stores(url, 2) as (store, boss), waiting(*([store] * 5)) as waits:
        await until(lambda: idle(url) == 1)
        await asyncio.gather(*(boss.insert(a_task(str(number))) for number in range(5)))
        await soon(asyncio.wait(waits))


async def test_a_task_that_is_let_go_is_offered_at_once(url: str) -> None:
    async with stores(url, 2) as (store, boss), waiting(store) as (wait,):
        await until(lambda: idle(url) == 1)
        held = advance(a_task(resumable=True), CLAIMED, NOW)
        await boss.insert(held)
        assert idle(url) == 1, "what is claimed already is no work"
        assert await boss.replace(advance(held, Released(1), NOW))
        assert ids(await soon(wait)) == ["a"]
