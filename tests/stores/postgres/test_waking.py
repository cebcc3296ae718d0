"""Who is told of what: all who wait for a task, one who waits for work, nobody else; and nothing is missed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from coatcheck import open_store
from coatcheck.lifecycle import Noted, Released, advance
from coatcheck.store import Store
from coatcheck.stores.postgres import watch
from coatcheck.testing.builders import NOW, a_task
from tests.databases.fixtures import the_postgres
from tests.stores.postgres.helpers import FOREVER, LOGGED, Session, schema_of, session, statements, through
from tests.stores.redis.helpers import CLAIMED, PATIENCE, ids, soon, until
from tests.stores.redis.proxy import Proxy

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("_only_told")]

LISTEN, UNLISTEN = ': LISTEN "cc.{}"', ': UNLISTEN "cc.{}"'
ANNS = "&application_name=ann"
SAID = "select pid from pg_stat_activity where application_name = 'ann' and state = 'idle' and query like $1"
READ = "%case when t.version > %"


@asynccontextmanager
async def stores(url: str, count: int) -> AsyncGenerator[list[Store]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_store(url)) for _ in range(count)]


@asynccontextmanager
async def waiting(*some: Store, tools: tuple[str, ...] = ("slow",)) -> AsyncGenerator[list[Any]]:
    """Let each of these wait for work for as long as this lasts."""
    waits = [asyncio.ensure_future(store.waiting(tools, limit=1, timeout=FOREVER)) for store in some]
    try:
        yield waits
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def until_asleep(boss: Session, url: str, other_than: int = 0) -> int:
    """Wait until Ann's store listens for changes of tasks and has read one; return which session listens."""
    listens = f'LISTEN "cc.{schema_of(url)}"'
    await boss.until(f"select exists ({SAID} and pid <> $2)", listens, other_than)
    await boss.until(f"select exists ({SAID})", READ)
    return await boss.ask(f"{SAID} and pid <> $2", listens, other_than)


async def until_idle(boss: Session, count: int) -> None:
    """Wait until so many stores are to be told of work, and nobody looks for some any more."""
    await boss.until("select count(*) = $1 from @.idle where works <> '{}'", count)
    await boss.until(
        "select not exists (select from pg_stat_activity where state <> 'idle' and pid <> pg_backend_pid())"
    )


# Waiting for a task


async def test_a_change_wakes_those_who_wait_in_another_store(url: str) -> None:
    async with open_store(url) as one, open_store(f"{url}{ANNS}") as other, session(url) as boss:
        task = await one.insert(a_task())
        waits = [asyncio.ensure_future(other.get("a", newer_than=1, timeout=FOREVER)) for _ in range(10)]
        await until_asleep(boss, url)
        held = advance(task, CLAIMED, NOW)
        assert await one.replace(held)
        assert await soon(asyncio.gather(*waits)) == [held] * 10
        gone = asyncio.ensure_future(other.get("a", newer_than=2, timeout=FOREVER))
        assert await one.delete(held)
        assert await soon(gone) is None


@pytest.mark.parametrize("count", [900, 2000, 5000])
async def test_thousands_of_changes_at_once_wake_all_who_wait_for_them(count: int, url: str) -> None:
    async with stores(url, 2) as (one, other):
        tasks = await asyncio.gather(*(one.insert(a_task(str(number))) for number in range(count)))
        waits = [asyncio.ensure_future(other.get(task.id, newer_than=1, timeout=FOREVER)) for task in tasks]
        held = [advance(task, CLAIMED, NOW) for task in tasks]
        assert all(await asyncio.gather(*map(one.replace, held)))
        assert await soon(asyncio.gather(*waits)) == held


async def test_changes_are_heard_after_the_connection_that_listens_was_ended(url: str) -> None:
    async with open_store(url) as one, open_store(f"{url}{ANNS}") as other, session(url) as boss:
        task, listener = await one.insert(a_task()), 0
        for number in range(3):
            wait = asyncio.ensure_future(other.get("a", newer_than=task.version, timeout=FOREVER))
            listener = await until_asleep(boss, url, listener)
            await boss.ask("select pg_terminate_backend($1)", listener)
            await until_asleep(boss, url, listener)
            task = advance(task, CLAIMED if number == 0 else Noted(1, str(number)), NOW)
            assert await one.replace(task)
            assert await soon(wait) == task


async def test_what_changed_while_nobody_could_hear_it_is_seen_once_they_can(url: str, proxy: Proxy) -> None:
    async with (
        open_store(url) as other,
        open_store(through(proxy.port, url) + ANNS) as store,
        session(url) as boss,
        waiting(store) as (work,),
    ):
        task = await other.insert(a_task(tool="other"))
        wait = asyncio.ensure_future(store.get("a", newer_than=1, timeout=FOREVER))
        await until_idle(boss, 1)
        proxy.is_shut = True
        proxy.cut()
        held = advance(task, CLAIMED, NOW)
        assert await other.replace(held)
        await other.insert(a_task("b"))
        proxy.is_shut = False
        assert await soon(wait) == held
        assert ids(await soon(work)) == ["b"]


