"""PostgreSQL hangs, or throws us out: what is asked meanwhile is done, once."""

import asyncio

import pytest

from coatcheck import open_store
from coatcheck.errors import StoreUnavailable
from coatcheck.lifecycle import advance
from coatcheck.store import EVERYONE, Query
from coatcheck.stores.postgres import connections, driver, ear, watch
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.databases.postgres import Postgres
from tests.processes import PATIENCE
from tests.stores.postgres.helpers import a_role, grant, run, session
from tests.stores.served.helpers import CLAIMED, FOREVER, RECORDED, keep, soon, through, until
from tests.stores.served.insider import Insider
from tests.stores.served.proxy import Proxy

pytestmark = pytest.mark.anyio

PID = "select pg_backend_pid()"
EAR = "select pid from pg_locks join pg_stat_activity using (pid) where locktype = 'advisory' and application_name = $1"
"""Who listens has a lock to show that it does."""
OTHERS = "from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"


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
    own_server: Postgres, insider: Insider, monkeypatch: pytest.MonkeyPatch
) -> None:
    insider.have_patience(monkeypatch, PATIENCE)
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
    proxy: Proxy, url: str, insider: Insider, monkeypatch: pytest.MonkeyPatch
) -> None:
    insider.have_patience(monkeypatch, PATIENCE)
    monkeypatch.setattr(connections, "_ANSWER_SECONDS", 0.2)
    async with open_store(through(proxy.port, url)) as store:
        held = await keep(store, a_task(), CLAIMED)
        opened = proxy.connections
        proxy.mute()
        assert await soon(store.replace(advance(held, RECORDED, NOW), RECORDED.entries))
        assert proxy.connections > opened
        proxy.mute()
        assert list(await soon(store.journal("a"))) == [an_entry()]


async def test_a_connection_that_goes_dead_just_when_it_is_made_is_given_up(
    proxy: Proxy, url: str, insider: Insider, monkeypatch: pytest.MonkeyPatch
) -> None:
    insider.have_patience(monkeypatch, PATIENCE)
    monkeypatch.setattr(driver, "_CONNECT_SECONDS", 0.5)
    async with open_store(through(proxy.port, url)) as store:
        task = await keep(store, a_task(), CLAIMED)
        proxy.mute_at(b"set enable_seqscan")
        proxy.cut()
        assert await soon(store.get("a")) == task
        assert proxy.muted_at == 1


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
    proxy: Proxy, url: str, insider: Insider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(through(proxy.port, url)) as store:
        insider.have_patience(monkeypatch, 1.0)
        monkeypatch.setattr(connections, "_ANSWER_SECONDS", 0.5)
        monkeypatch.setattr(driver, "_CONNECT_SECONDS", 0.5)
        proxy.hold()
        # One after the other they would wait for minutes.
        asked = [asyncio.ensure_future(store.list(Query(owner=EVERYONE))) for _ in range(1000)]
        await soon(asyncio.wait(asked))
        assert {type(each.exception()) for each in asked} == {StoreUnavailable}
        proxy.let_go()
