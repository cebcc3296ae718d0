"""Rows that cannot be read are passed over, and texts that cannot be kept are refused: the others do not suffer."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from coatcheck import new_key, open_store
from coatcheck.errors import InvalidArgument, KeyRefused, StoreUnusable
from coatcheck.lifecycle import Recorded, advance
from coatcheck.store import EVERYONE, Query
from coatcheck.task import ToolCall
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.stores.postgres.helpers import run
from tests.stores.served.helpers import CLAIMED, ids, keep

pytestmark = pytest.mark.anyio

TOMORROW = NOW + timedelta(days=1)


async def test_many_that_cannot_be_read_do_not_hide_the_one_that_can(url: str) -> None:
    async with open_store(url) as store:
        for number in range(30):
            await store.insert(a_task(f"bad{number}", age=60))
        await run(url, "update @.task set body = '{nonsense'")
        await store.insert(a_task("good", age=30))
        assert ids(await store.waiting(("slow",), limit=2, timeout=0)) == ["good"]
        assert ids(await store.overdue(TOMORROW, limit=2)) == ["good"]
    async with open_store(url) as store:
        assert ids(await store.list(Query(owner=EVERYONE, after=(NOW, ""), limit=5))) == ["good"]


async def test_who_asks_for_what_cannot_be_read_is_told_so(url: str) -> None:
    async with open_store(url) as store:
        await keep(store, a_task(idempotency_key="k"), CLAIMED, Recorded(1, (an_entry(),)))
        await run(url, "update @.entry set body = '{nonsense'")
        with pytest.raises(StoreUnusable, match="What the store holds for task a cannot be read"):
            await store.journal("a")
        await run(url, "update @.task set body = '{nonsense'")
        with pytest.raises(StoreUnusable, match="What the store holds for task a cannot be read"):
            await store.get("a")
        with pytest.raises(StoreUnusable, match="What the store holds for task a cannot be read"):
            await store.insert(a_task("b", idempotency_key="k"))
        assert await store.insert(a_task("c")) == a_task("c")


async def test_rows_that_were_exchanged_are_noticed_where_they_are_sealed(url: str) -> None:
    key = new_key()
    async with open_store(url, key=key) as store:
        await store.insert(a_task("a"))
        await store.insert(a_task("b"))
        await run(url, "update @.task t set body = o.body from @.task o where o.id <> t.id")
        with pytest.raises(KeyRefused):
            await store.get("a")
        assert await store.list(Query(owner=EVERYONE)) == []


# Texts

BAD = ("nul\0", "\ud800 alone")


@pytest.mark.parametrize("bad", BAD, ids=["nul", "surrogate"])
async def test_a_text_that_cannot_be_kept_is_refused_in_a_sentence(bad: str, url: str) -> None:
    versioned = replace(a_task(), call=ToolCall(tool="slow", version=bad))
    tasks = (a_task(bad), a_task(owner=bad), a_task(tool=bad), a_task(idempotency_key=bad), versioned)
    async with open_store(url) as store:
        for task in tasks:
            with pytest.raises(InvalidArgument, match="NUL characters or lone surrogates; leave them out"):
                await store.insert(task)
        assert await store.list(Query(owner=EVERYONE)) == []
        assert await store.insert(a_task()) == a_task()


@pytest.mark.parametrize("bad", BAD, ids=["nul", "surrogate"])
async def test_what_cannot_be_kept_is_not_there(bad: str, url: str) -> None:
    async with open_store(url) as store:
        await store.insert(a_task())
        assert await store.get(bad, newer_than=1, timeout=60) is None
        assert not await store.replace(advance(a_task(bad), CLAIMED, NOW))
        assert not await store.delete(a_task(bad))
        assert await store.journal(bad) == []
        assert await store.list(Query(owner=bad)) == []
        assert await store.waiting((bad,), limit=1, timeout=0) == []
        assert ids(await store.waiting((bad,), limit=1, timeout=0, is_for_others=True)) == ["a"]


async def test_any_other_text_is_kept(url: str) -> None:
    odd = "caf\u00e9 \U0001f9e5 '\"\\ {@.} %s $1 \t\r\n \x7f \u202e"
    task = a_task(odd, odd, tool=odd, idempotency_key=odd)
    async with open_store(url) as store:
        assert await store.insert(task) == task
        assert await store.insert(a_task("b", odd, idempotency_key=odd)) == task
        assert await store.get(odd) == task
        assert ids(await store.list(Query(owner=odd))) == [odd]
        assert ids(await store.waiting((odd,), limit=1, timeout=0)) == [odd]
        assert await store.delete(task)
