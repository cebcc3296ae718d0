"""Connections break at any point: what was asked for is done, once, and nobody notices but for the delay."""

import asyncio
import re
from collections.abc import Sequence

import pytest

from coatcheck import open_store
from coatcheck.errors import InvalidArgument, StoreUnavailable
from coatcheck.lifecycle import Cancelled, Recorded, advance
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.task import Task
from coatcheck.testing.builders import NOW, a_task
from tests.processes import PATIENCE
from tests.stores.served.helpers import CLAIMED, FOREVER, keep, soon, through
from tests.stores.served.insider import Insider
from tests.stores.served.operations import ENTRIES, HELD, KEYED, NOTED, PROMISES, Operation, prepare
from tests.stores.served.proxy import Proxy

pytestmark = pytest.mark.anyio

FIRST, AGAIN = False, True
"""PostgreSQL is asked more when a statement is new to it."""
CUTS: dict[str, tuple[str, bool, dict[str, int]]] = {
    "redis, before all": ("redis", FIRST, {"up": 0}),
    "redis, in the beginning": ("redis", FIRST, {"up": 1}),
    "redis, within": ("redis", FIRST, {"up": 40}),
    "redis, before the answer": ("redis", FIRST, {"down": 0}),
    "redis, within the answer": ("redis", FIRST, {"down": 1}),
    "redis, in the end": ("redis", FIRST, {"down": 3}),
    "postgres, before the first": ("postgres", FIRST, {"up": 0}),
    "postgres, within the first": ("postgres", FIRST, {"up": 40}),
    "postgres, within its answer": ("postgres", FIRST, {"down": 40}),
    "postgres, within another": ("postgres", AGAIN, {"up": 1}),
    "postgres, before its answer": ("postgres", AGAIN, {"down": 0}),
    "postgres, in the end": ("postgres", AGAIN, {"down": 20}),
}


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize(("kind_of_store", "is_again", "cut"), CUTS.values(), ids=CUTS)
async def test_what_was_under_way_when_a_connection_broke_is_done_once(
    promise: Operation, is_again: bool, cut: dict[str, int], proxy: Proxy, url: str
) -> None:
    async with open_store(through(proxy.port, url)) as store:
        await prepare(store)
        if is_again:
            await store.delete(await keep(store, a_task("other"), CLAIMED))
            await store.get("other")
        cuts = proxy.cuts
        proxy.cut_after(**cut)
        await promise(store)
        assert proxy.cuts > cuts


# Done, but the answer was lost


async def until_kept(store: Store, expected: Sequence[Task]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await store.list(Query(owner=EVERYONE)) != expected:
            pass


@pytest.mark.parametrize("task", [a_task("new"), KEYED], ids=["", "under a key"])
async def test_a_task_was_handed_in_though_a_worker_took_it_before_that_was_repeated(
    task: Task, proxy: Proxy, url: str, insider: Insider
) -> None:
    async with open_store(through(proxy.port, url)) as store, open_store(url) as other:
        async with insider.unanswered(proxy, store.insert(task, quota=1)) as inserting:
            await until_kept(other, [task])
            assert await other.replace(advance(task, CLAIMED, NOW))
        assert await soon(inserting) == task
        assert await store.list(Query(owner=EVERYONE)) == [advance(task, CLAIMED, NOW)]


async def test_a_write_counts_though_somebody_else_wrote_before_it_was_repeated(
    proxy: Proxy, url: str, insider: Insider
) -> None:
    async with open_store(through(proxy.port, url)) as store, open_store(url) as other:
        await prepare(store)
        async with insider.unanswered(proxy, store.replace(NOTED, ENTRIES)) as writing:
            await until_kept(other, [NOTED])
            assert await other.replace(advance(NOTED, Cancelled(), NOW))
        assert await soon(writing) is True
        assert await store.get("kept") == advance(NOTED, Cancelled(), NOW)
        assert tuple(await store.journal("kept")) == ENTRIES, "or it would be written again, on top of that"


async def test_a_deletion_counts_though_it_was_repeated(proxy: Proxy, url: str, insider: Insider) -> None:
    async with open_store(through(proxy.port, url)) as store, open_store(url) as other:
        await keep(store, a_task("kept"), CLAIMED, Recorded(1, ENTRIES))
        async with insider.unanswered(proxy, store.delete(NOTED)) as deleting:
            await until_kept(other, [])
        assert await soon(deleting) is True
        assert await store.journal("kept") == []


@pytest.mark.usefixtures("_only_told")
async def test_a_write_whose_caller_went_away_still_wakes_those_who_wait_here(
    proxy: Proxy, url: str, insider: Insider
) -> None:
    async with open_store(through(proxy.port, url)) as store, open_store(url) as other:
        await prepare(store)
        waiting = asyncio.ensure_future(store.get("kept", newer_than=HELD.version, timeout=FOREVER))
        await insider.until_watched("kept")
        await store.get("kept")  # so that nothing else is on its way that could be cut off instead
        async with insider.unanswered(proxy, store.replace(NOTED, ENTRIES)) as writing:
            await until_kept(other, [NOTED])
            writing.cancel()
        assert await soon(waiting) == NOTED


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


# In vain


async def test_who_waits_in_vain_is_told_where_and_what_to_do(
    proxy: Proxy, url: str, insider: Insider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(through(proxy.port, url)) as store:
        insider.have_patience(monkeypatch, 0.5)
        proxy.is_shut = True
        proxy.cut()
        asked = (
            store.insert(a_task()),
            store.replace(a_task()),
            store.delete(a_task()),
            store.get("a"),
            store.list(Query(owner=EVERYONE)),
        )
        for outcome in await soon(asyncio.gather(*asked, return_exceptions=True)):
            assert isinstance(outcome, StoreUnavailable)
            assert re.match(insider.complaint(proxy.port), str(outcome))
        insider.have_patience(monkeypatch, PATIENCE)
        proxy.is_shut = False
        assert await soon(store.insert(a_task())) == a_task()
