"""A Redis forgets, refuses or falls silent: what was asked for is sent again, or it is said what to do."""

import asyncio
from time import process_time

import pytest

from coatcheck import open_store
from coatcheck.errors import StoreUnavailable
from coatcheck.lifecycle import advance
from coatcheck.stores.redis import store as store_module
from coatcheck.testing.builders import NOW, a_task
from tests.databases.redis import Redis
from tests.stores.redis.helpers import ask, key
from tests.stores.served.helpers import CLAIMED, FOREVER, persistently, soon, stores, through, until
from tests.stores.served.insider import Insider
from tests.stores.served.proxy import Proxy

pytestmark = pytest.mark.anyio


async def test_scripts_that_a_server_forgot_are_brought_again(url: str) -> None:
    async with open_store(url) as store:
        ask(url, "SCRIPT", "FLUSH")
        tasks = [a_task(str(number)) for number in range(40)]
        assert await asyncio.gather(*map(store.insert, tasks)) == tasks


async def test_a_server_that_is_only_a_replica_for_a_while_delays_writes(own_server: Redis) -> None:
    async with open_store(own_server.url("x")) as store:
        ask(own_server.address, "REPLICAOF", "127.0.0.1", 1)
        writing = asyncio.ensure_future(store.insert(a_task()))
        await until(lambda: refusals(own_server))
        ask(own_server.address, "REPLICAOF", "NO", "ONE")
        assert await soon(writing) == a_task()
        assert await store.get("a") == a_task()


async def test_a_server_without_memory_is_an_error_at_once_that_says_what_to_do(own_server: Redis) -> None:
    async with open_store(own_server.url("x")) as store:
        await store.insert(a_task())
        ask(own_server.address, "CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="no memory left; raise its maxmemory"):
            await store.insert(a_task("b"))
        assert await store.get("a") == a_task()
        ask(own_server.address, "CONFIG", "SET", "maxmemory", 0)
        assert await store.get("b") is None
        assert await store.insert(a_task("b")) == a_task("b")


async def test_a_connection_that_went_dead_without_a_word_is_given_up(
    proxy: Proxy, url: str, insider: Insider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(through(proxy.port, url)) as store:
        insider.have_patience(monkeypatch, 3.0)
        connections = proxy.connections
        proxy.mute()
        assert await persistently(store, a_task()) == a_task()
        assert proxy.connections > connections


async def test_what_is_refused_again_and_again_costs_little_however_much_waits(own_server: Redis) -> None:
    async with open_store(own_server.url("x")) as store:
        ask(own_server.address, "REPLICAOF", "127.0.0.1", 1)
        began = process_time()
        writing = asyncio.gather(*(store.insert(a_task(str(number))) for number in range(20_000)))
        await until(lambda: refusals(own_server))
        handed_in, refused = process_time(), refusals(own_server)
        await until(lambda: refusals(own_server) > refused + 1000)
        ended = process_time()
        ask(own_server.address, "REPLICAOF", "NO", "ONE")
        assert len(await soon(writing)) == 20_000
    assert ended - handed_in < handed_in - began


async def test_what_can_be_read_is_read_though_nothing_can_be_heard(
    proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stores(url, 1) as (other,), open_store(through(proxy.port, url)) as store:
        task = await other.insert(a_task())
        proxy.is_shut = True  # for further connections
        assert await soon(store.get("a", timeout=FOREVER)) == task
        assert await soon(store.waiting(("slow",), limit=1, timeout=FOREVER)) == [task]
        monkeypatch.setattr(store_module, "_SAFETY_SECONDS", 0.05)
        news = asyncio.ensure_future(store.get("a", newer_than=1, timeout=FOREVER))
        await until(lambda: ask(url, "HEXISTS", key(url, "t:a"), "l"))
        claimed = advance(task, CLAIMED, NOW)
        assert await other.replace(claimed)
        assert await soon(news) == claimed


async def test_who_could_not_hear_looks_again_as_soon_as_it_can(
    proxy: Proxy, url: str, insider: Insider, monkeypatch: pytest.MonkeyPatch
) -> None:
    insider.let_nobody_look(monkeypatch)
    async with stores(url, 1) as (other,), open_store(through(proxy.port, url)) as store:
        task = await other.insert(a_task())
        proxy.is_shut = True
        news = asyncio.ensure_future(store.get("a", newer_than=1, timeout=FOREVER))
        await insider.until_watched("a")
        claimed = advance(task, CLAIMED, NOW)
        assert await other.replace(claimed)
        proxy.is_shut = False
        assert await soon(news) == claimed


def refusals(server: Redis) -> int:
    """Count the scripts that it refused to run to their end."""
    return ask(server.address, "INFO", "commandstats")["cmdstat_evalsha"]["failed_calls"]
