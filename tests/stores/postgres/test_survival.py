"""PostgreSQL is killed, hangs, or throws us out: what was acknowledged stays, and what is asked meanwhile is done."""

import asyncio
import random
from contextlib import AsyncExitStack
from functools import partial

import pytest

from coatcheck import open_store
from coatcheck.errors import StoreUnavailable
from coatcheck.lifecycle import Recorded, advance
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.stores.postgres import batches, connections, driver, ear, watch
from coatcheck.stores.postgres.driver import Backoff
from coatcheck.task import Task
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.databases.postgres import Postgres
from tests.stores.postgres.helpers import FOREVER, a_role, ask, grant, run, session, through
from tests.stores.redis.helpers import CLAIMED, DONE, PATIENCE, keep, soon, until
from tests.stores.redis.proxy import Proxy

pytestmark = pytest.mark.anyio

RECORDED = Recorded(1, (an_entry(),))
PID = "select pg_backend_pid()"
EAR = "select pid from pg_locks join pg_stat_activity using (pid) where locktype = 'advisory' and application_name = $1"
"""Who listens has a lock to show that it does."""
OTHERS = "from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"


def have_patience(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(batches, "PATIENCE", seconds)
    monkeypatch.setattr(connections, "PATIENCE", seconds)
    monkeypatch.setattr(connections, "Backoff", partial(Backoff, seconds))


# Killed


class Load:
    """Tasks that are handed in, claimed and finished as fast as may be; and what was acknowledged of them."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, Task] = {}
        self.is_over = False

    async def work(self, store: Store, name: str) -> None:
        number = 0
        while not self.is_over:
            number += 1
            key = str(number) if number % 2 else None
            task = await store.insert(a_task(f"{name}-{number}", name, idempotency_key=key), quota=3)
            self.acknowledged[task.id] = task
            for event in (CLAIMED, RECORDED, DONE):
                task = advance(task, event, NOW)
                assert await store.replace(task, RECORDED.entries if event is RECORDED else ())
                self.acknowledged[task.id] = task
            if number % 3 == 0:
                assert await store.delete(task)
                del self.acknowledged[task.id]


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_or_done_twice_when_postgresql_is_killed_under_load(
    own_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_patience(monkeypatch, PATIENCE)
    seed = random.randrange(1 << 32)
    dice, load, url = random.Random(seed), Load(), own_server.url("killed")
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(url)) for _ in range(2)]
        work = [asyncio.create_task(load.work(stores[n % 2], f"w{n}")) for n in range(16)]
        for _ in range(3):
            goal = len(load.acknowledged) + dice.randrange(50, 200)
            await until(lambda goal=goal: len(load.acknowledged) >= goal or any(task.done() for task in work))
            own_server.process.kill()
            await asyncio.to_thread(own_server.process.start)
        load.is_over = True
        await soon(asyncio.gather(*work))
        kept = {task.id: task for task in await stores[0].list(Query(owner=EVERYONE, limit=1_000_000))}
        assert kept == load.acknowledged, f"seed {seed}"
        assert await ask(url, "select count(*) from @.entry") == len(kept), f"seed {seed}"


async def test_what_is_asked_while_the_server_is_away_is_done_once_it_is_back(
    own_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_patience(monkeypatch, PATIENCE)
    async with open_store(own_server.url("away")) as store:
        held = await keep(store, a_task(), CLAIMED)
        await store.insert(a_task("b", tool="other"))
        own_server.process.kill()
        asked = [
            asyncio.ensure_future(store.insert(a_task("new"))),
            asyncio.ensure_future(store.replace(advance(held, RECORDED, NOW), RECORDED.entries)),
            asyncio.ensure_future(store.delete(a_task("b", tool="other"))),
            asyncio.ensure_future(store.get("a", newer_than=2, timeout=FOREVER)),
            asyncio.ensure_future(store.waiting(("slow",), limit=1, timeout=FOREVER)),
        ]
        await asyncio.to_thread(own_server.process.start)
        await soon(asyncio.wait(asked))
        noted = advance(held, RECORDED, NOW)
        assert [each.result() for each in asked] == [a_task("new"), True, True, noted, [a_task("new")]]
        assert list(await store.journal("a")) == [an_entry()]


async def test_who_waits_in_vain_is_told_where_and_what_to_do(
    proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(through(proxy.port, url)) as store:
        have_patience(monkeypatch, 0.2)
        proxy.is_shut = True
        proxy.cut()
        said = rf"PostgreSQL at 127.0.0.1:{proxy.port}/postgres.* cannot be used just now: .*; check that it is up"
        for asked in (store.insert(a_task()), store.replace(a_task()), store.delete(a_task()), store.get("a")):
            with pytest.raises(StoreUnavailable, match=said):
                await soon(asked)
        with pytest.raises(StoreUnavailable, match=said):
            await soon(store.list(Query(owner=EVERYONE)))
        proxy.is_shut = False
        assert await soon(store_until_written(store)) == a_task()


async def store_until_written(store: Store) -> Task:
    while True:
        try:
            return await store.insert(a_task())
        except StoreUnavailable:
            continue


# Thrown out


async def test_connections_that_an_administrator_ends_are_not_missed(url: str) -> None:
    async with open_store(url) as store, session(url) as boss:
        for number in range(10):
            task = await keep(store, a_task(f"{number}"), CLAIMED)
            await boss.ask(f"select count(pg_terminate_backend(pid)) {OTHERS}")
            noted = advance(task, RECORDED, NOW)
            assert await soon(store.replace(noted, RECORDED.entries))
            await boss.ask(f"select count(pg_terminate_backend(pid)) {OTHERS}")
            assert await soon(store.get(task.id)) == noted
            await boss.ask(f"select count(pg_terminate_backend(pid)) {OTHERS}")
            assert len(await soon(store.list(Query(owner=EVERYONE)))) == number + 1
            assert await boss.ask("select count(*) from @.entry where task_id = $1", task.id) == 1


async def test_a_server_with_few_connections_left_is_enough(url: str) -> None:
    async with open_store(url), a_role(url, "connection limit 2") as anns:
        await grant(anns)
        async with open_store(anns) as store:
            tasks = [a_task(f"{number}") for number in range(20)]
            assert await soon(asyncio.gather(*map(store.insert, tasks))) == tasks
            held = [advance(task, CLAIMED, NOW) for task in tasks]
            waiting = [asyncio.ensure_future(store.get(task.id, newer_than=1, timeout=FOREVER)) for task in tasks]
            lists = asyncio.gather(*(store.list(Query(owner="ann", limit=50)) for _ in tasks))
            assert await soon(asyncio.gather(*map(store.replace, held))) == [True] * 20
            assert {len(found) for found in await soon(lists)} == {20}
            assert await soon(asyncio.gather(*waiting)) == held


async def test_a_server_that_may_only_be_read_for_a_while_delays_writes(
    own_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_patience(monkeypatch, PATIENCE)
    async with open_store(own_server.url("read_only")) as store, session(own_server.address) as boss:
        await boss.run("alter system set default_transaction_read_only = on")
        await boss.run("select pg_reload_conf()")
        await boss.until("select current_setting('default_transaction_read_only') = 'on'")
        await run(own_server.address, f"select pg_terminate_backend(pid) {OTHERS} and pid <> {await boss.ask(PID)}")
        writing = asyncio.ensure_future(store.insert(a_task()))
        await until(lambda: "cannot execute" in own_server.process.words())
        assert not writing.done()
        await boss.run("alter system reset default_transaction_read_only")
        await boss.run("select pg_reload_conf()")
        assert await soon(writing) == a_task()
        assert await store.get("a") == a_task()


# Hangs


async def test_a_connection_that_went_dead_without_a_word_is_given_up(
    proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_patience(monkeypatch, PATIENCE)
    monkeypatch.setattr(connections, "_ANSWER_SECONDS", 0.2)
    async with open_store(through(proxy.port, url)) as store:
        held = await keep(store, a_task(), CLAIMED)
        opened = proxy.connections
        proxy.mute()
        assert await soon(store.replace(advance(held, RECORDED, NOW), RECORDED.entries))
        assert proxy.connections > opened
        proxy.mute()
        assert list(await soon(store.journal("a"))) == [an_entry()]


async def test_who_listens_where_nothing_comes_any_more_listens_anew(
    proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_SAFETY_SECONDS", 0.1)
    monkeypatch.setattr(ear, "_ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(connections, "_ANSWER_SECONDS", 0.2)
    anns = through(proxy.port, url) + "&application_name=ann"
    async with open_store(anns) as store, open_store(url) as other, session(url) as boss:
        task = await other.insert(a_task())
        waiting = asyncio.ensure_future(store.get("a", newer_than=1, timeout=FOREVER))
        await store.get("a")
        before = await boss.ask(EAR, "ann")
        proxy.mute()
        await boss.until(f"select exists ({EAR} and pid <> $2)", "ann", before)
        assert await other.replace(advance(task, CLAIMED, NOW))
        assert await soon(waiting) == advance(task, CLAIMED, NOW)


async def test_of_many_who_ask_a_server_that_hangs_all_are_told_in_time(
    proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(through(proxy.port, url)) as store:
        have_patience(monkeypatch, 1.0)
        monkeypatch.setattr(connections, "_ANSWER_SECONDS", 0.5)
        monkeypatch.setattr(driver, "_CONNECT_SECONDS", 0.5)
        proxy.hold()
        began = asyncio.get_running_loop().time()
        asked = [asyncio.ensure_future(store.list(Query(owner=EVERYONE))) for _ in range(400)]
        await soon(asyncio.wait(asked))
        assert {type(each.exception()) for each in asked} == {StoreUnavailable}
        assert asyncio.get_running_loop().time() - began < 20
        proxy.let_go()
