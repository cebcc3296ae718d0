"""Rows that cannot be read are passed over: the others do not suffer."""

import logging
from datetime import timedelta

import pytest

from coatcheck import open_store
from coatcheck.errors import StoreUnusable
from coatcheck.store import EVERYONE, Query
from coatcheck.testing.builders import NOW, a_task
from tests.stores.served.helpers import FOREVER, ids, soon, stores, waiting
from tests.stores.served.insider import Insider

pytestmark = pytest.mark.anyio


async def test_a_task_that_cannot_be_read_is_passed_over_and_logged_once(
    url: str, insider: Insider, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(url) as store:
        for name in "abc":
            await store.insert(a_task(name))
        await insider.spoil("a", "{nonsense")
        await insider.spoil("c", "cc1 sealed with who knows what")
        for _ in range(2):
            assert ids(await soon(store.waiting(("slow",), limit=1, timeout=FOREVER))) == ["b"]
            assert ids(await store.waiting((), limit=1, timeout=0, is_for_others=True)) == ["b"]
            assert ids(await store.list(Query(owner=EVERYONE, limit=1))) == ["b"]
            assert ids(await store.list(Query(owner="ann", limit=1))) == ["b"]
            assert ids(await store.overdue(NOW + timedelta(days=1), limit=1)) == ["b"]
        assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
        assert {message.split(":")[0] for message in caplog.messages} == {
            "Task a is passed over",
            "Task c is passed over",
        }


@pytest.mark.usefixtures("_only_told")
async def test_tasks_that_cannot_be_read_are_no_work_to_return_with(
    url: str, insider: Insider, caplog: pytest.LogCaptureFixture
) -> None:
    async with stores(url, 2) as (store, other):
        await store.insert(a_task())
        await insider.spoil("a", "{nonsense")
        assert await store.waiting(("slow",), limit=1, timeout=0.01) == []
        async with waiting(store) as (wait,):
            await insider.until_idle(1)
            assert not wait.done()
            await other.insert(a_task("b"))
            assert ids(await soon(wait)) == ["b"]
    assert len(caplog.messages) == 1


async def test_nothing_is_read_of_a_task_that_is_not_to_be_seen(url: str, insider: Insider) -> None:
    async with open_store(url) as store:
        await store.insert(a_task())
        await insider.spoil("a", "{nonsense")
        with pytest.raises(StoreUnusable):
            await store.get("a", owner="ann", alive_at=NOW)
        for timeout in (0, FOREVER):
            assert await soon(store.get("a", owner="bob", timeout=timeout)) is None
            assert await soon(store.get("a", owner="ann", alive_at=NOW + timedelta(hours=1), timeout=timeout)) is None