async def test_where_nobody_waits_for_a_task_nobody_listens(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_SAFETY_SECONDS", 0.05)
    async with open_store(f"{url}{LOGGED}") as store:
        task = await store.insert(a_task())
        assert await store.get("a", newer_than=1, timeout=0.001) == task
        await until(lambda: not listens(url))


def listens(url: str) -> bool:
    """Say whether somebody has begun to listen for changes of tasks and not ended it."""
    return said(LISTEN.format(schema_of(url))) > said(UNLISTEN.format(schema_of(url)))


def said(words: str) -> int:
    return the_postgres().process.words().count(words)


async def test_who_comes_just_when_listening_ends_is_heard(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_SAFETY_SECONDS", 0.05)
    async with (
        open_store(through(proxy.port, url) + LOGGED) as store,
        open_store(url) as other,
        session(url) as boss,
        waiting(store),
    ):
        task = await other.insert(a_task(tool="other"))
        await until_idle(boss, 1)
        while not (proxy.held and listens(url)):
            proxy.let_go()
            await store.get("a", newer_than=1, timeout=0.01)
            proxy.hold()
            await until(lambda: proxy.held)  # it looks after its connection, and will then end to listen
        async with waiting(store, tools=("third",)):
            await asyncio.sleep(0)  # it has something to say on that connection before
            proxy.let_go()
            proxy.hold()
            await until(lambda: proxy.held)
            wait = asyncio.ensure_future(store.get("a", newer_than=1, timeout=FOREVER))
            await asyncio.sleep(0)
            monkeypatch.setattr(watch, "_SAFETY_SECONDS", 3600.0)
            proxy.let_go()
            async with waiting(store, tools=("fourth",)):
                await boss.until("select cardinality(works) = 3 from @.idle")  # all is said that was to be said before
                await store.get("a")
                assert await other.replace(advance(task, CLAIMED, NOW))
                assert await soon(wait) == advance(task, CLAIMED, NOW)


# Waiting for work


async def test_one_task_wakes_one_of_many(url: str) -> None:
    looks = f'"{schema_of(url)}".task\n\t    where state = 0 and work = w.work'
    async with (
        stores(f"{url}{LOGGED}", 8) as many,
        open_store(url) as boss,
        session(url) as other,
        waiting(*many) as waits,
    ):
        await until(lambda: said(looks) >= 2 * 8)
        await until_idle(other, 8)
        with statements() as asked:
            await boss.insert(a_task())
            done, _ = await asyncio.wait(waits, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert [ids(wait.result()) for wait in done] == [["a"]]
        assert sum(looks in statement for statement in asked) == 1
        await until_idle(other, 7)


async def test_many_tasks_wake_as_many(url: str) -> None:
    async with stores(url, 8) as many, open_store(url) as boss, session(url) as other, waiting(*many) as waits:
        await until_idle(other, 8)
        await asyncio.gather(*(boss.insert(a_task(str(number))) for number in range(3)))
        await until(lambda: sum(wait.done() for wait in waits) == 3)
        await until_idle(other, 5)


async def test_work_of_another_tool_wakes_nobody(url: str) -> None:
    async with stores(url, 2) as (one, boss), session(url) as other, waiting(one) as (wait,):
        await until_idle(other, 1)
        await boss.insert(a_task("x", tool="other"))
        await boss.insert(a_task("y", tool="third"))
        await until_idle(other, 1)
        assert not wait.done()
        await boss.insert(a_task())
        assert ids(await soon(wait)) == ["a"]


async def test_who_no_longer_waits_passes_it_on(url: str) -> None:
    async with stores(url, 8) as (last, boss, *others), session(url) as other:
        async with waiting(*others):
            await until_idle(other, 6)
        async with waiting(last) as (wait,):
            await until_idle(other, 7)
            await boss.insert(a_task())
            assert ids(await soon(wait)) == ["a"]


async def test_workers_that_died_do_not_swallow_work(url: str, proxy: Proxy) -> None:
    async with (
        stores(through(proxy.port, url), 4) as dead,
        stores(url, 2) as (last, boss),
        session(url) as other,
        waiting(*dead),
    ):
        await until_idle(other, 4)
        proxy.is_shut = True
        proxy.cut()
        async with waiting(last) as (wait,):
            await until_idle(other, 5)
            await boss.insert(a_task())
            assert ids(await soon(wait)) == ["a"]
        for number in range(4):
            await boss.insert(a_task(f"b{number}"))
        await other.until("select count(*) <= 1 from @.idle")
        proxy.is_shut = False


async def test_of_many_who_wait_in_one_store_each_gets_its_turn(url: str) -> None:
    async with stores(url, 2) as (store, boss), session(url) as other:
        workers = [asyncio.ensure_future(claim_one(store)) for _ in range(6)]
        for number in range(6):
            await until_idle(other, 1)
            await boss.insert(a_task(str(number)))
            await until(lambda number=number: sum(worker.done() for worker in workers) > number)
        assert sorted(worker.result() for worker in workers) == [str(number) for number in range(6)]


async def claim_one(store: Store) -> str:
    """Be a worker, and end when a task was claimed."""
    while True:
        for task in await store.waiting(("slow",), limit=1, timeout=FOREVER):
            if await store.replace(advance(task, CLAIMED, NOW)):
                return task.id


async def test_many_tasks_at_once_wake_as_many_in_one_store(url: str) -> None:
    async with stores(url, 2) as (store, boss), session(url) as other:
        workers = [asyncio.ensure_future(claim_one(store)) for _ in range(5)]
        await until_idle(other, 1)
        await asyncio.gather(*(boss.insert(a_task(str(number))) for number in range(5)))
        assert len(set(await soon(asyncio.gather(*workers)))) == 5


async def test_a_task_that_is_let_go_is_offered_at_once(url: str) -> None:
    async with stores(url, 2) as (store, boss), session(url) as other, waiting(store) as (wait,):
        await until_idle(other, 1)
        held = advance(a_task(resumable=True), CLAIMED, NOW)
        await boss.insert(held)
        assert await boss.replace(advance(held, Released(1), NOW))
        assert ids(await soon(wait)) == ["a"]
