"""Connections break at any point: what was asked for is done, once, and nobody notices but for the delay."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from coatcheck import open_store
from coatcheck.errors import InvalidArgument, StoreUnavailable
from coatcheck.lifecycle import Cancelled, Recorded, advance
from coatcheck.store import Store
from coatcheck.stores.redis import link
from coatcheck.task import Task
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.databases.fixtures import new_url, the_redis
from tests.databases.redis import Redis
from tests.stores.redis.helpers import CLAIMED, PATIENCE, ask, ids, keep, soon, until
from tests.stores.redis.proxy import Proxy

pytestmark = pytest.mark.anyio

HELD = advance(a_task("kept"), CLAIMED, NOW)
ENTRIES = (an_entry(), an_entry(2))
NOTED = advance(HELD, Recorded(1, ENTRIES), NOW)
KEYED = a_task("new", idempotency_key="k")


@pytest.fixture
async def proxy() -> AsyncGenerator[Proxy]:
    async with Proxy(the_redis().process.port) as opened:
        yield opened


@pytest.fixture
def url(proxy: Proxy, tmp_path: Path) -> str:
    return proxy.url(new_url("redis", tmp_path).split("=")[1])


@pytest.fixture
def own_server() -> Generator[Redis]:
    server = Redis()
    yield server
    server.close()


async def is_inserted(store: Store) -> None:
    assert await soon(store.insert(a_task("new"), quota=2)) == a_task("new")
    assert await store.get("new") == a_task("new")
    assert ids(await store.waiting({"slow"}, limit=10, timeout=0)) == ["new"]


async def is_inserted_under_a_key(store: Store) -> None:
    assert await soon(store.insert(KEYED, quota=2)) == KEYED
    assert await store.insert(a_task("newer", idempotency_key="k")) == KEYED


async def is_replaced(store: Store) -> None:
    assert await soon(store.replace(NOTED, ENTRIES)) is True
    assert await store.get("kept") == NOTED
    assert tuple(await store.journal("kept")) == ENTRIES
    assert not await store.replace(NOTED, ENTRIES), "what comes later is not taken for the same"


async def is_deleted(store: Store) -> None:
    assert await soon(store.delete(HELD)) is True
    assert await store.get("kept") is None
    assert not await store.delete(HELD)


async def is_read(store: Store) -> None:
    assert await soon(store.get("kept")) == HELD


CUTS = [*({"up": count} for count in (0, 1, 40)), *({"down": count} for count in (0, 1, 3))]
VERBS = (is_inserted, is_inserted_under_a_key, is_replaced, is_deleted, is_read)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("cut", CUTS, ids=str)
async def test_what_was_under_way_when_a_connection_broke_is_done_once(
    verb: Callable[[Store], Awaitable[None]], cut: dict[str, int], proxy: Proxy, url: str
) -> None:
    async with open_store(url) as store:
        await keep(store, a_task("kept"), CLAIMED)
        cuts = proxy.cuts
        proxy.cut_after(**cut)
        await verb(store)
        assert proxy.cuts > cuts


@asynccontextmanager
async def done_but_unanswered(proxy: Proxy, write: Awaitable[object]) -> AsyncGenerator[asyncio.Future[object]]:
    """Have a write carried out, but not answered before this ends."""
    cuts, proxy.is_shut = proxy.cuts, True
    proxy.cut_after(down=0)
    writing = asyncio.ensure_future(write)
    await until(lambda: proxy.cuts > cuts)
    yield writing
    proxy.is_shut = False


async def test_a_write_counts_though_somebody_else_wrote_before_it_was_repeated(proxy: Proxy, url: str) -> None:
    async with open_store(url) as store, open_store(directly(url)) as other:
        await keep(store, a_task("kept"), CLAIMED)
        async with done_but_unanswered(proxy, store.replace(NOTED, ENTRIES)) as writing:
            assert await other.get("kept") == NOTED
            assert await other.replace(advance(NOTED, Cancelled(), NOW))
        assert await soon(writing) is True
        assert tuple(await store.journal("kept")) == ENTRIES, "or it would be written again, on top of that"


async def test_a_task_was_handed_in_though_a_worker_took_it_before_that_was_repeated(proxy: Proxy, url: str) -> None:
    async with open_store(url) as store, open_store(directly(url)) as other:
        async with done_but_unanswered(proxy, store.insert(a_task())) as inserting:
            assert await other.replace(advance(a_task(), CLAIMED, NOW))
        assert await soon(inserting) == a_task()


async def test_a_write_whose_caller_went_away_still_wakes_those_who_wait_here(proxy: Proxy, url: str) -> None:
    async with open_store(url) as store:
        task = await store.insert(a_task())
        waiting = asyncio.ensure_future(store.get("a", newer_than=1, timeout=PATIENCE))
        await until(lambda: ask(directly(url), "HGET", f"{{{prefix_of(url)}}}:t:a", "l"))
        writing = asyncio.ensure_future(store.replace(advance(task, CLAIMED, NOW)))
        async with done_but_unanswered(proxy, writing):
            writing.cancel()
        assert await soon(waiting) == advance(task, CLAIMED, NOW)


async def test_a_different_task_of_the_same_id_is_refused_after_a_break_too(proxy: Proxy, url: str) -> None:
    async with open_store(url) as store:
        await store.insert(a_task("kept", "bob"))
        proxy.cut_after(down=0)
        with pytest.raises(InvalidArgument):
            await soon(store.insert(a_task("kept")))


# What a server says


async def test_scripts_that_a_server_forgot_are_brought_again(tmp_path: Path) -> None:
    async with open_store(url := new_url("redis", tmp_path)) as store:
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


async def test_who_waits_in_vain_is_told_where_and_what_to_do(
    proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(url) as store:
        monkeypatch.setattr(link, "_PATIENCE_SECONDS", 0.5)
        proxy.is_shut = True
        proxy.cut()
        with pytest.raises(StoreUnavailable, match=rf"redis://localhost:{proxy.port}/0 has not answered.*; see that"):
            await soon(store.insert(a_task()))
        monkeypatch.undo()
        proxy.is_shut = False
        assert await soon(store.insert(a_task())) == a_task()


async def test_a_connection_that_went_dead_without_a_word_is_given_up(
    proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(url) as store:
        monkeypatch.setattr(link, "_PATIENCE_SECONDS", 3.0)
        connections = proxy.connections
        proxy.mute()
        assert await soon(store_until_written(store)) == a_task()
        assert proxy.connections > connections


async def store_until_written(store: Store) -> Task:
    while True:
        with suppress(StoreUnavailable):
            return await store.insert(a_task())


async def test_an_open_store_notices_that_it_is_closed(tmp_path: Path) -> None:
    async with open_store(new_url("redis", tmp_path)) as store:
        await store.insert(a_task())
    with pytest.raises(StoreUnavailable, match="closed; open it again"):
        await store.get("a")


async def test_thousands_at_once_all_get_their_own_answer(tmp_path: Path) -> None:
    tasks = [msgspec.structs.replace(a_task(str(number)), status_message="x" * number) for number in range(3000)]
    async with open_store(new_url("redis", tmp_path)) as store:
        assert await asyncio.gather(*map(store.insert, tasks)) == tasks
        assert await asyncio.gather(*(store.get(task.id) for task in tasks)) == tasks


def directly(url: str) -> str:
    return the_redis().url(prefix_of(url))


def prefix_of(url: str) -> str:
    return url.split("=")[1]


def refusals(server: Redis) -> int:
    """Count the scripts that it refused to run to their end."""
    return ask(server.address, "INFO", "commandstats")["cmdstat_evalsha"]["failed_calls"]
