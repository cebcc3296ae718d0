"""What a PostgreSQL is told and asked when somebody is woken: no more than is needed; and nothing is missed."""

import asyncio

import pytest

from coatcheck import open_store
from coatcheck.lifecycle import Noted, advance
from coatcheck.stores.postgres import watch
from coatcheck.testing.builders import NOW, a_task
from tests.databases.fixtures import the_postgres
from tests.processes import PATIENCE
from tests.stores.postgres.helpers import LOGGED, schema_of, session, statements
from tests.stores.postgres.insider import until_asleep
from tests.stores.served.helpers import CLAIMED, FOREVER, ids, soon, stores, through, until, waiting
from tests.stores.served.insider import Insider
from tests.stores.served.proxy import Proxy

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("_only_told")]

LISTEN, UNLISTEN = ': LISTEN "cc.{}"', ': UNLISTEN "cc.{}"'


# Waiting for a task


@pytest.mark.parametrize("count", [900, 2000, 5000])
async def test_thousands_of_changes_at_once_wake_all_who_wait_for_them(count: int, url: str) -> None:
    async with stores(url, 2) as (one, other):
        tasks = await asyncio.gather(*(one.insert(a_task(str(number))) for number in range(count)))
        waits = [asyncio.ensure_future(other.get(task.id, newer_than=1, timeout=FOREVER)) for task in tasks]
        held = [advance(task, CLAIMED, NOW) for task in tasks]
        assert all(await asyncio.gather(*map(one.replace, held)))
        assert await soon(asyncio.gather(*waits)) == held


async def test_changes_are_heard_after_the_connection_that_listens_was_ended(url: str) -> None:
    async with stores(url, 2) as (one, other), session(url) as boss:
        task, listener = await one.insert(a_task()), 0
        for number in range(3):
            wait = asyncio.ensure_future(other.get("a", newer_than=task.version, timeout=FOREVER))
            listener = await until_asleep(boss, url, listener)
            await boss.ask("select pg_terminate_backend($1)", listener)
            await until_asleep(boss, url, listener)
            task = advance(task, CLAIMED if number == 0 else Noted(1, str(number)), NOW)
            assert await one.replace(task)
            assert await soon(wait) == task


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
    url: str, proxy: Proxy, insider: Insider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_SAFETY_SECONDS", 0.05)
    async with (
        open_store(through(proxy.port, url) + LOGGED) as store,
        open_store(url) as other,
        session(url) as boss,
        waiting(store),
    ):
        task = await other.insert(a_task(tool="other"))
        await insider.until_idle(1)
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
            insider.let_nobody_look(monkeypatch)
            proxy.let_go()
            async with waiting(store, tools=("fourth",)):
                await boss.until("select cardinality(works) = 3 from @.idle")  # all is said that was to be said before
                await store.get("a")
                assert await other.replace(advance(task, CLAIMED, NOW))
                assert await soon(wait) == advance(task, CLAIMED, NOW)


# Waiting for work


async def test_one_task_wakes_one_of_many(url: str, insider: Insider) -> None:
    looks = f'"{schema_of(url)}".task\n\t    where is_waiting and work = w.work'
    async with stores(f"{url}{LOGGED}", 8) as many, open_store(url) as boss, waiting(*many) as waits:
        await until(lambda: said(looks) >= 2 * 8)
        await insider.until_idle(8)
        with statements() as asked:
            await boss.insert(a_task())
            done, _ = await asyncio.wait(waits, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert [ids(wait.result()) for wait in done] == [["a"]]
        assert sum(looks in statement for statement in asked) == 1
        await insider.expect_idle(7)


async def test_work_of_another_tool_wakes_nobody(url: str, insider: Insider) -> None:
    async with stores(url, 2) as (one, boss), waiting(one) as (wait,):
        await insider.until_idle(1)
        await boss.insert(a_task("x", tool="other"))
        await boss.insert(a_task("y", tool="third"))
        await insider.until_idle(1)
        assert not wait.done()
        await boss.insert(a_task())
        assert ids(await soon(wait)) == ["a"]


async def test_workers_that_died_do_not_swallow_work(url: str, proxy: Proxy, insider: Insider) -> None:
    async with (
        stores(through(proxy.port, url), 4) as dead,
        stores(url, 2) as (last, boss),
        session(url) as other,
        waiting(*dead),
    ):
        await insider.until_idle(4)
        proxy.is_shut = True
        proxy.cut()
        async with waiting(last) as (wait,):
            await insider.until_idle(5)
            await boss.insert(a_task())
            assert ids(await soon(wait)) == ["a"]
        for number in range(4):
            await boss.insert(a_task(f"b{number}"))
        await other.until("select count(*) <= 1 from @.idle")
        proxy.is_shut = False
