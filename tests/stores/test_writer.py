"""Group commit: what is written together is paid for once, and one bad write harms nobody else's."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from coatcheck import InvalidArgument, QuotaExceeded, StoreError, open_store
from coatcheck.lifecycle import Claimed, Recorded, advance
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.task import Task
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.stores.files import commits, sql, url

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
async def store(path: Path) -> AsyncGenerator[Store]:
    async with open_store(url(path)) as opened:
        yield opened


async def test_writes_that_wait_for_each_other_are_a_transaction_each(store: Store, path: Path) -> None:
    """Shows that the counting of transactions counts."""
    before = commits(path)
    for number in range(10):
        await store.insert(a_task(str(number)))
    assert commits(path) - before == 10


async def test_many_concurrent_writes_land_in_few_transactions(store: Store, path: Path) -> None:
    before = commits(path)
    await asyncio.gather(*(store.insert(a_task(str(number))) for number in range(500)))
    assert sql(path, "select count(*) from task") == [(500,)]
    assert 1 <= commits(path) - before <= 3


async def test_what_arrives_while_a_transaction_is_written_shares_the_next_one(store: Store, path: Path) -> None:
    async def client(name: int) -> None:
        task = await store.insert(a_task(str(name)))
        for attempt in range(5):
            task = replace(task, version=task.version + 1, attempt=attempt)
            assert await store.replace(task)

    before = commits(path)
    await asyncio.gather(*(client(name) for name in range(50)))
    assert commits(path) - before <= 50, "for 300 writes"


async def test_a_refused_write_does_not_fail_its_neighbours(store: Store, path: Path) -> None:
    await store.insert(a_task("taken"))
    before = commits(path)
    first, taken, over_quota, last = await asyncio.gather(
        store.insert(a_task("first", "bob")),
        store.insert(a_task("taken")),
        store.insert(a_task("over quota"), quota=1),
        store.insert(a_task("last", "bob")),
        return_exceptions=True,
    )
    assert commits(path) - before == 1, "they were neighbours"
    assert isinstance(taken, InvalidArgument)
    assert isinstance(over_quota, QuotaExceeded)
    assert [await store.get("first"), await store.get("last")] == [first, last]
    assert await store.get("over quota") is None


async def test_a_stale_write_does_not_fail_its_neighbours(store: Store) -> None:
    task = await store.insert(a_task())
    claims = [advance(task, Claimed(worker, NOW), NOW) for worker in ("w", "v")]
    writes = (store.replace(claims[0]), store.replace(claims[1]), store.delete(task))
    *written, fresh = await asyncio.gather(*writes, store.insert(a_task("b")))
    assert written == [True, False, False]
    assert await store.get("a") == claims[0]
    assert await store.get("b") == fresh


async def test_a_journal_that_cannot_be_appended_to_leaves_its_task_as_it_was(store: Store) -> None:
    held = advance(await store.insert(a_task()), Claimed("w", NOW), NOW)
    await store.replace(held)
    noted = advance(held, Recorded(1, (an_entry("first"),)), NOW)
    await store.replace(noted, (an_entry("first"),))
    miscounted = replace(noted, version=noted.version + 1)
    second, neighbour = await asyncio.gather(
        store.replace(miscounted, (an_entry("new"), an_entry("a second first"))),
        store.insert(a_task("b")),
        return_exceptions=True,
    )
    assert isinstance(second, StoreError)
    assert await store.get("a") == noted
    assert list(await store.journal("a")) == [an_entry("first")]
    assert await store.get("b") == neighbour


async def test_writes_take_effect_in_the_order_they_were_made(store: Store) -> None:
    versions = [replace(a_task(), version=number) for number in range(1, 200)]
    first = asyncio.ensure_future(store.insert(versions[0]))
    written = await asyncio.gather(*(store.replace(task) for task in versions[1:]))
    assert await first == versions[0]
    assert all(written)
    assert await store.get("a") == versions[-1]


async def test_a_write_whose_caller_gave_up_is_whole_or_not_there_and_others_go_on(store: Store) -> None:
    async def keep(task_id: str) -> Task:
        return await store.insert(a_task(task_id))

    given_up = [asyncio.ensure_future(keep(f"up{number}")) for number in range(20)]
    kept = [asyncio.ensure_future(keep(f"kept{number}")) for number in range(20)]
    await asyncio.sleep(0)
    for call in given_up:
        call.cancel()
    assert len(await asyncio.gather(*kept)) == 20
    found = await store.list(Query(owner=EVERYONE, limit=100))
    assert {task.id for task in await asyncio.gather(*kept)} <= {task.id for task in found}
    assert all(task == a_task(task.id) for task in found)
