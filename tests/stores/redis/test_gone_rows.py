"""Rows that are gone without us: they expired, were evicted, or cannot be read. The others do not suffer."""

import logging
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from coatcheck import QuotaExceeded, open_store
from coatcheck.lifecycle import Recorded, advance
from coatcheck.store import EVERYONE, Query
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.databases.fixtures import new_url
from tests.stores.redis.helpers import CLAIMED, DONE, ask, ids, keep, key, soon

pytestmark = pytest.mark.anyio

DAY = 86_400_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    return new_url("redis", tmp_path)


def milliseconds_left(url: str, name: str) -> int:
    return ask(url, "PTTL", key(url, name))


async def test_what_has_ended_goes_away_by_itself_a_day_after_its_time(url: str) -> None:
    async with open_store(url) as store:
        task = a_task(idempotency_key="k")
        await keep(store, task, CLAIMED, Recorded(1, (an_entry(),)))
        idempotency = ask(url, "KEYS", key(url, "k:*"))[0].decode().split(":", 1)[1]
        names = ("t:a", "j:a", idempotency)
        assert [milliseconds_left(url, name) for name in names] == [-1, -1, -1], "unfinished work is kept for ever"
        kept = await store.get("a")
        assert kept
        assert await store.replace(advance(kept, DONE, NOW))
        for name in names:
            assert DAY < milliseconds_left(url, name) <= DAY + 3_600_000
        endless = replace(a_task("endless"), expires_at=None)
        await keep(store, endless, CLAIMED, DONE)
        assert milliseconds_left(url, "t:endless") == -1


async def test_ids_of_rows_that_are_gone_are_passed_over_and_forgotten(url: str) -> None:
    async with open_store(url) as store:
        for number in range(6):
            await store.insert(a_task(f"waiting{number}", age=number))
            await keep(store, a_task(f"held{number}", age=number), CLAIMED)
        for number in (0, 2, 3):
            ask(url, "DEL", key(url, f"t:waiting{number}"), key(url, f"t:held{number}"))
        assert ids(await store.waiting(("slow",), limit=2, timeout=0)) == ["waiting5", "waiting4"]
        assert ids(await store.waiting(("slow",), limit=9, timeout=0)) == ["waiting5", "waiting4", "waiting1"]
        assert ids(await store.list(Query(owner=EVERYONE, is_held=True, limit=2))) == ["held1", "held4"]
        assert ids(await store.list(Query(owner="ann", limit=3))) == ["waiting1", "held1", "waiting4"]
        assert len(await store.list(Query(owner=EVERYONE))) == 6
        assert len(await store.overdue(NOW + timedelta(days=1), limit=4)) == 4
        assert len(await store.overdue(NOW + timedelta(days=1), limit=9)) == 6
        sizes = {name: ask(url, "ZCARD", key(url, name)) for name in ("all", "o:+ann", "held", "due", "w:slow")}
        assert sizes == {"all": 6, "o:+ann": 6, "held": 3, "due": 6, "w:slow": 3}


async def test_a_quota_does_not_count_what_was_evicted(url: str) -> None:
    async with open_store(url) as store:
        for number in range(3):
            await store.insert(a_task(str(number)), quota=3)
        with pytest.raises(QuotaExceeded):
            await store.insert(a_task("more"), quota=3)
        ask(url, "DEL", key(url, "t:1"))
        assert await store.insert(a_task("more"), quota=3) == a_task("more")


async def test_an_idempotency_key_of_a_row_that_is_gone_is_free(url: str) -> None:
    async with open_store(url) as store:
        await store.insert(a_task(idempotency_key="k"))
        ask(url, "DEL", key(url, "t:a"))
        other = a_task("b", idempotency_key="k")
        assert await store.insert(other) == other
        assert await store.insert(a_task("c", idempotency_key="k")) == other


async def test_a_page_goes_on_where_the_last_one_ended_though_that_task_is_gone(url: str) -> None:
    async with open_store(url) as store:
        tasks = [a_task(name) for name in "edcba"]
        for task in tasks:
            await store.insert(task)
        page = await store.list(Query(owner="ann", limit=2))
        assert ids(page) == ["e", "d"]
        assert await store.delete(page[-1])
        assert ids(await store.list(Query(owner="ann", after=page[-1].position, limit=2))) == ["c", "b"]
        beyond = (NOW + timedelta(days=1), "a")
        assert ids(await store.list(Query(owner="ann", after=beyond))) == ["e", "c", "b", "a"]
        assert len(await store.list(Query(owner="ann"))) == 4


async def test_a_task_that_cannot_be_read_is_passed_over_and_logged_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(url) as store:
        for name in "abc":
            await store.insert(a_task(name))
        ask(url, "HSET", key(url, "t:a"), "b", "{nonsense")
        ask(url, "HSET", key(url, "t:c"), "b", b"cc1 sealed with who knows what")
        for _ in range(2):
            assert ids(await soon(store.waiting(("slow",), limit=1, timeout=60))) == ["b"]
            assert ids(await store.list(Query(owner=EVERYONE, limit=1))) == ["b"]
            assert ids(await store.overdue(NOW + timedelta(days=1), limit=1)) == ["b"]
        assert sorted(record.levelno for record in caplog.records) == [logging.ERROR] * 2
        assert {message.split(":")[0] for message in caplog.messages} == {
            "Task a is passed over",
            "Task c is passed over",
        }


async def test_tasks_that_cannot_be_read_are_no_work_to_return_with(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with open_store(url) as store, open_store(url) as other:
        await store.insert(a_task())
        ask(url, "HSET", key(url, "t:a"), "b", "{nonsense")
        assert await store.waiting(("slow",), limit=1, timeout=0.01) == []
        assert ask(url, "SCARD", key(url, "i:slow")) == 1
        await other.insert(a_task("b"))
        assert ids(await soon(store.waiting(("slow",), limit=1, timeout=60))) == ["b"]
    assert len(caplog.messages) == 1
