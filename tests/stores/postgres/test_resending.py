"""Connections break at any point: what was asked for is done, once, and nobody notices but for the delay."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from coatcheck import open_store
from coatcheck.errors import InvalidArgument
from coatcheck.lifecycle import Cancelled, Recorded, advance
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.task import Task
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.databases.fixtures import the_postgres
from tests.stores.postgres.helpers import FOREVER, LOGGED, Session, session, through
from tests.stores.redis.helpers import CLAIMED, ids, keep, soon, until
from tests.stores.redis.proxy import Proxy

pytestmark = pytest.mark.anyio

HELD = advance(a_task("kept"), CLAIMED, NOW)
ENTRIES = (an_entry(), an_entry(2))
NOTED = advance(HELD, Recorded(1, ENTRIES), NOW)
KEYED = a_task("new", idempotency_key="k")


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


async def is_listed(store: Store) -> None:
    assert await soon(store.list(Query(owner=EVERYONE))) == [HELD]


FIRST, AGAIN = False, True
CUTS = {
    "before the first": (FIRST, {"up": 0}),
    "within the first": (FIRST, {"up": 40}),
    "within its answer": (FIRST, {"down": 40}),
    "within another": (AGAIN, {"up": 1}),
    "before its answer": (AGAIN, {"down": 0}),
    "in the end": (AGAIN, {"down": 20}),
}
VERBS = (is_inserted, is_inserted_under_a_key, is_replaced, is_deleted, is_read, is_listed)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize(("is_prepared", "cut"), CUTS.values(), ids=CUTS)
async def test_what_was_under_way_when_a_connection_broke_is_done_once(
    verb: Callable[[Store], Awaitable[None]], is_prepared: bool, cut: dict[str, int], proxy: Proxy, url: str
) -> None:
    async with open_store(through(proxy.port, url)) as store:
        await keep(store, a_task("kept"), CLAIMED)
        if is_prepared:
            await store.delete(await keep(store, a_task("other"), CLAIMED))
            await store.get("other")
        cuts = proxy.cuts
        proxy.cut_after(**cut)
        await verb(store)
        assert proxy.cuts > cuts


# Done, but the answer was lost


class Gate:
    """While it is closed nothing is written: whoever wants to waits in the middle of it."""

    def __init__(self, other: Session) -> None:
        self._other = other

    async def close(self) -> None:
        await self._other.run(
            """
            select pg_advisory_lock(7);
            create or replace function @.wait() returns trigger language plpgsql as $$
            begin
                perform pg_advisory_xact_lock_shared(7);
                return coalesce(new, old);
            end $$;
            create trigger wait before insert or update or delete on @.task for each row execute function @.wait();
            """
        )

    async def until_somebody_waits(self) -> None:
        await self._other.until("select exists (select from pg_locks where locktype = 'advisory' and not granted)")

    async def open(self) -> None:
        await self._other.run("select pg_advisory_unlock(7)")


@asynccontextmanager
async def done_but_unanswered(
    proxy: Proxy, url: str, write: Awaitable[object], is_done: str
) -> AsyncGenerator[asyncio.Future[object]]:
    """Have a write carried out, but not answered before this ends."""
    async with session(url) as other:
        gate = Gate(other)
        await gate.close()
        writing = asyncio.ensure_future(write)
        await gate.until_somebody_waits()
        proxy.is_shut = True
        proxy.cut()
        await gate.open()
        await other.until(is_done)
        yield writing
    proxy.is_shut = False


IS_KEPT = "select exists (select from @.task where id = 'new')"
IS_NOTED = "select version = 3 from @.task where id = 'kept'"
IS_GONE = "select not exists (select from @.task where id = 'kept')"


@pytest.mark.parametrize("task", [a_task("new"), KEYED], ids=["", "under a key"])
async def test_a_task_was_handed_in_though_a_worker_took_it_before_that_was_repeated(
    task: Task, proxy: Proxy, url: str
) -> None:
    async with open_store(through(proxy.port, url)) as store, open_store(url) as other:
        async with done_but_unanswered(proxy, url, store.insert(task, quota=1), IS_KEPT) as inserting:
            assert await other.replace(advance(task, CLAIMED, NOW))
        assert await soon(inserting) == task
        assert await store.list(Query(owner=EVERYONE)) == [advance(task, CLAIMED, NOW)]


async def test_a_write_counts_though_somebody_else_wrote_before_it_was_repeated(proxy: Proxy, url: str) -> None:
    async with open_store(through(proxy.port, url)) as store, open_store(url) as other:
        await keep(store, a_task("kept"), CLAIMED)
        async with done_but_unanswered(proxy, url, store.replace(NOTED, ENTRIES), IS_NOTED) as writing:
            assert await other.replace(advance(NOTED, Cancelled(), NOW))
        assert await soon(writing) is True
        assert await store.get("kept") == advance(NOTED, Cancelled(), NOW)
        assert tuple(await store.journal("kept")) == ENTRIES, "or it would be written again, on top of that"


async def test_a_deletion_counts_though_it_was_repeated(proxy: Proxy, url: str) -> None:
    async with open_store(through(proxy.port, url)) as store:
        await keep(store, a_task("kept"), CLAIMED, Recorded(1, ENTRIES))
        async with done_but_unanswered(proxy, url, store.delete(NOTED), IS_GONE) as deleting:
            pass
        assert await soon(deleting) is True
        assert await store.journal("kept") == []


async def test_a_write_that_is_refused_is_refused_after_a_break_too(proxy: Proxy, url: str) -> None:
    async with open_store(through(proxy.port, url)) as store:
        await keep(store, a_task("kept", "bob"), CLAIMED)
        proxy.cut_after(down=0)
        with pytest.raises(InvalidArgument, match="Task kept exists already"):
            await soon(store.insert(a_task("kept")))
        proxy.cut_after(down=0)
        assert not await soon(store.replace(advance(a_task("kept", "bob"), CLAIMED, NOW)))
        proxy.cut_after(down=0)
        assert not await soon(store.delete(a_task("kept", "bob")))


async def test_a_claim_that_is_repeated_while_it_is_still_under_way_is_not_taken_for_a_rivals(
    proxy: Proxy, url: str
) -> None:
    async with open_store(through(proxy.port, url) + LOGGED) as store, session(url) as other:
        await store.insert(a_task("kept"))
        gate = Gate(other)
        await gate.close()
        claiming = asyncio.ensure_future(store.replace(HELD))
        await gate.until_somebody_waits()
        tries = the_postgres().process.words().count("replace_1")
        proxy.cut()
        await until(lambda: claiming.done() or the_postgres().process.words().count("replace_1") > tries + 2)
        await gate.open()
        assert await soon(claiming) is True
        assert await store.get("kept") == HELD


async def test_a_write_whose_caller_went_away_still_wakes_those_who_wait_here(proxy: Proxy, url: str) -> None:
    async with open_store(through(proxy.port, url)) as store:
        await keep(store, a_task("kept"), CLAIMED)
        waiting = asyncio.ensure_future(store.get("kept", newer_than=2, timeout=FOREVER))
        async with done_but_unanswered(proxy, url, store.replace(NOTED, ENTRIES), IS_NOTED) as writing:
            writing.cancel()
        assert await soon(waiting) == NOTED
